// What the Flame page asks the node, and how the same is said on a command line.
import type { FlameState } from "../flame/view.ts";
import type { Filter } from "../flame/model.ts";
import { FILTER_NAMES } from "../flame/model.ts";
import { formatRange, type Range, spanOf } from "./range.ts";
import { shellQuote } from "./sql.ts";

/** What it is compared with: nothing, a window before, the other ranks, or another process. */
export type Versus = "" | "before" | "hour" | "median" | (string & {});

const HOUR = 3600e3;

/** The two windows of a comparison by time; null where it is none. */
function windows(range: Range, versus: Versus, now: number): [now: Window, before: Window] | null {
  if (versus !== "before" && versus !== "hour") return null;
  const span = spanOf(range) * 1000,
    to = range.live ? now : range.to;
  const back = versus === "before" ? span : HOUR;
  return [
    [to - span, to],
    [to - span - back, to - back],
  ];
}

type Window = [from: number, to: number];

/** Parameters of GET /api/flame. */
export function flameQuery(
  target: string,
  range: Range,
  versus: Versus,
  now: number,
): Record<string, string> {
  const whole = (ms: number) => String(Math.round(ms));
  const asked: Record<string, string> = target ? { target } : { dead: "1" };
  const both = windows(range, versus, now);
  if (both) {
    const [[from, to], [beforeFrom, beforeTo]] = both;
    Object.assign(asked, { from: whole(from), to: whole(to) });
    Object.assign(asked, { before_from: whole(beforeFrom), before_to: whole(beforeTo) });
    return asked;
  }
  if (range.live) asked.last = String(range.span);
  else Object.assign(asked, { from: whole(range.from), to: whole(range.to) });
  if (versus) asked.before = versus;
  return asked;
}

/** A time that `probing flamegraph --from` takes, in UTC's place of the reader. */
function local(ms: number): string {
  const at = new Date(ms - new Date(ms).getTimezoneOffset() * 60e3);
  return at.toISOString().slice(0, 19).replace("T", " ");
}

/** What shows the same in a terminal. */
export function flameCommand(target: string, range: Range, versus: Versus): string {
  const words = ["probing", target || "PID", "flamegraph"],
    span = formatRange(range);
  const time = range.live
    ? ["--last", span]
    : ["--from", shellQuote(local(range.from)), "--to", shellQuote(local(range.to))];
  if (versus === "before" && range.live) words.push("--diff", `${2 * range.span}s..${span}`, span);
  else if (versus === "hour" && range.live)
    words.push("--diff", `${3600 + range.span}s..1h`, span);
  else if (versus === "median" || /^\d/.test(versus)) {
    const one = range.live ? `${target}@${span}` : target;
    const other = versus === "median" || !range.live ? versus : `${versus}@${span}`;
    words.push("--diff", other, one);
  } else words.push(...time);
  return words.join(" ");
}

/** The view's state as parameters of the link; what is as usual is left out. */
export function toParams(state: FlameState, threads: string[]): Record<string, string | undefined> {
  return {
    f: state.filter === "all" ? undefined : state.filter,
    t: state.thread < 0 ? undefined : threads[state.thread],
    by: state.byThread ? "thread" : undefined,
    up: state.upwards ? "1" : undefined,
    q: state.find || undefined,
    w: state.window ? state.window.join("-") : undefined,
    old: state.showBefore ? "1" : undefined,
    z: state.zoom || undefined,
  };
}

export function fromParams(params: Record<string, string>, threads: string[]): Partial<FlameState> {
  const window = /^(\d+)-(\d+)$/.exec(params.w ?? "");
  const filter = (params.f ?? "") in FILTER_NAMES ? (params.f as Filter) : "all";
  return {
    filter,
    thread: params.t ? threads.indexOf(params.t) : -1,
    byThread: params.by === "thread",
    upwards: params.up === "1",
    find: params.q ?? "",
    window: window && +window[1]! < +window[2]! ? [+window[1]!, +window[2]!] : null,
    showBefore: params.old === "1",
    zoom: params.z ?? "",
  };
}
