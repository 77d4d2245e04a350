// Any answer as lines: what can be one is x, numbers are y.
import { useMemo } from "preact/hooks";
import type { Bulk } from "../lib/bulk.ts";
import { counted } from "../lib/format.ts";
import { type Column, isNumeric, isTime } from "../lib/rows.ts";
import { coloured, numeric, positions } from "../lib/series.ts";
import { useStore } from "../lib/store.ts";
import { theme } from "../lib/theme.ts";
import { Chart, type Line } from "./chart.tsx";

const ROWS_MAX = 20000,
  LINES_MAX = 60,
  VALUES_MAX = 6;
const PROCESSES = ["pid", "rank"];

export interface Drawn {
  /** Is x a time? */
  time: boolean;
  x: number[];
  lines: Line[];
  /** What is not drawn, in words. */
  left: string[];
}

/** Columns by number: x, the values that are drawn, and what tells lines apart, or -1. */
function roles(columns: Column[]): { x: number; values: number[]; by: number } {
  const x = columns.findIndex((c) => isTime(c) || isNumeric(c)),
    others = columns.map((_, i) => i).filter((i) => i !== x);
  const named = (i: number) => PROCESSES.includes(columns[i]!.name);
  const values = others.filter((i) => isNumeric(columns[i]!) && !(named(i) && columns.length > 2));
  const by = others.find((i) => !isNumeric(columns[i]!) && !isTime(columns[i]!)),
    process = others.find((i) => named(i) && !values.includes(i));
  return { x, values, by: by ?? process ?? -1 };
}

/** The first column that can be one is x; one line for each number, by names, ranks or pids. */
export function drawn(bulk: Bulk): Drawn | null {
  const rows = bulk.some(ROWS_MAX),
    { x, values, by } = roles(bulk.columns);
  if (x < 0 || !rows.length || !values.length) return null;
  const time = isTime(bulk.columns[x]!),
    shown = values.slice(0, VALUES_MAX);
  const at = rows.map((r) => (time ? Date.parse(String(r[x])) : Number(r[x]))),
    { x: xs, index } = positions(at.map((t) => [t]));
  const of = PROCESSES.includes(bulk.columns[by]?.name ?? "") ? bulk.columns[by]!.name + " " : "";
  const lines = new Map<string, Line>(),
    skipped = new Set<string>();
  rows.forEach((row, r) => {
    for (const v of shown) {
      const value = bulk.columns[v]!.name;
      const name = by < 0 ? value : `${of}${row[by]}${values.length > 1 ? " " + value : ""}`;
      if (!lines.has(name) && lines.size >= LINES_MAX) {
        skipped.add(name);
        continue;
      }
      if (!lines.has(name)) lines.set(name, { name, values: new Array(xs.length).fill(undefined) });
      lines.get(name)!.values[index.get(at[r]!)!] = numeric(row[v]);
    }
  });
  const parts: [number, number, string][] = [
    [rows.length, bulk.length, "rows"],
    [shown.length, values.length, "columns"],
    [lines.size, lines.size + skipped.size, "lines"],
  ];
  const left = parts.filter(([n, all]) => n < all);
  return {
    time,
    x: xs,
    lines: [...lines.values()],
    left: left.map(([n, all, what]) => `${counted(n, all)} ${what}`),
  };
}

export function ResultChart({ bulk, version }: { bulk: Bulk; version: number }) {
  const { lines: colours } = useStore(theme);
  const made = useMemo(() => drawn(bulk), [bulk, version]);
  if (!made)
    return (
      <p class="nothing dim">A chart needs a time or a number to go along, and a number to show.</p>
    );
  return (
    <>
      <Chart
        x={made.x}
        lines={coloured(made.lines, colours)}
        unit=""
        label="the answer"
        steps={!made.time}
        height={300}
      />
      {made.left.length > 0 && <p class="dim">Drawn: {made.left.join(", ")}.</p>}
    </>
  );
}
