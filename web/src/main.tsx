import { render } from "preact";
import { loadSession, NodeError, refused, signIn } from "./lib/api.ts";
import { formatLink, parseLink } from "./lib/link.ts";
import { change, link } from "./lib/place.ts";
import { formatRange } from "./lib/range.ts";
import { followCluster } from "./lib/cluster.ts";
import { follow } from "./lib/processes.ts";
import { session } from "./lib/api.ts";
import { startTheme } from "./lib/theme.ts";
import { App } from "./app.tsx";
import { wholeRun } from "./view/rangechoice.tsx";
import "uplot/dist/uPlot.min.css";
import "./flame/flame.css";
import "./style/base.css";
import "./style/frame.css";
import "./style/views.css";
import "./style/pages.css";
import "./style/narrow.css";

/** A ticket or token in the address is used once and taken out of it at once. */
async function enter(): Promise<void> {
  const { page, params } = parseLink(location.hash),
    { ticket, token, ...rest } = params;
  let said = "";
  if (ticket || token) {
    link.value = { page, params: rest };
    history.replaceState(null, "", formatLink(link.value));
    try {
      await signIn(ticket ? "Ticket" : "Bearer", (ticket ?? token)!);
      return;
    } catch (error) {
      said = error instanceof NodeError ? error.message : "";
    }
  }
  await loadSession();
  refused.value = session.value?.signed_in ? "" : said;
}

/** An address that is pasted into this very window does not load the page again. */
function enterAgain(): void {
  const { ticket, token } = parseLink(location.hash).params;
  if (ticket || token) enter().catch(() => {}); // the node is gone, which is said elsewhere
}

/** A copied folder is of some day or other: without a time in the link all of it is shown. */
async function showRun(): Promise<void> {
  if (link.value.params.r) return;
  const run = await wholeRun(link.value.params.p ?? "").catch(() => null);
  if (run && !link.value.params.r) change({ r: formatRange(run) });
}

async function start(): Promise<void> {
  const root = document.getElementById("app")!;
  startTheme();
  try {
    await enter();
  } catch {
    setTimeout(start, 2000);
  }
  render(<App />, root);
  let following = false;
  const whenIn = () => {
    if (!session.value?.signed_in || following) return;
    following = true;
    if (session.value.store) void showRun();
    follow();
    followCluster();
  };
  session.watch(whenIn);
  whenIn();
}

addEventListener("hashchange", enterAgain);
void start();
