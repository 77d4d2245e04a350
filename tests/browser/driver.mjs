// A real browser that the end-to-end tests drive: lines of JSON in, one line of JSON out for each,
// with the same "id".
// usage: node driver.mjs WEB_FOLDER BROWSER
//
//   {"do": "page", "width", "height", "dark", "zone"}   a new window of its own, with no cookies
//   {"do": "run", "page": 0, "code", "args"}            code gets `page`, `context` and `args`
//   {"do": "report", "page": 0}                         what happened that must not
//   {"do": "close", "page": 0}
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";

const [web, executablePath] = process.argv.slice(2);
const { chromium } = createRequire(join(web, "package.json"))("playwright-core");
// Every name below .test is this machine: names of proxies, and of sites that are not ours.
const args = ["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP *.test 127.0.0.1"];
const browser = await chromium.launch({ executablePath, args });
const pages = [];

async function open({ width = 1400, height = 900, dark = false }) {
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: dark ? "dark" : "light",
    reducedMotion: "reduce",
    acceptDownloads: true,
  });
  context.setDefaultTimeout(60_000); // it only guards against hanging
  const page = await context.newPage();
  const seen = { requests: [], console: [], errors: [], policy: [] };
  await page.addInitScript(() => {
    window.policyReports = [];
    document.addEventListener("securitypolicyviolation", (event) =>
      window.policyReports.push(`${event.violatedDirective} ${event.blockedURI}`),
    );
  });
  page.on("request", (r) => seen.requests.push(`${r.method()} ${r.url()}`));
  page.on("console", (m) => {
    if (["error", "warning"].includes(m.type())) seen.console.push(`${m.type()}: ${m.text()}`);
  });
  page.on("pageerror", (e) => seen.errors.push(String(e.stack ?? e)));
  pages.push({ context, page, seen });
  return pages.length - 1;
}

async function report({ context, page, seen }) {
  const policy = await page.evaluate(() => window.policyReports ?? []).catch(() => []);
  void context;
  return { ...seen, policy };
}

const Code = Object.getPrototypeOf(async () => {}).constructor;
const actions = {
  page: open,
  run: ({ page: n, code, args }) =>
    new Code("page", "context", "args", code)(pages[n].page, pages[n].context, args ?? {}),
  report: ({ page: n }) => report(pages[n]),
  close: ({ page: n }) => pages[n].context.close(),
};

for await (const line of createInterface({ input: process.stdin })) {
  const wanted = JSON.parse(line);
  let answer;
  try {
    answer = { id: wanted.id, ok: (await actions[wanted.do](wanted)) ?? null };
  } catch (error) {
    answer = { id: wanted.id, error: String(error.stack ?? error) };
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
}
await browser.close();
