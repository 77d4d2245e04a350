// The model's modules: time, GPU time and memory of each, what changed, and how they go over steps.
import { useMemo } from "preact/hooks";
import { counted, megabytes, milliseconds, number, percent } from "../lib/format.ts";
import { useLinked } from "../lib/linked.ts";
import { useWatch, type Watched } from "../lib/live.ts";
import { change, link } from "../lib/place.ts";
import { objects } from "../lib/rows.ts";
import { quote } from "../lib/sql.ts";
import { useStore } from "../lib/store.ts";
import { type Branch, treeOf, visible } from "../lib/tree.ts";
import { Grid } from "../view/grid.tsx";
import { HeatMap } from "../view/heatmap.tsx";
import { Nothing, Panel } from "../view/panel.tsx";
import { TraceButton } from "../view/trace.tsx";

// Of the chosen processes together: a call's time is the same thing in all of them.
const MODULES = (stage: string) => `
SELECT root, module, any_value(module_type) AS module_type, count(*) AS calls,
       count(DISTINCT (pid, step)) AS steps, median(duration_ms) AS median_ms,
       max(duration_ms) AS max_ms, sum(duration_ms) / count(DISTINCT (pid, step)) AS step_ms,
       sum(self_ms) / count(DISTINCT (pid, step)) AS self_ms, avg(gpu_ms) AS gpu_ms,
       avg(allocated_delta) AS delta_mb
FROM python.torch_trace
WHERE {time} AND stage = ${quote(stage)} AND phase = 'train'
GROUP BY root, module ORDER BY root, min(seq)`;
const CHANGED = (stage: string) => `
WITH calls AS (
    SELECT module, duration_ms, ntile(2) OVER (ORDER BY timestamp) AS half
    FROM python.torch_trace
    WHERE {time} AND stage = ${quote(stage)} AND phase = 'train')
SELECT module, median(duration_ms) FILTER (half = 1) AS before_ms,
       median(duration_ms) FILTER (half = 2) AS after_ms,
       100 * (after_ms / before_ms - 1) AS change_pct, count(*) OVER () AS modules
FROM calls GROUP BY module
HAVING count(*) FILTER (half = 1) >= 5 AND count(*) FILTER (half = 2) >= 5
ORDER BY abs(after_ms - before_ms) DESC LIMIT 10`;
const HEAT = (stage: string) => `
WITH calls AS (
    SELECT module, step, duration_ms,
           greatest(1, ceil((max(step) OVER () - min(step) OVER () + 1) / 120.0))::BIGINT AS every
    FROM python.torch_trace
    WHERE {time} AND stage = ${quote(stage)} AND phase = 'train'),
busiest AS (SELECT module FROM calls GROUP BY module ORDER BY sum(duration_ms) DESC LIMIT 40)
SELECT step // every * every AS step, module, avg(duration_ms) AS ms,
       (SELECT count(DISTINCT module) FROM calls) AS modules
FROM calls WHERE module IN (SELECT module FROM busiest)
GROUP BY ALL ORDER BY step`;

interface Module {
  root: string;
  module: string;
  module_type: string;
  calls: number;
  steps: number;
  median_ms: number;
  max_ms: number;
  step_ms: number;
  self_ms: number | null;
  gpu_ms: number | null;
  delta_mb: number | null;
}

/** The outermost module is named by its class, those inside by their way from it. */
function fullName(m: { root: string; module: string; module_type: string }): string {
  return m.module === m.module_type && m.root.startsWith(m.module)
    ? m.root
    : `${m.root}.${m.module}`;
}

const CALLS = (stage: string, module: string, root?: string) => `
SELECT * FROM python.torch_trace
WHERE {time} AND stage = ${quote(stage)} AND phase = 'train' AND module = ${quote(module)}${
  root === undefined ? "" : ` AND root = ${quote(root)}`
}
ORDER BY timestamp DESC`;

const STAGES = ["forward", "backward", "optimizer"];
const EMPTY = "No calls of modules were traced in this time.";

interface Traced {
  of: Watched;
  target: string;
  stage: string;
  rows: Module[];
}

function TreePanel({ of, target, stage, rows }: Traced) {
  const { params } = useStore(link),
    filter = (params.f ?? "").toLowerCase();
  // What somebody has opened, and what closed ("-name").
  const [folds, setFolds] = useLinked("fold");
  const folded = new Set(folds.split(",").filter(Boolean));
  const shown = filter
    ? rows.filter(
        (m) =>
          m.module.toLowerCase().includes(filter) || m.module_type.toLowerCase().includes(filter),
      )
    : rows;
  const tree = useMemo(() => treeOf(shown, fullName), [shown]);
  // As much of the tree as fits on a screen is open at first.
  const deep = useMemo(
    () =>
      filter
        ? 99
        : ([5, 4, 3, 2, 1].find((depth) => visible(tree, (b) => b.depth < depth).length <= 36) ??
          1),
    [tree, filter],
  );
  const isOpen = (b: Branch<Module>) =>
    folded.has(b.name) || (b.depth < deep && !folded.has("-" + b.name));
  const turn = (b: Branch<Module>) => {
    const name = isOpen(b) ? "-" + b.name : b.name;
    const rest = [...folded].filter((f) => f !== b.name && f !== "-" + b.name);
    setFolds([...rest, name].join(","));
  };
  const lines = visible(tree, isOpen),
    most = Math.max(1e-9, ...rows.map((m) => m.step_ms));
  const traced = Math.max(0, ...rows.map((m) => m.steps));
  const onGpu = rows.some((m) => m.gpu_ms !== null),
    inMemory = rows.some((m) => m.delta_mb);
  const cell = (b: Branch<Module>, f: (m: Module) => string) => (b.value ? f(b.value) : "");
  return (
    <Panel
      title="Modules"
      of={of}
      target={target}
      about={`time of one step${traced ? `, of ${number(traced)} traced` : ""}`}
      tools={
        <input
          type="search"
          placeholder="filter"
          aria-label="filter modules"
          value={params.f ?? ""}
          onInput={(e) => change({ f: e.currentTarget.value || undefined })}
        />
      }
    >
      {lines.length ? (
        <Grid
          label="modules"
          rows={lines}
          id={(b) => b.name}
          limit={1000}
          behind={(b) => (b.value ? CALLS(stage, b.value.module, b.value.root) : "")}
          columns={[
            {
              title: "module",
              show: (b) => (
                <span style={{ paddingLeft: `${b.depth * 14}px` }}>
                  {b.children.length ? (
                    <button
                      type="button"
                      class="plain fold"
                      aria-expanded={isOpen(b)}
                      aria-label={`${isOpen(b) ? "close" : "open"} ${b.name}`}
                      onClick={() => turn(b)}
                    >
                      {isOpen(b) ? "▾" : "▸"}
                    </button>
                  ) : (
                    <span class="fold" />
                  )}
                  {b.label}
                </span>
              ),
            },
            { title: "type", show: (b) => <span class="dim">{b.value?.module_type}</span> },
            {
              title: "time a step",
              number: true,
              doc: "average",
              show: (b) => cell(b, (m) => milliseconds(m.step_ms)),
            },
            {
              title: "share",
              show: (b) =>
                b.value && (
                  <span class="share" style={{ width: `${(90 * b.value.step_ms) / most}px` }} />
                ),
            },
            {
              title: "own",
              number: true,
              doc: "without modules inside",
              show: (b) => cell(b, (m) => (m.self_ms === null ? "" : milliseconds(m.self_ms))),
            },
            {
              title: "median call",
              number: true,
              doc: "half of the calls take longer",
              show: (b) => cell(b, (m) => milliseconds(m.median_ms)),
            },
            { title: "longest", number: true, show: (b) => cell(b, (m) => milliseconds(m.max_ms)) },
            ...(onGpu
              ? [
                  {
                    title: "on the GPU",
                    number: true,
                    doc: "a call, where it was measured",
                    show: (b: Branch<Module>) =>
                      cell(b, (m) => (m.gpu_ms === null ? "" : milliseconds(m.gpu_ms))),
                  },
                ]
              : []),
            ...(inMemory
              ? [
                  {
                    title: "leaves",
                    number: true,
                    doc: "memory in tensors that a call leaves",
                    show: (b: Branch<Module>) =>
                      cell(b, (m) => (m.delta_mb === null ? "" : megabytes(m.delta_mb))),
                  },
                ]
              : []),
            { title: "calls", number: true, show: (b) => cell(b, (m) => number(m.calls)) },
          ]}
        />
      ) : (
        <Nothing of={of} what={filter ? `No module has “${filter}” in its name.` : EMPTY} />
      )}
    </Panel>
  );
}

const SLOWEST = 10;

/** Without modules inside: where the time goes itself. */
function SlowestPanel({ of, target, stage, rows }: Traced) {
  const own = (m: Module) => m.self_ms ?? m.step_ms,
    whole = rows.reduce((sum, m) => sum + own(m), 0);
  const slowest = [...rows].sort((a, b) => own(b) - own(a));
  return (
    <Panel title="Slowest" about="by the time of their own in a step" of={of} target={target}>
      {slowest.length ? (
        <Grid
          label="slowest modules"
          rows={slowest}
          id={(m) => fullName(m)}
          limit={SLOWEST}
          behind={(m) => CALLS(stage, m.module, m.root)}
          columns={[
            { title: "module", show: (m) => m.module },
            { title: "own", number: true, show: (m) => milliseconds(own(m)) },
            {
              title: "of all",
              number: true,
              doc: "share of the time of all modules",
              show: (m) => percent((100 * own(m)) / (whole || 1)),
            },
            { title: "type", show: (m) => <span class="dim">{m.module_type}</span> },
          ]}
        />
      ) : (
        <Nothing of={of} what={EMPTY} />
      )}
    </Panel>
  );
}

interface Changed {
  module: string;
  before_ms: number;
  after_ms: number;
  change_pct: number;
  modules: number;
}

function ChangedPanel({ stage, target }: { stage: string; target: string }) {
  const of = useWatch({ sql: CHANGED(stage), target, whole: true, every: 10 });
  const rows = objects<Changed>(of.result);
  return (
    <Panel
      title="Most changed"
      about="median time of a call, second half of this time against the first"
      of={of}
      target={target}
    >
      {rows.length ? (
        <Grid
          label="most changed"
          rows={rows}
          id={(r) => r.module}
          all={rows[0]!.modules}
          behind={(r) => CALLS(stage, r.module)}
          columns={[
            { title: "module", show: (r) => r.module },
            { title: "before", number: true, show: (r) => milliseconds(r.before_ms) },
            { title: "after", number: true, show: (r) => milliseconds(r.after_ms) },
            {
              title: "change",
              number: true,
              show: (r) => (
                <span class={r.change_pct > 20 ? "bad" : ""}>
                  {(r.change_pct >= 0.05 ? "+" : "") + percent(Math.round(10 * r.change_pct) / 10)}
                </span>
              ),
            },
          ]}
        />
      ) : (
        <Nothing of={of} what="Too few calls to compare." />
      )}
    </Panel>
  );
}

function HeatPanel({ stage, target }: { stage: string; target: string }) {
  const of = useWatch({ sql: HEAT(stage), target, whole: true, every: 10 });
  const { rows, columns, values, modules } = useMemo(() => {
    const steps = [...new Set(of.result.rows.map((r) => r[0] as number))];
    const totals = new Map<string, number>();
    for (const [, module, ms] of of.result.rows as [number, string, number][])
      totals.set(module, (totals.get(module) ?? 0) + ms);
    const names = [...totals].sort((a, b) => b[1] - a[1]).map(([name]) => name);
    const at = new Map(steps.map((s, i) => [s, i])),
      row = new Map(names.map((n, i) => [n, i]));
    const values = names.map(() => new Array<number | null>(steps.length).fill(null));
    for (const [step, module, ms] of of.result.rows as [number, string, number][])
      values[row.get(module)!]![at.get(step)!] = ms;
    const modules = Number(of.result.rows[0]?.[3] ?? 0);
    return { rows: names, columns: steps.map((s) => number(s)), values, modules };
  }, [of.result]);
  const some = rows.length < modules ? `, ${counted(rows.length, modules)} modules` : "";
  return (
    <Panel
      title="Modules over steps"
      about={`average time of a call${some}`}
      of={of}
      target={target}
    >
      {rows.length ? (
        <HeatMap
          rows={rows}
          columns={columns}
          values={values}
          format={milliseconds}
          label="time of modules over steps"
          across="step"
          byRow
          onRow={(r) => change({ f: rows[r] })}
        />
      ) : (
        <Nothing of={of} what={EMPTY} />
      )}
    </Panel>
  );
}

export function Modules() {
  const { params } = useStore(link),
    target = params.p ?? "";
  const stage = STAGES.includes(params.stage ?? "") ? params.stage! : "forward";
  const of = useWatch({ sql: MODULES(stage), target, whole: true, every: 5 });
  const rows = useMemo(() => objects<Module>(of.result), [of.result]);
  return (
    <>
      <div class="row" role="group" aria-label="stage">
        {STAGES.map((s) => (
          <button
            key={s}
            type="button"
            aria-pressed={s === stage}
            onClick={() => change({ stage: s === "forward" ? undefined : s })}
          >
            {s}
          </button>
        ))}
        <span class="push" />
        <TraceButton target={target} />
      </div>
      <TreePanel of={of} target={target} stage={stage} rows={rows} />
      <HeatPanel stage={stage} target={target} />
      <div class="columns two">
        <SlowestPanel of={of} target={target} stage={stage} rows={rows} />
        <ChangedPanel stage={stage} target={target} />
      </div>
    </>
  );
}
