// What is wrong: the rows of the view `verdicts`, as a panel and as a word beside each process.
import { useEffect, useRef, useState } from "preact/hooks";
import { ask, failureFrom } from "../lib/api.ts";
import { duration, moment, shortPath } from "../lib/format.ts";
import { linkTo } from "../lib/link.ts";
import { paused } from "../lib/live.ts";
import { link } from "../lib/place.ts";
import { nameOf, type Process } from "../lib/processes.ts";
import { type Failure, NO_ROWS, objects, type Result } from "../lib/rows.ts";
import { useStore } from "../lib/store.ts";
import { Copied, Panel } from "./panel.tsx";

const VERDICTS = `
SELECT kind, class, confidence, ranks, pid, host, func, file, line, epoch_ms(since) AS since,
       what, why, next, victims
FROM verdicts`;

export interface Verdict {
  kind: string;
  class: string;
  confidence: string;
  ranks: string;
  pid: number;
  host: string;
  func: string | null;
  file: string | null;
  line: number | null;
  since: number;
  what: string;
  why: string;
  next: string;
  victims: string;
}

interface Judged {
  result: Result;
  failure: Failure | null;
  waiting: boolean;
  sql: string;
}
export interface Verdicts {
  of: Judged;
  rows: Verdict[];
}

/** Milliseconds until the first look, which what is seen at once goes before. */
const FIRST_MS = 1500;
/** Between two looks at least; and so many times what a look took, which many ranks make long. */
const LEAST_MS = 10000,
  SHARE = 80;

/**
 * Judging reads every thread of every process, so it is no part of the stream: it would hold up all
 * else. Only two looks tell what stands still: the second one soon follows the first.
 */
export function useVerdicts(target: string): Verdicts {
  const stopped = useStore(paused),
    judged = useRef(false);
  const [of, setOf] = useState<Judged>({
    result: NO_ROWS,
    failure: null,
    waiting: true,
    sql: VERDICTS.trim(),
  });
  useEffect(() => {
    judged.current = false;
    setOf((old) => ({ ...old, result: NO_ROWS, waiting: true }));
  }, [target]);
  useEffect(() => {
    if (stopped && judged.current) return;
    const abort = new AbortController();
    let looks = 0,
      timer = 0;
    const after = (ms: number) => {
      judged.current = looks > 1;
      if (stopped && judged.current) return;
      timer = setTimeout(look, ms) as unknown as number;
    };
    const look = async () => {
      if (document.hidden) return after(LEAST_MS);
      const began = performance.now(),
        question = { sql: VERDICTS, dead: false, quiet: true, ...(target ? { target } : {}) };
      try {
        const result = await ask(question, abort.signal);
        looks++;
        if (looks > 1 || result.rows.length)
          setOf((old) => ({ ...old, result, failure: null, waiting: false }));
      } catch (error) {
        if (abort.signal.aborted) return;
        setOf((old) => ({ ...old, failure: failureFrom(error), waiting: false }));
      }
      const took = performance.now() - began;
      after(looks === 1 ? Math.max(FIRST_MS, took) : Math.max(LEAST_MS, took * SHARE));
    };
    after(FIRST_MS);
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [target, stopped]);
  return { of, rows: objects<Verdict>(of.result) };
}

function isAt(p: Process, v: Verdict): boolean {
  return p.live && v.pid === p.pid && (!p.host || !v.host || p.host === v.host);
}

/** "rank 0 (pid 4242); pid 4243": is it one of those? */
export function isVictim(pid: number, victims: string): boolean {
  return [...victims.matchAll(/\bpid (\d+)/g)].some((found) => Number(found[1]) === pid);
}

/** What there is to say of one process; the worst of it decides where it is sorted. */
export function judge(
  p: Process,
  { of, rows }: Verdicts,
): { text: string; kind: "" | "bad" | "warn" | "dim"; why: string; order: number } {
  const own = rows.find((v) => isAt(p, v));
  if (own)
    return {
      text: own.class ? `${own.kind}: ${own.class}` : own.kind,
      kind: own.kind === "hang" || own.kind === "crash" ? "bad" : "warn",
      why: `${own.what}\n${own.why}`,
      order: 3,
    };
  const other = rows.find((v) => isVictim(p.pid, v.victims));
  if (other && p.live) {
    const whom = nameOf(other.ranks === "" ? null : Number(other.ranks), other.pid);
    return { text: `waits for ${whom}`, kind: "warn", why: other.what, order: 2 };
  }
  if (!p.live) return { text: "", kind: "dim", why: "", order: 0 };
  if (of.failure)
    return { text: "not known", kind: "dim", why: of.failure.message, order: 0 };
  if (of.waiting) return { text: "…", kind: "dim", why: "it is being looked at", order: 0 };
  const why = `nothing wrong was seen at ${moment(of.result.at)}`;
  return { text: "healthy", kind: "dim", why, order: 1 };
}

/** Nothing is shown while nothing is wrong. */
export function VerdictPanel({ verdicts, target }: { verdicts: Verdicts; target: string }) {
  const { of, rows } = verdicts;
  if (!rows.length) return null;
  return (
    <Panel title="What is wrong" of={of} target={target}>
      <ul class="verdicts">
        {rows.map((v) => (
          <li key={`${v.kind} ${v.host} ${v.pid}`}>
            <p>
              <a
                class={v.kind === "hang" || v.kind === "crash" ? "bad" : "warn"}
                href={linkTo(link.value, "process", { p: String(v.pid) })}
              >
                {v.kind}
                {v.class ? `: ${v.class}` : ""}
              </a>{" "}
              <span class="dim">
                {v.confidence}, since {moment(v.since)} (
                {duration((of.result.at - v.since) / 1000)})
              </span>
            </p>
            <p>{v.what}</p>
            {v.func && (
              <p>
                at {v.func}{" "}
                <span class="dim" title={v.file ?? ""}>
                  {shortPath(v.file ?? "")}:{v.line}
                </span>
              </p>
            )}
            <p class="dim">{v.why}</p>
            {v.next && <p>next: {v.next}</p>}
            <Copied text={`probing ${v.pid} diagnose -v`} what="copy as command line" />
          </li>
        ))}
      </ul>
    </Panel>
  );
}
