// Lines over time, by uPlot.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { clock, counted, moment, quantity, tick } from "../lib/format.ts";
import { median } from "../lib/job.ts";
import { lonely, stack, withGaps } from "../lib/gaps.ts";
import { slug, useLinked } from "../lib/linked.ts";
import { change } from "../lib/place.ts";
import { theme } from "../lib/theme.ts";
import { useStore } from "../lib/store.ts";
import { formatRange } from "../lib/range.ts";

export interface Line {
  name: string;
  /** undefined: nothing was measured just then; null: nothing for longer, or no number. */
  values: (number | null | undefined)[];
  /** A CSS colour; without one the line stays in the background. */
  colour?: string;
  dashed?: boolean;
  /** Drawn over the sum of those before it. */
  stacked?: boolean;
}

export interface ChartProps {
  /** Milliseconds since 1970, or steps. */
  x: number[];
  lines: Line[];
  unit: string;
  label: string;
  height?: number;
  /** The x axis is a count, not a time. */
  steps?: boolean;
  /** From here to there, whether or not there are points. */
  window?: [number, number] | null;
  log?: boolean;
  zero?: boolean;
  /** Values hold until the next one, however late that comes. */
  holds?: boolean;
}

/** Seconds between two marks of a time axis. */
const CLOCK_STEPS = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800,
  604800,
];

/** Round numbers in the unit that a value is shown in: 250 MB, 1 GB, 30 s; `high`: the largest. */
export function roundSteps(unit: string, high: number): number[] | undefined {
  const tens = [
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 250, 500,
  ];
  const times = (list: number[], by: number) => list.map((v) => v * by);
  if (unit === "MB" || unit === "MB/s")
    return [
      ...(high < 1 ? times(tens, 1 / 1024) : tens).filter((v) => v < 0.9),
      ...tens.filter((v) => v >= 1),
      ...times(
        tens.filter((v) => v >= 1),
        1024,
      ),
      ...times(
        tens.filter((v) => v >= 1),
        1048576,
      ),
    ];
  if (unit === "ms")
    return [
      ...times(tens, 0.001),
      ...tens,
      1000,
      2000,
      5000,
      10000,
      15000,
      30000,
      ...times([1, 2, 5, 10, 15, 30, 60, 120, 360, 720, 1440], 60000),
    ];
  return undefined;
}

/** The largest value: it decides whether marks are in kB or in MB. */
function highest(lines: Line[]): number {
  let high = 0;
  for (const line of lines) for (const v of line.values) high = Math.max(high, v ?? high);
  return high;
}

/** From where to where the values of a chart go; a value that never changes is in the middle. */
export function heightsOf(
  low: number | null,
  high: number | null,
  zero: boolean,
): [number, number] {
  if (low === null || high === null) return [0, 1];
  const bottom = zero && low > 0 ? 0 : low,
    room = (high - bottom) * 0.08 || Math.abs(high) * 0.08 || 1;
  return [bottom === 0 ? 0 : bottom - room, high + room];
}

const lengthOf = (mark: string | number | null) => String(mark ?? "").length;

function axes(p: ChartProps, ink: string, grid: string): uPlot.Axis[] {
  const steps = roundSteps(p.unit, highest(p.lines));
  const common = {
    stroke: ink,
    grid: { stroke: grid, width: 1 },
    ticks: { show: false },
    font: "11px system-ui, sans-serif",
  };
  return [
    {
      ...common,
      space: 70,
      ...(p.steps ? {} : { incrs: CLOCK_STEPS }),
      size: 24,
      values: (_u, splits) => {
        if (p.steps) return splits.map((v) => v.toLocaleString("en-US"));
        const seconds = splits.some((v) => v % 60);
        return splits.map((v) => clock(v * 1000).slice(0, seconds ? 8 : 5));
      },
    },
    {
      ...common,
      space: 28,
      size: (_u, marks) => Math.max(62, 14 + 6.2 * Math.max(0, ...(marks ?? []).map(lengthOf))),
      // An array: of steps that a function gives, the library takes only those it knows.
      ...(steps && !p.log ? { incrs: steps } : {}),
      values: (_u, splits) =>
        splits.map((v) =>
          v === null ? "" : tick(v, Math.abs((splits[1] ?? 1) - (splits[0] ?? 0)) || 1, p.unit),
        ),
    },
  ];
}

function optionsOf(
  p: ChartProps,
  width: number,
  ink: string,
  grid: string,
  faint: string,
  onMove: (at: number | null) => void,
): uPlot.Options {
  const seconds = p.steps ? 1 : 1000;
  return {
    width,
    height: p.height ?? 150,
    // At the right: half of the last label of the x axis.
    padding: [8, p.steps ? 16 : 26, 0, 0],
    legend: { show: false },
    ms: 1,
    cursor: {
      sync: { key: p.steps ? "steps" : "time" },
      points: { show: false },
      drag: { x: true, y: false, setScale: false },
    },
    scales: {
      x: {
        time: false,
        range: (_u, low, high) =>
          p.window
            ? [p.window[0] / seconds, p.window[1] / seconds]
            : low === high
              ? [low - 1, high + 1]
              : [low, high],
      },
      y: p.log
        ? { distr: 3 }
        : {
            range: (_u, low, high) => heightsOf(low, high, p.zero ?? false),
          },
    },
    axes: axes(p, ink, grid),
    series: [
      {},
      ...p.lines.map((line): uPlot.Series => ({
        stroke: line.colour ?? faint,
        width: line.colour ? 1.5 : 1,
        spanGaps: false,
        ...(line.dashed ? { dash: [4, 3] } : {}),
        points: {
          show: false,
          size: 4,
          filter: (u, k) => {
            const alone = lonely(u.data[k]!);
            return alone.length ? alone : null;
          },
        },
        ...(line.stacked ? { fill: line.colour + "66" } : {}),
      })),
    ],
    bands: p.lines.flatMap((line, i) =>
      line.stacked && p.lines[i + 1]?.stacked
        ? [{ series: [i + 2, i + 1] as [number, number] }]
        : [],
    ),
    hooks: {
      setCursor: [(u) => onMove(u.cursor.idx ?? null)],
      setSelect: [
        (u) => {
          if (u.select.width < 5 || p.steps) return;
          const from = u.posToVal(u.select.left, "x") * 1000;
          const to = u.posToVal(u.select.left + u.select.width, "x") * 1000;
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          change(
            {
              r: formatRange({
                live: false,
                from: Math.floor(from),
                to: Math.ceil(to),
              }),
            },
            true,
          );
        },
      ],
    },
  };
}

const LEGEND_MAX = 9;

/** Names and values where the pointer is, else the last ones. */
function Legend({ p, at }: { p: ChartProps; at: number | null }) {
  const i = at ?? p.x.length - 1;
  const named = p.lines.filter((line) => line.colour),
    others = p.lines.filter((line) => !line.colour);
  const shown = named.slice(0, LEGEND_MAX);
  const value = (line: Line) => {
    // Points of other lines may lie behind its last one; what it had before a gap is not its value.
    for (let k = i; k >= 0; k--) if (line.values[k] !== undefined) return line.values[k];
    return null;
  };
  return (
    <div class="legend">
      {at !== null && <span class="dim time">{p.steps ? `step ${p.x[i]}` : moment(p.x[i]!)}</span>}
      {shown.map((line) => (
        <span key={line.name}>
          <i style={{ background: line.colour }} />
          {line.name} <b>{quantity(value(line), p.unit)}</b>
        </span>
      ))}
      {named.length > shown.length && (
        <span class="dim">{named.length - shown.length} others</span>
      )}
      {others.length > 0 && (
        <span>
          <i style={{ background: "var(--faint)" }} />
          {others.length} {named.length ? "others" : "lines"}, median{" "}
          <b>{quantity(median(others.map(value)), p.unit)}</b>
        </span>
      )}
    </div>
  );
}

/** The same as a table, for those who do not see lines. */
function AsTable({ p }: { p: ChartProps }) {
  const every = Math.max(1, Math.ceil(p.x.length / 40));
  return (
    <div class="chart-table" tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th>{p.steps ? "step" : "time"}</th>
            {p.lines.map((l) => (
              <th key={l.name}>{l.name}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {p.x.map((x, i) =>
            i % every ? null : (
              <tr key={x}>
                <td>{p.steps ? x : moment(x)}</td>
                {p.lines.map((l) => (
                  <td key={l.name} class="number">
                    {quantity(l.values[i], p.unit)}
                  </td>
                ))}
              </tr>
            ),
          )}
        </tbody>
      </table>
      {every > 1 && <p class="dim">{counted(Math.ceil(p.x.length / every), p.x.length)} points</p>}
    </div>
  );
}

export function Chart(given: ChartProps) {
  const whole = useMemo(
    () =>
      given.steps || given.holds
        ? { x: given.x, lines: given.lines }
        : withGaps(given.x, given.lines),
    [given.x, given.lines, given.steps, given.holds],
  );
  const p = { ...given, ...whole };
  const host = useRef<HTMLDivElement>(null),
    plot = useRef<uPlot | null>(null);
  const [at, setAt] = useState<number | null>(null);
  const [shownAs, showAs] = useLinked(`t.${slug(p.label)}`),
    asTable = shownAs === "1";
  const colours = useStore(theme);
  const drawn = useMemo(() => {
    const lines = stack(p.lines),
      seconds = p.steps ? 1 : 1000;
    return [p.x.map((x) => x / seconds), ...lines.map((l) => l.values)] as uPlot.AlignedData;
  }, [p.x, p.lines, p.steps]);
  // What needs a new plot; everything else is new data for the old one.
  const shape = JSON.stringify([
    p.lines.map((l) => [l.name, l.colour, l.dashed, l.stacked]),
    p.unit,
    p.height,
    p.steps,
    p.log,
    p.zero,
    colours.dark,
    asTable,
    highest(p.lines) < 1,
  ]);
  const current = useRef(p);
  current.current = p;

  useEffect(() => {
    if (!host.current) return;
    const style = getComputedStyle(document.documentElement);
    const make = (width: number) =>
      new uPlot(
        optionsOf(
          {
            ...p,
            get window() {
              return current.current.window ?? null;
            },
          },
          width,
          style.getPropertyValue("--dim").trim(),
          style.getPropertyValue("--grid").trim(),
          style.getPropertyValue("--faint").trim(),
          setAt,
        ),
        drawn,
        host.current!,
      );
    plot.current = make(Math.max(host.current.clientWidth, 120));
    const watch = new ResizeObserver(([entry]) => {
      const width = Math.floor(entry!.contentRect.width);
      if (plot.current && width && width !== plot.current.width)
        plot.current.setSize({ width, height: p.height ?? 150 });
    });
    watch.observe(host.current);
    return () => {
      watch.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [shape]);

  useEffect(() => plot.current?.setData(drawn), [drawn, p.window?.[0], p.window?.[1]]);

  return (
    <figure class="chart" aria-label={p.label}>
      <figcaption>
        <Legend p={p} at={at !== null && at < p.x.length ? at : null} />
        <button
          type="button"
          class="quiet"
          aria-pressed={asTable}
          onClick={() => showAs(asTable ? "" : "1")}
        >
          table
        </button>
      </figcaption>
      {asTable ? (
        <AsTable p={p} />
      ) : (
        <div ref={host} class="plot" onDblClick={() => change({ r: undefined }, true)} />
      )}
    </figure>
  );
}
