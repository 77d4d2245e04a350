// Memory of processes over time: resident, Python's own, tensors, GPU; and what grows.
import { useMemo } from "preact/hooks";
import { megabytes, moment, number } from "../lib/format.ts";
import { useWatch } from "../lib/live.ts";
import { link } from "../lib/place.ts";
import { nameOf } from "../lib/processes.ts";
import { objects } from "../lib/rows.ts";
import { quote } from "../lib/sql.ts";
import { useStore } from "../lib/store.ts";
import { Grid } from "../view/grid.tsx";
import { HeapPanel } from "../view/heap.tsx";
import { LinePanel } from "../view/linechart.tsx";
import { Nothing, Panel } from "../view/panel.tsx";
import { SitesPanel } from "../view/sites.tsx";

const RESIDENT = `
SELECT epoch_ms(time_bucket(INTERVAL {bucket} SECOND, timestamp)) AS t, rank, pid,
       avg(memory_mb) AS memory_mb
FROM memory_usage WHERE {time} GROUP BY t, rank, pid ORDER BY t`;
const INSIDE = `
SELECT epoch_ms(time_bucket(INTERVAL {bucket} SECOND, timestamp)) AS t, rank, pid,
       avg(python_mb) AS python_mb, avg(heap_mb) AS heap_mb, avg(blocks) AS blocks,
       sum(gc_ms) / {bucket} / 10 AS gc_pct, avg(cuda_allocated_mb) AS cuda_allocated_mb,
       avg(cuda_reserved_mb) AS cuda_reserved_mb
FROM python.memory WHERE {time} AND timestamp < time_bucket(INTERVAL {bucket} SECOND, now())
GROUP BY t, rank, pid ORDER BY t`;
const SUMMARY = `
SELECT rank, pid, arg_max(memory_mb, timestamp) AS now_mb, max(memory_mb) AS peak_mb,
       60 * regr_slope(memory_mb, epoch(timestamp)) AS mb_per_min,
       arg_max(cuda_allocated_mb, timestamp) AS cuda_mb
FROM memory_usage WHERE {time} GROUP BY rank, pid ORDER BY now_mb DESC`;
const GROWTH = `
SELECT module, module_type, mb_per_step, total_mb_per_step, last_mb, steps, rank, pid
FROM memory_growth ORDER BY mb_per_step DESC`;
const OOM = `
SELECT epoch_ms(timestamp) AS t, rank, pid, step, device, stage, inside, wanted, free, allocated,
       module, parameters, activations, message
FROM python.out_of_memory WHERE {time} AND coalesce(place, 1) = 1 ORDER BY timestamp DESC`;

interface Sum {
  rank: number | null;
  pid: number;
  now_mb: number;
  peak_mb: number;
  mb_per_min: number | null;
  cuda_mb: number | null;
}
interface Growth {
  module: string | null;
  module_type: string | null;
  mb_per_step: number;
  total_mb_per_step: number;
  last_mb: number;
  steps: number;
  rank: number | null;
  pid: number;
}
interface Oom {
  t: number;
  rank: number | null;
  pid: number;
  step: number | null;
  device: string;
  stage: string | null;
  inside: string | null;
  wanted: number;
  free: number | null;
  module: string | null;
  message: string;
}

function OomPanel({ target }: { target: string }) {
  const of = useWatch({ sql: OOM, target, whole: true, every: 10 }),
    rows = objects<Oom>(of.result);
  if (!rows.length) return null;
  return (
    <Panel title="Out of memory" of={of} target={target}>
      <Grid
        label="out of memory"
        rows={rows}
        id={(r) => `${r.t} ${r.pid}`}
        class={() => "marked"}
        columns={[
          { title: "when", show: (r) => moment(r.t) },
          { title: "process", show: (r) => nameOf(r.rank, r.pid) },
          { title: "device", show: (r) => r.device },
          { title: "wanted", number: true, show: (r) => megabytes(r.wanted) },
          { title: "free", number: true, show: (r) => (r.free === null ? "" : megabytes(r.free)) },
          { title: "in", show: (r) => [r.stage, r.inside].filter(Boolean).join(" ") },
          { title: "biggest module", show: (r) => r.module },
          { title: "", wide: true, show: (r) => <span title={r.message}>{r.message}</span> },
        ]}
      />
    </Panel>
  );
}

function SummaryPanel({ target }: { target: string }) {
  const of = useWatch({ sql: SUMMARY, target, whole: true, every: 3 }),
    rows = objects<Sum>(of.result);
  const cuda = rows.some((r) => r.cuda_mb !== null);
  return (
    <Panel title="Processes" of={of} target={target}>
      {rows.length ? (
        <Grid
          label="memory of processes"
          rows={rows}
          id={(r) => String(r.pid)}
          limit={200}
          sort={[0, false]}
          behind={(r) => `SELECT * FROM memory_usage WHERE {time} AND pid = ${r.pid}
ORDER BY timestamp DESC`}
          columns={[
            { title: "process", by: (r) => r.rank ?? r.pid, show: (r) => nameOf(r.rank, r.pid) },
            { title: "pid", number: true, by: (r) => r.pid, show: (r) => r.pid },
            { title: "now", number: true, by: (r) => r.now_mb, show: (r) => megabytes(r.now_mb) },
            {
              title: "peak",
              number: true,
              by: (r) => r.peak_mb,
              show: (r) => megabytes(r.peak_mb),
            },
            {
              title: "grows by",
              number: true,
              doc: "a minute, over this time",
              by: (r) => r.mb_per_min,
              show: (r) =>
                r.mb_per_min === null ? (
                  ""
                ) : Math.abs(r.mb_per_min) < 0.05 ? (
                  "flat"
                ) : (
                  <span class={r.mb_per_min > 10 ? "warn" : ""}>
                    {`${r.mb_per_min > 0 ? "+" : ""}${number(r.mb_per_min)} MB/min`}
                  </span>
                ),
            },
            ...(cuda
              ? [
                  {
                    title: "tensors on the GPU",
                    number: true,
                    show: (r: Sum) => (r.cuda_mb === null ? "" : megabytes(r.cuda_mb)),
                  },
                ]
              : []),
          ]}
        />
      ) : (
        <Nothing of={of} what="Nothing was measured in this time." />
      )}
    </Panel>
  );
}

function GrowthPanel({ target }: { target: string }) {
  const of = useWatch({ sql: GROWTH, target, every: 15 }),
    rows = objects<Growth>(of.result);
  return (
    <Panel title="Tensors that grow from step to step, by module" of={of} target={target}>
      {rows.length ? (
        <Grid
          label="growth"
          rows={rows}
          id={(r) => `${r.pid} ${r.module}`}
          behind={(r) => `SELECT * FROM python.torch_trace
WHERE pid = ${r.pid}${r.module === null ? "" : ` AND module = ${quote(r.module)}`}
ORDER BY timestamp DESC`}
          columns={[
            { title: "process", show: (r) => nameOf(r.rank, r.pid) },
            {
              title: "module",
              show: (r) => r.module ?? <span class="dim">not to be told by module</span>,
            },
            { title: "type", show: (r) => <span class="dim">{r.module_type}</span> },
            { title: "a step", number: true, show: (r) => "+" + megabytes(r.mb_per_step) },
            {
              title: "whole process",
              number: true,
              show: (r) => "+" + megabytes(r.total_mb_per_step),
            },
            { title: "now", number: true, show: (r) => megabytes(r.last_mb) },
            { title: "steps looked at", number: true, show: (r) => number(r.steps) },
          ]}
        />
      ) : (
        <Nothing of={of} what="Nothing grows from step to step." />
      )}
    </Panel>
  );
}

export function Memory() {
  const target = useStore(link).params.p ?? "";
  const resident = useWatch({ sql: RESIDENT, target }),
    inside = useWatch({ sql: INSIDE, target });
  const has = useMemo(() => {
    const known = (name: string) => {
      const i = inside.result.columns.findIndex((c) => c.name === name);
      return inside.result.rows.some((row) => row[i] !== null && row[i] !== undefined);
    };
    return { python: known("python_mb"), heap: known("heap_mb"), cuda: known("cuda_allocated_mb") };
  }, [inside.result]);
  const nothing = "Nothing was measured in this time.";
  return (
    <>
      <OomPanel target={target} />
      <SummaryPanel target={target} />
      <div class="columns">
        <LinePanel
          title="Resident memory"
          value="memory_mb"
          unit="MB"
          of={resident}
          target={target}
          nothing={nothing}
        />
        {has.heap && (
          <LinePanel
            title="Given out by malloc"
            value="heap_mb"
            unit="MB"
            of={inside}
            target={target}
            nothing={nothing}
            about="tensors in main memory, arrays, what libraries keep"
          />
        )}
        {has.python && (
          <LinePanel
            title="Python's own allocator"
            about="objects of up to 512 bytes"
            value="python_mb"
            unit="MB"
            of={inside}
            target={target}
            nothing={nothing}
          />
        )}
        <LinePanel
          title="Blocks that the interpreter has given out"
          value="blocks"
          unit=""
          of={inside}
          target={target}
          nothing="Comes from probes inside a process."
        />
        <LinePanel
          title="Garbage collection"
          about="share of the time"
          value="gc_pct"
          unit="%"
          zero
          of={inside}
          target={target}
          nothing="Comes from probes inside a process."
        />
        {has.cuda && (
          <LinePanel
            title="Tensors on the GPU"
            value="cuda_allocated_mb"
            unit="MB"
            of={inside}
            target={target}
            nothing={nothing}
          />
        )}
        {has.cuda && (
          <LinePanel
            title="Held by torch's allocator"
            value="cuda_reserved_mb"
            unit="MB"
            of={inside}
            target={target}
            nothing={nothing}
          />
        )}
      </div>
      <GrowthPanel target={target} />
      <SitesPanel target={target} />
      <HeapPanel target={target} />
    </>
  );
}
