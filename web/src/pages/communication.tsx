// What goes on between ranks: operations over time, those that hang, who keeps the others waiting.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import {
  counted,
  milliseconds,
  number,
  percent,
  quantity,
  shortPath,
  timeMarks,
} from "../lib/format.ts";
import { useWatch } from "../lib/live.ts";
import { link } from "../lib/place.ts";
import { nameOf } from "../lib/processes.ts";
import { parseRange } from "../lib/range.ts";
import { objects } from "../lib/rows.ts";
import { literalOf, quote } from "../lib/sql.ts";
import { useStore } from "../lib/store.ts";
import { theme } from "../lib/theme.ts";
import { Grid } from "../view/grid.tsx";
import { HeatMap } from "../view/heatmap.tsx";
import { LinePanel } from "../view/linechart.tsx";
import { Nothing, Panel } from "../view/panel.tsx";
import { TraceButton } from "../view/trace.tsx";

// To find out who is missing torch is asked, inside the processes: only when something waits.
const WAITING = `
SELECT count(*) AS n FROM comm_metrics
WHERE latency_ms IS NULL AND state IN ('started', 'enqueued')
      AND timestamp BETWEEN now() - INTERVAL 1 DAY AND now() - INTERVAL 5 SECOND`;
const HUNG = `SELECT * FROM hung_collectives ORDER BY problem, rank`;
// The view slow_ranks, of the time that is shown.
const LATE = `
WITH operations AS (
    SELECT timestamp, rank, pid, job, group_name, seq, max(latency_ms) AS latency_ms
    FROM python.comm
    WHERE {time} AND seq IS NOT NULL AND op NOT IN ('send', 'recv') AND state <> 'seen'
    GROUP BY ALL),
runs AS (
    SELECT *, row_number() OVER (PARTITION BY job, group_name, seq, rank ORDER BY timestamp) AS run
    FROM operations),
calls AS (
    SELECT rank, pid, group_name, latency_ms,
           epoch_us(timestamp - min(timestamp) OVER same) / 1000.0 AS late_ms,
           timestamp = max(timestamp) OVER same AS is_last, count(*) OVER same AS ranks
    FROM runs WINDOW same AS (PARTITION BY job, group_name, seq, run))
SELECT rank, pid, group_name, avg(late_ms) AS late_ms, max(late_ms) AS max_late_ms,
       100.0 * count(*) FILTER (is_last) / count(*) AS last_pct, avg(latency_ms) AS latency_ms,
       count(*) AS collectives
FROM calls WHERE ranks > 1
GROUP BY rank, pid, group_name ORDER BY late_ms DESC`;
const LATENCY = `
SELECT epoch_ms(time_bucket(INTERVAL {bucket} SECOND, timestamp)) AS t, rank, pid,
       least(100, sum(latency_ms) / {bucket} / 10) AS busy_pct
FROM comm_metrics WHERE {time} AND latency_ms IS NOT NULL
     AND timestamp < time_bucket(INTERVAL {bucket} SECOND, now())
GROUP BY t, rank, pid ORDER BY t`;
const OPS = `
SELECT op, group_name, count(*) AS n, median(latency_ms) AS median_ms,
       quantile_cont(latency_ms, 0.99) AS p99_ms, max(latency_ms) AS max_ms,
       sum(bytes) AS bytes, avg(bytes) AS size
FROM comm_metrics WHERE {time} GROUP BY op, group_name ORDER BY sum(latency_ms) DESC`;
// Operations that stand for themselves in a picture of a few hundred pixels: the last seconds.
const RECENT = `
SELECT epoch_ms(timestamp) AS t, rank, pid, op, seq, coalesce(latency_ms,
       epoch_ms(now()) - epoch_ms(timestamp)) AS ms, state, bytes, count(*) OVER () AS operations
FROM comm_metrics WHERE {window}
ORDER BY timestamp DESC LIMIT 4000`;
const MATRIX = `
SELECT src_rank, dst_rank, avg(latency_ms) AS ms, count(*) AS n FROM comm_metrics
WHERE {time} AND dst_rank IS NOT NULL AND src_rank <> dst_rank AND op IN ('send', 'recv')
GROUP BY src_rank, dst_rank`;
const BY_OP = `
SELECT rank, op, avg(latency_ms) AS ms FROM comm_metrics
WHERE {time} AND rank IS NOT NULL AND latency_ms IS NOT NULL GROUP BY rank, op`;

interface Hung {
  problem: string;
  rank: number | null;
  op: string;
  group_name: string;
  seq: number;
  waiting_s: number;
  func: string | null;
  file: string | null;
  lineno: number | null;
  pid: number;
}
interface Late {
  rank: number;
  pid: number;
  group_name: string;
  late_ms: number;
  max_late_ms: number;
  last_pct: number;
  latency_ms: number;
  collectives: number;
}
interface Op {
  op: string;
  group_name: string | null;
  n: number;
  median_ms: number | null;
  p99_ms: number | null;
  max_ms: number | null;
  bytes: number;
  size: number;
}
interface Recent {
  t: number;
  rank: number | null;
  pid: number;
  op: string;
  seq: number | null;
  ms: number;
  state: string;
  bytes: number | null;
  /** Of all ranks in this time, of which the last are drawn. */
  operations: number;
}

function HungPanel({ target }: { target: string }) {
  const waiting = useWatch({ sql: WAITING, target, every: 5, living: true });
  const some = Number(waiting.result.rows[0]?.[0] ?? 0) > 0;
  const of = useWatch({ sql: HUNG, target, every: 10, living: true, off: !some });
  const rows = objects<Hung>(of.result);
  if (!some || (!rows.length && !of.failure)) return null;
  return (
    <Panel title="Operations that do not end" of={of} target={target}>
      {rows.length ? (
        <Grid
          label="hung operations"
          rows={rows}
          id={(r) => `${r.pid} ${r.group_name} ${r.seq}`}
          class={(r) => (r.problem === "missing" ? "marked" : "")}
          columns={[
            { title: "rank", number: true, show: (r) => r.rank },
            {
              title: "",
              show: (r) => (r.problem === "missing" ? <b class="bad">has not come</b> : "waits"),
            },
            { title: "operation", show: (r) => `${r.op} #${r.seq}` },
            { title: "group", show: (r) => r.group_name },
            { title: "since", number: true, show: (r) => milliseconds(r.waiting_s * 1000) },
            {
              title: "is in",
              wide: true,
              show: (r) =>
                r.func && (
                  <>
                    {r.func}{" "}
                    <span class="dim">
                      {shortPath(r.file ?? "")}:{r.lineno}
                    </span>
                  </>
                ),
            },
          ]}
        />
      ) : (
        <Nothing of={of} what="" />
      )}
    </Panel>
  );
}

/** Each operation of each rank where and as long as it was. */
function Lanes({ rows }: { rows: Recent[] }) {
  const canvas = useRef<HTMLCanvasElement>(null),
    box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(600),
    [over, setOver] = useState<Recent | null>(null);
  const { dark, lines: colours } = useStore(theme),
    row = 18;
  const ranks = useMemo(
    () =>
      [...new Map(rows.map((r) => [`${r.rank ?? ""}/${r.pid}`, r])).values()].sort(
        (a, b) => (a.rank ?? 0) - (b.rank ?? 0) || a.pid - b.pid,
      ),
    [rows],
  );
  const ops = useMemo(() => [...new Set(rows.map((r) => r.op))].sort(), [rows]),
    most = rows[0]!.operations;
  const from = Math.min(...rows.map((r) => r.t)),
    to = Math.max(...rows.map((r) => r.t + r.ms), from + 1);
  const names = 76,
    room = Math.max(width - names, 50),
    height = ranks.length * row + 18;
  const x = (t: number) => names + ((t - from) / (to - from)) * room;
  const lane = new Map(ranks.map((r, i) => [r.pid, i]));

  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => setWidth(entry!.contentRect.width));
    watch.observe(box.current!);
    return () => watch.disconnect();
  }, []);
  useEffect(() => {
    const pen = canvas.current?.getContext("2d"),
      ratio = devicePixelRatio || 1;
    if (!pen) return;
    canvas.current!.width = width * ratio;
    canvas.current!.height = height * ratio;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    const ink = dark ? "#979da5" : "#666c73";
    ranks.forEach((r, i) => {
      pen.fillStyle = ink;
      pen.fillText(nameOf(r.rank, r.pid), 0, i * row + row / 2);
      pen.fillRect(names, (i + 1) * row - 0.5, room, 0.3);
    });
    for (const r of rows) {
      const y = lane.get(r.pid)! * row,
        w = Math.max((r.ms / (to - from)) * room, 1);
      pen.fillStyle = colours[ops.indexOf(r.op) % colours.length]!;
      pen.globalAlpha = r.state === "done" || r.state === "seen" ? 0.8 : 0.35;
      pen.fillRect(x(r.t), y + 3, w, row - 6);
      pen.globalAlpha = 1;
    }
    pen.fillStyle = ink;
    for (const mark of timeMarks(from, to, Math.floor(room / 110))) {
      const wide = pen.measureText(mark.text).width / 2;
      pen.fillRect(x(mark.t), 0, 0.3, ranks.length * row);
      pen.fillText(mark.text, Math.min(Math.max(x(mark.t), names + wide), width - wide) - wide,
        height - 7);
    }
  }, [rows, width, dark]);

  const move = (event: MouseEvent) => {
    const at = canvas.current!.getBoundingClientRect(),
      px = event.clientX - at.left;
    const i = Math.floor((event.clientY - at.top) / row);
    const found = rows.find(
      (r) =>
        lane.get(r.pid) === i &&
        px >= x(r.t) - 1 &&
        px <= x(r.t) + Math.max((r.ms / (to - from)) * room, 2),
    );
    setOver(found ?? null);
  };
  const told =
    over &&
    [
      nameOf(over.rank, over.pid),
      over.op,
      over.seq !== null && `#${over.seq}`,
      milliseconds(over.ms),
      over.bytes !== null && quantity(over.bytes, "bytes"),
      over.state,
    ]
      .filter(Boolean)
      .join(" · ");
  return (
    <figure ref={box} aria-label="operations by rank">
      <div class="legend squares">
        {ops.map((op, i) => (
          <span key={op}>
            <i style={{ background: colours[i % colours.length] }} />
            {op}
          </span>
        ))}
      </div>
      <canvas
        ref={canvas}
        style={{ width: "100%", height: `${height}px` }}
        role="img"
        aria-label={`operations of ${ranks.length} ranks`}
        onMouseMove={move}
        onMouseLeave={() => setOver(null)}
      />
      <figcaption class="dim">
        {told || `${counted(rows.length, most)} operations, ${milliseconds(to - from)}`}
      </figcaption>
    </figure>
  );
}

function RecentPanel({ target }: { target: string }) {
  const range = parseRange(useStore(link).params.r);
  const window = range.live ? "timestamp >= now() - INTERVAL 10 SECOND" : "{time}";
  const of = useWatch({ sql: RECENT.replace("{window}", window), target, whole: true, every: 2 });
  const rows = useMemo(() => objects<Recent>(of.result), [of.result]);
  return (
    <Panel
      title="Operations by rank"
      of={of}
      target={target}
      about={range.live ? "last 10 s" : "the last ones of this time"}
      tools={<TraceButton target={target} />}
    >
      {rows.length ? (
        <Lanes rows={rows} />
      ) : (
        <Nothing of={of} what="No operations between ranks in this time." />
      )}
    </Panel>
  );
}

function LatePanel({ target }: { target: string }) {
  const of = useWatch({ sql: LATE, target, whole: true, every: 10 }),
    rows = objects<Late>(of.result);
  const worst = Math.max(0, ...rows.map((r) => r.late_ms));
  return (
    <Panel
      title="Who keeps the others waiting"
      of={of}
      target={target}
      about="how long after the first rank each comes to a collective"
    >
      {rows.length ? (
        <Grid
          label="late ranks"
          rows={rows}
          id={(r) => `${r.pid} ${r.group_name}`}
          limit={64}
          behind={(r) => `SELECT * FROM comm_metrics
WHERE {time} AND pid = ${r.pid} AND group_name = ${quote(r.group_name)} ORDER BY timestamp DESC`}
          columns={[
            { title: "rank", number: true, by: (r) => r.rank, show: (r) => r.rank },
            {
              title: "comes late by",
              number: true,
              by: (r) => r.late_ms,
              show: (r) => (
                <span class={worst > 1 && r.late_ms > 0.5 * worst ? "warn" : ""}>
                  {milliseconds(r.late_ms)}
                </span>
              ),
            },
            {
              title: "at most",
              number: true,
              by: (r) => r.max_late_ms,
              show: (r) => milliseconds(r.max_late_ms),
            },
            {
              title: "came last",
              number: true,
              by: (r) => r.last_pct,
              show: (r) => percent(r.last_pct),
            },
            {
              title: "then waits",
              number: true,
              by: (r) => r.latency_ms,
              show: (r) => milliseconds(r.latency_ms),
            },
            {
              title: "collectives",
              number: true,
              by: (r) => r.collectives,
              show: (r) => number(r.collectives),
            },
            { title: "group", show: (r) => r.group_name },
          ]}
        />
      ) : (
        <Nothing of={of} what="No collective that several ranks were seen in." />
      )}
    </Panel>
  );
}

function OpsPanel({ target }: { target: string }) {
  const of = useWatch({ sql: OPS, target, whole: true, every: 5 }),
    rows = objects<Op>(of.result);
  const ms = (v: number | null) => (v === null ? "" : milliseconds(v));
  return (
    <Panel title="Operations" of={of} target={target}>
      {rows.length ? (
        <Grid
          label="operations"
          rows={rows}
          id={(r) => `${r.op} ${r.group_name}`}
          behind={(r) => `SELECT * FROM comm_metrics WHERE {time} AND op = ${quote(r.op)}
      AND group_name IS NOT DISTINCT FROM ${literalOf(r.group_name)} ORDER BY timestamp DESC`}
          columns={[
            { title: "operation", by: (r) => r.op, show: (r) => r.op },
            { title: "group", show: (r) => r.group_name },
            { title: "times", number: true, by: (r) => r.n, show: (r) => number(r.n) },
            { title: "median", number: true, by: (r) => r.median_ms, show: (r) => ms(r.median_ms) },
            { title: "99 %", number: true, by: (r) => r.p99_ms, show: (r) => ms(r.p99_ms) },
            { title: "longest", number: true, by: (r) => r.max_ms, show: (r) => ms(r.max_ms) },
            {
              title: "size",
              number: true,
              by: (r) => r.size,
              show: (r) => quantity(r.size, "bytes"),
            },
            {
              title: "in all",
              number: true,
              by: (r) => r.bytes,
              show: (r) => quantity(r.bytes, "bytes"),
            },
          ]}
        />
      ) : (
        <Nothing of={of} what="No operations between ranks in this time." />
      )}
    </Panel>
  );
}

/** Who waits how long for whom; without messages between two, for what. */
function MatrixPanel({ target }: { target: string }) {
  const pairs = useWatch({ sql: MATRIX, target, whole: true, every: 10 });
  const ops = useWatch({ sql: BY_OP, target, whole: true, every: 10 });
  const between = pairs.result.rows.length > 0,
    of = between ? pairs : ops;
  const { rows, columns, values } = useMemo(() => {
    const down = [...new Set(of.result.rows.map((r) => r[0] as number))].sort((a, b) => a - b);
    const across = [...new Set(of.result.rows.map((r) => r[1] as number | string))].sort((a, b) =>
      typeof a === "number" && typeof b === "number" ? a - b : String(a) < String(b) ? -1 : 1,
    );
    const values = down.map((a) =>
      across.map(
        (b) =>
          (of.result.rows.find((r) => r[0] === a && r[1] === b)?.[2] as number | undefined) ?? null,
      ),
    );
    return { rows: down.map((r) => `rank ${r}`), columns: across.map(String), values };
  }, [of.result]);
  return (
    <Panel
      title={between ? "Latency from rank to rank" : "Latency by rank and operation"}
      about="average"
      of={of}
      target={target}
    >
      {rows.length ? (
        <HeatMap
          rows={rows}
          columns={columns}
          values={values}
          format={milliseconds}
          label="latency by rank"
          across={between ? "to rank" : "operation"}
        />
      ) : (
        <Nothing of={of} what="No operations between ranks in this time." />
      )}
    </Panel>
  );
}

export function Communication() {
  const target = useStore(link).params.p ?? "";
  return (
    <>
      <HungPanel target={target} />
      <RecentPanel target={target} />
      <div class="columns two">
        <LinePanel
          title="Time in communication"
          about="share of a rank's time"
          unit="%"
          zero
          value="busy_pct"
          target={target}
          of={useWatch({ sql: LATENCY, target })}
          nothing="No operations between ranks in this time."
        />
        <MatrixPanel target={target} />
      </div>
      <LatePanel target={target} />
      <OpsPanel target={target} />
    </>
  );
}
