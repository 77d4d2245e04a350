// Hands a window of time to Perfetto's page, which the user's browser opens, or saves it as a file.
import { useEffect, useState } from "preact/hooks";
import { failureFrom, request } from "../lib/api.ts";
import { duration } from "../lib/format.ts";
import { link } from "../lib/place.ts";
import { parseRange } from "../lib/range.ts";
import { useStore } from "../lib/store.ts";

const PERFETTO = "https://ui.perfetto.dev";
/** At most so much of the past goes into one trace, in seconds: a browser has to hold it. */
const SPAN_MAX = 600;
const PATIENCE_MS = 60_000;

function isCut(r: string | undefined): boolean {
  const range = parseRange(r);
  return range.live && range.span > SPAN_MAX;
}

async function fetchTrace(
  target: string,
  r: string | undefined,
  format: string,
): Promise<ArrayBuffer> {
  const range = parseRange(r),
    asked: Record<string, string> = { format, ...(target ? { target } : { dead: "1" }) };
  if (range.live) asked.last = String(Math.min(range.span, SPAN_MAX));
  else Object.assign(asked, { from: String(range.from), to: String(range.to) });
  const answer = await request(`api/trace?${new URLSearchParams(asked)}`);
  return answer.arrayBuffer();
}

/** Perfetto says PONG when it is there; then it gets the bytes, from this window to that one. */
function hand(to: Window, buffer: ArrayBuffer, title: string): Promise<boolean> {
  return new Promise((done) => {
    const began = Date.now();
    const timer = setInterval(() => {
      if (to.closed || Date.now() - began > PATIENCE_MS) finish(false);
      else to.postMessage("PING", PERFETTO);
    }, 100);
    const onMessage = (event: MessageEvent) => {
      if (event.source !== to || event.origin !== PERFETTO || event.data !== "PONG") return;
      to.postMessage({ perfetto: { buffer, title, fileName: `${title}.pftrace` } }, PERFETTO);
      finish(true);
    };
    const finish = (handed: boolean) => {
      clearInterval(timer);
      removeEventListener("message", onMessage);
      done(handed);
    };
    addEventListener("message", onMessage);
  });
}

function save(buffer: ArrayBuffer, name: string): void {
  const at = URL.createObjectURL(new Blob([buffer])),
    a = document.createElement("a");
  a.href = at;
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(at), 10_000);
}

export function TraceButton({ target }: { target: string }) {
  const { params } = useStore(link),
    [said, setSaid] = useState("");
  const title = `probing-${(target || "all").split(",")[0]}`;
  useEffect(() => setSaid(""), [target, params.r]);

  const choose = async (how: string) => {
    // The window is opened at once, while the browser still knows that somebody asked for it.
    const window_ = how === "open" ? window.open(PERFETTO) : null;
    if (how === "open" && !window_)
      return setSaid("the browser opened no window: save the file, and open it there");
    setSaid("…");
    try {
      const buffer = await fetchTrace(target, params.r, how === "chrome" ? "chrome" : "perfetto");
      if (how === "chrome") save(buffer, `${title}.trace.json`);
      else if (how === "perfetto") save(buffer, `${title}.pftrace`);
      else if (!(await hand(window_!, buffer, title)))
        return setSaid("Perfetto's page did not answer: save the file, and open it there");
      setSaid(isCut(params.r) ? `the last ${duration(SPAN_MAX)} of it` : "");
    } catch (error) {
      window_?.close();
      setSaid(failureFrom(error).message);
    }
  };
  return (
    <>
      <button
        type="button"
        title="steps, modules, collectives, samples, memory and GPU of this time as tracks"
        onClick={() => void choose("open")}
      >
        Perfetto
      </button>
      <select
        class="trace"
        aria-label="save a trace of this time"
        value=""
        onChange={(event) => {
          const how = event.currentTarget.value;
          event.currentTarget.value = "";
          if (how) void choose(how);
        }}
      >
        <option value="">save trace …</option>
        <option value="perfetto">for Perfetto</option>
        <option value="chrome">for Chrome</option>
      </select>
      {said && (
        <span class="dim" role="status">
          {said}
        </span>
      )}
    </>
  );
}
