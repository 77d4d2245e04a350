// How training goes: loss and pace, and what the steps spend their time on.
import { useMemo } from "preact/hooks";
import { milliseconds, number } from "../lib/format.ts";
import { useWatch, type Watched } from "../lib/live.ts";
import { change, link } from "../lib/place.ts";
import { inTarget, type Job, jobsOf, nameOf, processes } from "../lib/processes.ts";
import { formatRange } from "../lib/range.ts";
import { objects } from "../lib/rows.ts";
import { numeric, positions } from "../lib/series.ts";
import { useStore } from "../lib/store.ts";
import { theme } from "../lib/theme.ts";
import { Chart } from "../view/chart.tsx";
import { Grid } from "../view/grid.tsx";
import { LinePanel, useWindow } from "../view/linechart.tsx";
import { Nothing, Panel } from "../view/panel.tsx";
import { wholeRun } from "../view/rangechoice.tsx";
import { TraceButton } from "../view/trace.tsx";

const COLUMNS = `avg(loss) AS loss, avg(lr) AS lr, avg(grad_norm) AS grad_norm,
       avg(step_ms) AS step_ms, avg(samples_per_s) AS samples_per_s`;
const BY_TIME = `
SELECT epoch_ms(time_bucket(INTERVAL {bucket} SECOND, timestamp)) AS t, rank, pid, ${COLUMNS}
FROM python.training_logs WHERE {time}
GROUP BY t, rank, pid ORDER BY t`;
// About 300 points, whatever the number of steps.
const BY_STEP = `
SELECT step // every * every AS step, rank, pid, ${COLUMNS}
FROM (SELECT *, greatest(1, (max(step) OVER () - min(step) OVER ()) // 300) AS every
      FROM python.training_logs WHERE {time})
GROUP BY ALL ORDER BY step`;
// Communication comes last: it is under way during the others, and does not add to them.
const PARTS = ["data", "forward", "backward", "optimizer", "other", "comm"] as const;
const SPLIT = `
SELECT epoch_ms(time_bucket(INTERVAL {bucket} SECOND, timestamp)) AS t,
       ${PARTS.map((p) => `avg(${p}_ms) AS ${p}_ms`).join(", ")}
FROM python.training_logs WHERE {time} AND step_ms IS NOT NULL
GROUP BY t ORDER BY t`;
const BY_RANK = `
SELECT rank, pid, count(*) AS steps, max(step) AS step, median(step_ms) AS step_ms,
       quantile_cont(step_ms, 0.99) AS p99_ms, avg(samples_per_s) AS samples_per_s,
       ${PARTS.map((p) => `avg(${p}_ms) AS ${p}_ms`).join(", ")},
       arg_max(loss, timestamp) AS loss, any_value(model) AS model
FROM python.training_logs WHERE {time} AND step_ms IS NOT NULL
GROUP BY rank, pid ORDER BY rank, pid`;

interface RankRow extends Record<string, number | string | null> {
  rank: number | null;
  pid: number;
  steps: number;
  step: number;
  step_ms: number;
  p99_ms: number;
  samples_per_s: number | null;
  loss: number | null;
  model: string | null;
}

const EMPTY = "No training steps in this time.";

/** What a step is made of, over time. */
function SplitPanel({ target }: { target: string }) {
  const of = useWatch({ sql: SPLIT, target, every: 2 }),
    { lines: colours } = useStore(theme);
  const { x, lines } = useMemo(() => {
    const { x } = positions(of.result.rows);
    const lines = PARTS.map((part, k) => ({
      name: part,
      colour: colours[k]!,
      stacked: part !== "comm",
      dashed: part === "comm",
      values: of.result.rows.map((row) => numeric(row[k + 1])),
    })).filter((line) => line.values.some((v) => typeof v === "number"));
    return { x, lines };
  }, [of.result, colours]);
  const window = useWindow(of.result.at, x);
  return (
    <Panel
      title="A step's time, by what it is spent on"
      about="average of the chosen processes"
      of={of}
      target={target}
    >
      {lines.length ? (
        <Chart
          x={x}
          lines={lines}
          unit="ms"
          label="parts of a step"
          zero
          window={window}
          height={180}
        />
      ) : (
        <Nothing of={of} what={EMPTY} />
      )}
    </Panel>
  );
}

/** Parts of a step side by side: a rank that is not like the others is seen at once. */
function Bar({ row, most }: { row: RankRow; most: number }) {
  const { lines: colours } = useStore(theme);
  const parts = PARTS.map(
    (part, k) => [part, Number(row[`${part}_ms`] ?? 0), colours[k]!] as const,
  );
  const text = parts.filter(([, ms]) => ms > 0).map(([part, ms]) => `${part} ${milliseconds(ms)}`);
  const piece = ([part, ms, colour]: readonly [string, number, string]) => (
    <i key={part} style={{ width: `${(100 * ms) / most}%`, background: colour }} />
  );
  return (
    <div role="img" aria-label={text.join(", ")} title={text.join("\n")}>
      <div class="bar">{parts.slice(0, -1).map(piece)}</div>
      <div class="bar thin">{piece(parts.at(-1)!)}</div>
    </div>
  );
}

function RanksPanel({ of, target }: { of: Watched; target: string }) {
  const rows = objects<RankRow>(of.result),
    { lines: colours } = useStore(theme);
  const most = Math.max(
    1,
    ...rows.map((row) =>
      Math.max(
        Number(row.comm_ms ?? 0),
        PARTS.slice(0, -1).reduce((sum, part) => sum + Number(row[`${part}_ms`] ?? 0), 0),
      ),
    ),
  );
  const legend = PARTS.map((part, k) => (
    <span key={part}>
      <i style={{ background: colours[k] }} />
      {part}
    </span>
  ));
  return (
    <Panel
      title="Ranks side by side"
      of={of}
      target={target}
      about={<span class="legend squares">{legend}</span>}
    >
      {rows.length ? (
        <Grid
          label="ranks"
          rows={rows}
          id={(r) => String(r.pid)}
          limit={200}
          behind={(r) => `SELECT * FROM python.training_logs WHERE {time} AND pid = ${r.pid}
ORDER BY timestamp DESC`}
          columns={[
            { title: "process", by: (r) => r.rank ?? r.pid, show: (r) => nameOf(r.rank, r.pid) },
            { title: "pid", number: true, by: (r) => r.pid, show: (r) => r.pid },
            { title: "step", number: true, by: (r) => r.step, show: (r) => number(r.step) },
            {
              title: "step time",
              number: true,
              doc: "median",
              by: (r) => r.step_ms,
              show: (r) => milliseconds(r.step_ms),
            },
            {
              title: "99 %",
              number: true,
              doc: "99 % of the steps are faster",
              by: (r) => r.p99_ms,
              show: (r) => milliseconds(r.p99_ms),
            },
            {
              title: "samples/s",
              number: true,
              by: (r) => r.samples_per_s,
              show: (r) => number(r.samples_per_s),
            },
            { title: "loss", number: true, by: (r) => r.loss, show: (r) => number(r.loss) },
            { title: "parts", wide: true, show: (r) => <Bar row={r} most={most} /> },
          ]}
        />
      ) : (
        <Nothing of={of} what={EMPTY} />
      )}
    </Panel>
  );
}

/** Another run, or other ranks, beside what is shown: by step, over the time of both. */
function Compare({ target }: { target: string }) {
  const all = useStore(processes);
  const others = jobsOf(all).filter(
    (job) => job.processes.some((p) => p.probed) && !job.processes.some((p) => inTarget(p, target)),
  );
  if (!target || !others.length) return null;
  const keys = (job: Job) => job.processes.map((p) => p.key).join(",");
  const add = async (chosen: string) => {
    const both = `${target},${chosen}`;
    change({ p: both, x: "step" }, true);
    const run = await wholeRun(both).catch(() => null);
    if (run && link.value.params.p === both) change({ r: formatRange(run) });
  };
  return (
    <select
      aria-label="compare with"
      class="compare"
      value=""
      onChange={(e) => e.currentTarget.value && void add(e.currentTarget.value)}
    >
      <option value="">compare with …</option>
      {others.map((job) => (
        <option key={keys(job)} value={keys(job)}>
          {job.processes.length > 1 ? `${job.processes.length} ranks` : job.processes[0]!.pid}{" "}
          {job.name.slice(0, 40)}
          {job.processes.some((p) => p.live) ? "" : " (ended)"}
        </option>
      ))}
    </select>
  );
}

export function Training() {
  const { params } = useStore(link),
    target = params.p ?? "",
    steps = params.x === "step";
  const logs = useWatch({
    sql: steps ? BY_STEP : BY_TIME,
    target,
    whole: steps,
    every: steps ? 5 : 1,
  });
  const ranks = useWatch({ sql: BY_RANK, target, whole: true, every: 3 });
  const common = { of: logs, target, steps, nothing: EMPTY };
  const has = (value: string) => {
    const i = logs.result.columns.findIndex((c) => c.name === value);
    return logs.result.rows.some((row) => row[i] !== null);
  };
  const empty = !logs.waiting && !logs.failure && !logs.result.rows.length;
  return (
    <>
      <div class="row">
        <span class="dim">
          {ranks.result.rows.length
            ? `${objects<RankRow>(ranks.result)[0]!.model ?? "a model"}`
            : ""}
        </span>
        <span class="push" />
        <Compare target={target} />
        <TraceButton target={target} />
        <label class="dim">
          x axis{" "}
          <select
            value={steps ? "step" : "time"}
            onChange={(e) => change({ x: e.currentTarget.value === "step" ? "step" : undefined })}
          >
            <option value="time">time</option>
            <option value="step">step</option>
          </select>
        </label>
      </div>
      {empty ? (
        <Nothing of={logs} what={EMPTY} />
      ) : (
        <>
          <div class="columns">
            <LinePanel {...common} title="Loss" value="loss" unit="" />
            <LinePanel {...common} title="Step time" value="step_ms" unit="ms" zero />
            {has("samples_per_s") && (
              <LinePanel
                {...common}
                title="Samples a second"
                value="samples_per_s"
                unit="1/s"
                zero
              />
            )}
            {has("lr") && <LinePanel {...common} title="Learning rate" value="lr" unit="" />}
            {has("grad_norm") && (
              <LinePanel {...common} title="Norm of the gradients" value="grad_norm" unit="" />
            )}
            <SplitPanel target={target} />
          </div>
          <RanksPanel of={ranks} target={target} />
        </>
      )}
    </>
  );
}
