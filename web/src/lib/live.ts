// What the page watches: one stream for all queries that are on the screen.
import { useEffect, useRef, useState } from "preact/hooks";
import { ask, failureFrom, post } from "./api.ts";
import { paused } from "./paused.ts";
import { link } from "./place.ts";
import { processes, unambiguous } from "./processes.ts";
import { bucketOf, parseRange, type Range } from "./range.ts";
import { type Failure, grow, NO_ROWS, type Result } from "./rows.ts";
import { EventParser } from "./sse.ts";
import { forPeople, forStream } from "./sql.ts";
import { useStore } from "./store.ts";

export { paused } from "./paused.ts";

export interface Watch {
  /** A template, see sql.ts. With {time} it grows: its first column is milliseconds. */
  sql: string;
  target?: string;
  /** Seconds between two answers. */
  every?: number;
  /** Only living processes. */
  living?: boolean;
  /** Asked once for each time range, not again. */
  once?: boolean;
  /** No SQL yet. */
  off?: boolean;
  /** Has {time}, but is asked as a whole each time: sums, medians. */
  whole?: boolean;
}

export interface Watched {
  result: Result;
  failure: Failure | null;
  /** Nothing has come yet. */
  waiting: boolean;
  /** What was asked, for people. */
  sql: string;
}

interface Wanted {
  id: string;
  watch: Watch;
  range: Range;
  tell: (result: Result | null, failure: Failure | null) => void;
  result: Result;
  /** When the stream breaks, it goes on from here. */
  until: number;
}

class Stream {
  private readonly wanted = new Map<string, Wanted>();
  private abort: AbortController | null = null;
  private changing = 0;
  private wait = 500;

  add(w: Wanted): () => void {
    this.wanted.set(w.id, w);
    this.changed();
    return () => {
      this.wanted.delete(w.id);
      this.changed();
    };
  }

  /** Several views come and go at once: one new stream for all. */
  changed(): void {
    clearTimeout(this.changing);
    this.changing = setTimeout(() => this.restart(), 0) as unknown as number;
  }

  restart(): void {
    this.abort?.abort();
    this.abort = null;
    if (paused.value || document.hidden || this.wanted.size === 0) return;
    this.abort = new AbortController();
    void this.run(this.abort);
  }

  private body(): unknown {
    return {
      queries: [...this.wanted.values()].map((w) => {
        const grows = /\{time/.test(w.watch.sql) && !w.watch.whole;
        const span = w.range.live ? w.range.span : 0;
        const oldest = Date.now() - span * 1000;
        return {
          id: w.id,
          sql: grows ? forStream(w.watch.sql, w.range) : forPeople(w.watch.sql, w.range),
          target: w.watch.target || undefined,
          dead: !w.watch.living,
          every: w.watch.every ?? 1,
          span: span || undefined,
          bucket: bucketOf(w.range),
          from: grows && w.until > oldest ? Math.floor(w.until) : undefined,
        };
      }),
    };
  }

  private async run(abort: AbortController): Promise<void> {
    try {
      // Jupyter's proxy keeps an answer back until its end, unless this is all that is accepted.
      const headers = { Accept: "text/event-stream" };
      const answer = await post("api/stream", this.body(), { signal: abort.signal, headers });
      const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
      const parser = new EventParser();
      this.wait = 500;
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        for (const { event, data } of parser.feed(value)) this.take(event, JSON.parse(data));
      }
    } catch (error) {
      if (abort.signal.aborted) return;
      for (const w of this.wanted.values()) w.tell(null, failureFrom(error));
    }
    if (abort.signal.aborted) return;
    // The node went away, or a proxy in between had enough: the next question tells. Again, more
    // and more slowly.
    this.wait = Math.min(this.wait * 2, 10000);
    setTimeout(() => {
      if (this.abort === abort) this.restart();
    }, this.wait);
  }

  private take(event: string, data: Record<string, unknown>): void {
    const w = this.wanted.get(data.id as string);
    if (!w) return;
    if (event === "failed") return w.tell(null, data.error as Failure);
    const more: Result = { ...NO_ROWS, ...(data as unknown as Result), leftOut: null };
    if (typeof data.from === "number" && w.range.live) {
      w.result = grow(w.result, more, data.from, more.at - w.range.span * 1000);
      w.until = data.from + 1;
    } else {
      w.result = more;
    }
    w.tell(w.result, null);
  }
}

const stream = new Stream();
paused.watch(() => stream.changed());
if (typeof document !== "undefined")
  document.addEventListener("visibilitychange", () => stream.changed());

let ids = 0;

/** The answer to a query about the time that is shown, kept up to date while that is now. */
export function useWatch(given: Watch): Watched {
  const range = parseRange(useStore(link).params.r),
    all = useStore(processes);
  const watch = given.target === "" ? { ...given, target: unambiguous(all) } : given;
  const [state, setState] = useState<Omit<Watched, "sql">>({
    result: NO_ROWS,
    failure: null,
    waiting: true,
  });
  const known = useRef<Wanted | null>(null),
    of = useRef(watch.target);
  const sql = forPeople(watch.sql, range);
  const asked = [sql, watch.target, watch.living, watch.once, watch.every].join("|");
  const watches = !watch.once && (range.live || !/\{time/.test(watch.sql));

  useEffect(() => {
    if (watch.off) return;
    const tell = (result: Result | null, failure: Failure | null) =>
      setState((old) => ({
        result: result ?? old.result,
        failure,
        waiting: false,
      }));
    // Rows of another process are not shown under the name of this one.
    const same = of.current === watch.target;
    of.current = watch.target;
    const none = same ? {} : { result: NO_ROWS, failure: null };
    setState((old) => ({ ...old, ...none, waiting: true }));
    let leave: (() => void) | undefined;
    if (watches) {
      known.current = { id: String(++ids), watch, range, tell, result: NO_ROWS, until: 0 };
      leave = stream.add(known.current);
      if (!paused.value) return leave;
    }
    // Asked once: a paused page shows what somebody goes to as it is now.
    const abort = new AbortController();
    const question = {
      sql,
      dead: !watch.living,
      ...(watch.target ? { target: watch.target } : {}),
    };
    ask(question, abort.signal).then(
      (result) => tell(result, null),
      (error: unknown) => {
        if (!abort.signal.aborted) tell(null, failureFrom(error));
      },
    );
    return () => {
      leave?.();
      abort.abort();
    };
  }, [asked, watches, watch.off]);
  return { ...state, sql };
}
