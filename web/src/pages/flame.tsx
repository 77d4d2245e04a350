// Where the time went: the samples that are taken all the time, as a flame graph of any window, and
// as the difference of two windows or processes.
import { useEffect, useRef, useState } from "preact/hooks";
import type { FlameData } from "../flame/model.ts";
import { FlameView } from "../flame/view.ts";
import { failureFrom, getJson } from "../lib/api.ts";
import { flameCommand, flameQuery, fromParams, toParams, type Versus } from "../lib/flamequery.ts";
import { milliseconds, percent, shortPath } from "../lib/format.ts";
import { paused, useWatch } from "../lib/live.ts";
import { change, link } from "../lib/place.ts";
import { inTarget, jobsOf, nameOf, type Process, processes } from "../lib/processes.ts";
import { parseRange } from "../lib/range.ts";
import { objects, type Failure } from "../lib/rows.ts";
import { literalOf, quote } from "../lib/sql.ts";
import { useStore } from "../lib/store.ts";
import { theme } from "../lib/theme.ts";
import { Grid } from "../view/grid.tsx";
import { Copied, Nothing, Panel } from "../view/panel.tsx";
import { TraceButton } from "../view/trace.tsx";

// Threads beside the main one that merely rest, or did not run at all in this time, say nothing
// about it: the graph leaves them out, too.
const FUNCTIONS = `
WITH times AS (
  SELECT stack_id, sum(weight_ms) AS ms, sum(weight_ms) FILTER (on_cpu) AS running_ms,
         sum(weight_ms) FILTER (waits_gil) AS gil_wait_ms
  FROM (SELECT *, bool_or(on_cpu) OVER (PARTITION BY host, pid, tid) AS ran
        FROM python.samples WHERE {time})
  WHERE tid = pid OR (state <> 'idle' AND ran)
  GROUP BY stack_id),
frames AS (
  SELECT stack_id, func, file, min(depth) AS depth
  FROM python.stack_frames WHERE stack_id IN (SELECT stack_id FROM times)
  GROUP BY stack_id, func, file)
SELECT func, file, sum(ms) FILTER (depth = 0) AS self_ms, sum(ms) AS total_ms,
       sum(running_ms) FILTER (depth = 0) AS running_ms,
       sum(gil_wait_ms) FILTER (depth = 0) AS gil_wait_ms,
       (SELECT sum(ms) FROM times) AS all_ms, count(*) OVER () AS functions
FROM times JOIN frames USING (stack_id)
GROUP BY func, file ORDER BY self_ms DESC NULLS LAST, total_ms DESC LIMIT 40`;

interface FunctionRow {
  func: string;
  file: string | null;
  self_ms: number | null;
  total_ms: number;
  running_ms: number | null;
  gil_wait_ms: number | null;
  all_ms: number;
  functions: number;
}

/** Why there is nothing. */
interface Empty {
  empty: string;
}

const LEAST_MS = 5000;
/** Of the time between two questions, at most this part is the node's work. */
const SHARE = 20;

/** The tree of the chosen window; renewed while that is now. */
function useFlame(target: string, versus: Versus) {
  const range = parseRange(useStore(link).params.r),
    stopped = useStore(paused);
  const [data, setData] = useState<FlameData | null>(null);
  const [failure, setFailure] = useState<Failure | null>(null);
  const asked = JSON.stringify([target, range, versus]),
    known = useRef("");

  useEffect(() => {
    const abort = new AbortController();
    let timer = 0;
    const same = known.current === asked;
    if (!same) setData(null); // what was shown is of something else
    known.current = asked;
    const look = async () => {
      const began = performance.now();
      if (!document.hidden)
        try {
          const query = new URLSearchParams(flameQuery(target, range, versus, Date.now()));
          const told = await getJson<FlameData | Empty>(`api/flame?quiet=1&${query}`, {
            signal: abort.signal,
          });
          if ("empty" in told)
            setFailure({ code: "failed", message: told.empty, at: null, nearest: "" });
          else {
            setData(told);
            setFailure(null);
          }
        } catch (error) {
          if (!abort.signal.aborted) setFailure(failureFrom(error));
        }
      if (abort.signal.aborted || stopped || !range.live) return;
      const next = Math.max(LEAST_MS, (performance.now() - began) * SHARE);
      timer = setTimeout(look, next) as unknown as number;
    };
    if (!same || !stopped) void look();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [asked, stopped]);
  return { data, failure, range };
}

/** The graph; what lies below a rest is asked for when the user goes there. */
function Graph({ data, ask }: { data: FlameData; ask: (id: string) => Promise<FlameData | null> }) {
  const place = useRef<HTMLDivElement>(null),
    view = useRef<FlameView | null>(null);
  const part = useRef<string | null>(null),
    whole = useRef(data),
    { dark } = useStore(theme);
  whole.current = data;

  useEffect(() => {
    const v = new FlameView(place.current!, whole.current, {
      state: fromParams(link.value.params, whole.current.threads),
      isDark: () => theme.value.dark,
      onState: (state) => change(toParams(state, whole.current.threads)),
      onMore: async (id) => {
        part.current = id;
        const found = await ask(id);
        if (found && part.current === id) v.show(found);
      },
      onAll: () => {
        if (part.current === null) return;
        part.current = null;
        v.show(whole.current);
      },
    });
    view.current = v;
    return () => v.destroy();
  }, []);
  useEffect(() => {
    if (part.current === null) view.current?.show(data);
  }, [data]);
  useEffect(() => view.current?.redraw(), [dark]);
  return <div class="flame-page" ref={place} />;
}

function VersusChoice({ target, value }: { target: string; value: Versus }) {
  const all = useStore(processes),
    chosen = all.filter((p) => inTarget(p, target));
  const one = target && chosen.length === 1 ? chosen[0]! : null;
  const job = one && jobsOf(all).find((j) => j.processes.includes(one));
  const others = job ? job.processes.filter((p) => p !== one) : [];
  const name = (p: Process) => `${nameOf(p.rank, p.pid)}${p.live ? "" : " (ended)"}`;
  return (
    <label class="dim">
      compared with{" "}
      <select value={value} onChange={(e) => change({ vs: e.currentTarget.value || undefined })}>
        <option value="">nothing</option>
        <option value="before">the same length before</option>
        <option value="hour">an hour earlier</option>
        {(others.length > 1 || value === "median") && (
          <option value="median">the median of the other ranks</option>
        )}
        {others.map((p) => (
          <option key={p.key} value={p.key}>
            {name(p)}
          </option>
        ))}
        {/^\d/.test(value) && !others.some((p) => p.key === value) && (
          <option value={value}>{value}</option>
        )}
      </select>
    </label>
  );
}

function Functions({ target }: { target: string }) {
  const of = useWatch({ sql: FUNCTIONS, target, whole: true, every: 5 });
  const rows = objects<FunctionRow>(of.result);
  const share = (ms: number | null, row: FunctionRow) =>
    ms ? percent((100 * ms) / row.all_ms) : "";
  const time = (ms: number | null) => (ms ? milliseconds(ms) : "");
  return (
    <Panel
      title="Functions by their own time"
      about={
        rows.length
          ? `${rows.length} of ${rows[0]!.functions.toLocaleString("en-US")}; ` +
            `100 % is ${milliseconds(rows[0]!.all_ms)}, all threads together`
          : ""
      }
      of={of}
      target={target}
    >
      {rows.length ? (
        <Grid
          label="functions"
          rows={rows}
          id={(r) => `${r.func} ${r.file}`}
          behind={(r) => `SELECT * FROM python.samples WHERE {time} AND stack_id IN
      (SELECT stack_id FROM python.stack_frames
       WHERE func = ${quote(r.func)} AND file IS NOT DISTINCT FROM ${literalOf(r.file)})
ORDER BY timestamp DESC`}
          columns={[
            {
              title: "own",
              number: true,
              by: (r) => r.self_ms,
              show: (r) => share(r.self_ms, r),
            },
            {
              title: "total",
              number: true,
              doc: "with what it calls",
              by: (r) => r.total_ms,
              show: (r) => share(r.total_ms, r),
            },
            {
              title: "function",
              wide: true,
              by: (r) => r.func,
              show: (r) => (
                <>
                  {r.func}{" "}
                  <span class="dim" title={r.file ?? ""}>
                    {shortPath(r.file ?? "")}
                  </span>
                </>
              ),
            },
            {
              title: "running",
              number: true,
              doc: "own time on a processor, or ready for one",
              by: (r) => r.running_ms,
              show: (r) => time(r.running_ms),
            },
            {
              title: "waiting for the GIL",
              number: true,
              by: (r) => r.gil_wait_ms,
              show: (r) => time(r.gil_wait_ms),
            },
          ]}
        />
      ) : (
        <Nothing of={of} what="No samples in this time." />
      )}
    </Panel>
  );
}

export function Flame() {
  const { params } = useStore(link),
    target = params.p ?? "",
    versus: Versus = params.vs ?? "";
  const { data, failure, range } = useFlame(target, versus);
  const below = async (id: string) => {
    const query = new URLSearchParams({
      ...flameQuery(target, range, versus, Date.now()),
      below: id,
    });
    try {
      return await getJson<FlameData>(`api/flame?${query}`);
    } catch {
      return null; // what is shown stays, with its rest
    }
  };
  return (
    <>
      <Panel
        title="Where the time went"
        about={data?.info}
        tools={
          <>
            <VersusChoice target={target} value={versus} />
            <TraceButton target={target} />
            <Copied text={flameCommand(target, range, versus)} what="copy as command line" />
          </>
        }
      >
        {failure && (
          <div class={`nothing ${failure.code === "failed" ? "dim" : "bad"}`} role="alert">
            <p>{failure.message}</p>
            {failure.code === "failed" && (
              <p>
                Probed processes are sampled 19 times a second while a node runs:{" "}
                <code>probing PID inject</code> begins it. One that has no probes can be recorded
                for some seconds: <code>probing {target || "PID"} flamegraph</code>.
              </p>
            )}
          </div>
        )}
        {data ? (
          <Graph data={data} ask={below} />
        ) : (
          !failure && (
            <p class="nothing dim" aria-busy="true">
              …
            </p>
          )
        )}
      </Panel>
      <Functions target={target} />
    </>
  );
}
