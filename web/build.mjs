// Builds the page and the flame graph's file. usage: node build.mjs OUT
//
// OUT/flame-head.html and OUT/flame-tail.html: what stands before and behind the data in the file
// that `probing flamegraph -f html` writes.
// OUT/page_files.S: the page of a node, compressed: an assembly file that puts a table of
// `struct pb_page_file` (src/node/http/page/page.h) and the bytes into the executable.
// OUT/page/: the same files as they are served, and OUT/sizes.json, what each weighs.
import { createHash } from "node:crypto";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { basename, dirname, extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2];
if (!out) {
  console.error("usage: node build.mjs OUT");
  process.exit(2);
}

const common = {
  absWorkingDir: here,
  bundle: true,
  minify: true,
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  logLevel: "warning",
  write: false,
};

/** One script and one style; `</script` in a string of ours would end the element. */
async function flameFile() {
  const result = await build({
    ...common,
    charset: "ascii", // see put_data in src/recording/formats/html.c
    entryPoints: ["src/flame/file.ts"],
    format: "iife",
    outdir: "unused",
  });
  const text = (ending) => result.outputFiles.find((f) => f.path.endsWith(ending)).text;
  const page = await readFile(join(here, "src/flame/file.html"), "utf8");
  const [head, tail] = page
    .replace("/*style*/", () => text(".css"))
    .replace("/*script*/", () => text(".js").replaceAll("</script", "<\\/script"))
    .split("/*data*/");
  await writeFile(join(out, "flame-head.html"), head);
  await writeFile(join(out, "flame-tail.html"), tail);
}

const TYPES = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};

/** Paths as they are served, and bytes. What is hashed by name lies below /assets/. */
async function pageFiles() {
  const result = await build({
    ...common,
    entryPoints: { page: "src/main.tsx" },
    format: "esm",
    splitting: true,
    outdir: "unused",
    entryNames: "[name]-[hash]",
    chunkNames: "[name]-[hash]",
    assetNames: "[name]-[hash]",
    loader: { ".svg": "file" },
    jsx: "automatic",
    jsxImportSource: "preact",
    metafile: true,
    define: { "process.env.NODE_ENV": '"production"' },
  });
  const files = result.outputFiles.map((f) => [basename(f.path), Buffer.from(f.contents)]);
  const first = Object.entries(result.metafile.outputs).find(
    ([, o]) => o.entryPoint === "src/main.tsx",
  );
  const icon = await readFile(join(here, "src/icon.svg"));
  const iconName = `icon-${createHash("sha256").update(icon).digest("hex").slice(0, 8)}.svg`;
  files.push([iconName, icon]);
  // Whatever the first script imports at once is asked for with it.
  const wanted = first[1].imports
    .filter((i) => i.kind === "import-statement")
    .map((i) => `<link rel="modulepreload" href="assets/${basename(i.path)}">`);
  const html = (await readFile(join(here, "src/index.html"), "utf8")).replace("<!--first-->", () =>
    [
      `<link rel="icon" href="assets/${iconName}">`,
      `<link rel="stylesheet" href="assets/${basename(first[1].cssBundle)}">`,
      ...wanted,
      `<script type="module" src="assets/${basename(first[0])}"></script>`,
    ].join("\n"),
  );
  return [["/", Buffer.from(html)], ...files.map(([name, data]) => [`/assets/${name}`, data])];
}

/** Text for `.asciz`; nothing of ours has a quote or a backslash in it. */
const asciz = (text) => `.asciz "${text}"`;

async function embed(files) {
  const folder = join(out, "page"),
    rows = [],
    bytes = [],
    sizes = {};
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  for (const [i, [path, data]] of files.entries()) {
    const name = path === "/" ? "index.html" : basename(path),
      packed = gzipSync(data, { level: 9 });
    const etag = createHash("sha256").update(data).digest("hex").slice(0, 16);
    const file = join(folder, name + ".gz");
    await writeFile(join(folder, name), data);
    await writeFile(file, packed);
    sizes[path] = packed.length;
    bytes.push(
      `.Lpath${i}: ${asciz(path)}`,
      `.Ltype${i}: ${asciz(TYPES[extname(name)])}`,
      `.Letag${i}: ${asciz(etag)}`,
      `.Ldata${i}: .incbin "${file}"`,
      `.Lend${i}:`,
    );
    rows.push(`.quad .Lpath${i}, .Ltype${i}, .Letag${i}, .Ldata${i}, .Lend${i} - .Ldata${i}`);
  }
  await writeFile(join(out, "sizes.json"), JSON.stringify(sizes, null, 1) + "\n");
  await writeFile(
    join(out, "page_files.S"),
    [
      ".section .rodata",
      ...bytes,
      '.section .data.rel.ro, "aw"',
      ".balign 8",
      ".globl pb_page_files",
      ".hidden pb_page_files",
      "pb_page_files:",
      ...rows,
      ".quad 0, 0, 0, 0, 0",
      '.section .note.GNU-stack, "", %progbits',
      "",
    ].join("\n"),
  );
}

await mkdir(out, { recursive: true });
await flameFile();
await embed(await pageFiles());
