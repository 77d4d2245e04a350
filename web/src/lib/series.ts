// Rows of several processes as lines of one chart.
import type { Line } from "../view/chart.tsx";
import { median } from "./job.ts";
import { nameOf } from "./processes.ts";
import type { Result, Row } from "./rows.ts";

export interface Series {
  x: number[];
  lines: Line[];
}

/** A cell as a number; what is not finite ("nan") is a gap, and NULL no point at all. */
export function numeric(cell: Row[number] | undefined): number | null | undefined {
  if (cell === null || cell === undefined) return undefined;
  return typeof cell === "number" && Number.isFinite(cell) ? cell : null;
}

/** Where each x of the rows stands, in order. */
export function positions(rows: Row[], at = 0): { x: number[]; index: Map<number, number> } {
  const x = [...new Set(rows.map((row) => row[at] as number))].sort((a, b) => a - b);
  return { x, index: new Map(x.map((value, i) => [value, i])) };
}

/**
 * One line for each value of `keys` (columns), of the numbers in column `value`. The first column
 * is x. Names come from `name`.
 */
export function byKey(
  result: Result,
  keys: string[],
  value: string,
  name: (cells: Row) => string,
): Series {
  const at = (column: string) => result.columns.findIndex((c) => c.name === column);
  const { x, index } = positions(result.rows),
    columns = keys.map(at),
    wanted = at(value);
  const lines = new Map<string, Line>();
  for (const row of result.rows) {
    const cells = columns.map((i) => row[i] ?? null),
      key = cells.join("|");
    let line = lines.get(key);
    if (!line) {
      line = { name: name(cells), values: new Array<undefined>(x.length).fill(undefined) };
      lines.set(key, line);
    }
    line.values[index.get(row[0] as number)!] = numeric(row[wanted]);
  }
  const drawn = [...lines.values()].filter((l) => l.values.some((v) => typeof v === "number"));
  return { x, lines: drawn };
}

/** Of a table that has a row only when something changes: each value holds until the next one. */
export function held(series: Series): Series {
  const lines = series.lines.map((line) => {
    let last: number | null | undefined;
    return { ...line, values: line.values.map((v) => (last = v ?? last)) };
  });
  return { ...series, lines };
}

/** One line for each process: columns rank and pid. */
export function byProcess(result: Result, value: string): Series {
  const series = byKey(result, ["rank", "pid"], value, ([rank, pid]) =>
    nameOf(rank as number | null, pid as number),
  );
  const seen = new Map<string, number>();
  for (const line of series.lines) seen.set(line.name, (seen.get(line.name) ?? 0) + 1);
  // Two jobs have a rank 0 each: then the process is named, too.
  if ([...seen.values()].some((n) => n > 1)) {
    const full = byKey(result, ["rank", "pid"], value, ([rank, pid]) =>
      rank === null ? `pid ${pid}` : `rank ${rank} (${pid})`,
    );
    full.lines.sort(byName);
    return full;
  }
  series.lines.sort(byName);
  return series;
}

/** rank 2 comes before rank 10. */
export function byName(a: Line, b: Line): number {
  return a.name.localeCompare(b.name, "en", { numeric: true });
}

/**
 * Colours for lines. Of many only those stand out that are far from the rest: what is usual stays
 * in the background.
 */
export function coloured(lines: Line[], colours: string[], most = colours.length): Line[] {
  if (lines.length <= most)
    return lines.map((line, i) => ({ ...line, colour: colours[i % colours.length]! }));
  const levels = lines.map((line) => median(line.values.slice(-120)));
  const usual = median(levels) ?? 0,
    spread = median(levels.map((l) => Math.abs((l ?? 0) - usual)));
  const away = levels.map((l, i) => ({ i, by: l === null ? 0 : Math.abs(l - usual) }));
  const far = away
    .filter(({ by }) => by > Math.max(4 * (spread ?? 0), 0.1 * Math.abs(usual)))
    .sort((a, b) => b.by - a.by)
    .slice(0, most - 1);
  const chosen = new Map(far.map(({ i }, n) => [i, colours[(n + 1) % colours.length]!]));
  return lines.map((line, i) => (chosen.has(i) ? { ...line, colour: chosen.get(i)! } : line));
}
