// What is drawn between the points of a line, and what is not.
import type { Line } from "../view/chart.tsx";
import { median } from "./job.ts";

/** Values on top of each other; where nothing was measured there is nothing. */
export function stack(lines: Line[]): Line[] {
  let below: Line["values"] = [];
  return lines.map((line) => {
    if (!line.stacked) return line;
    const under = below;
    below = line.values.map((v, i) =>
      typeof v !== "number" && typeof under[i] !== "number" ? v : (v ?? 0) + (under[i] ?? 0),
    );
    return { ...line, values: below };
  });
}

/** What usually lies between two points, or 0 where that is not known. */
function usualStep(x: number[]): number {
  return median(x.slice(1).map((t, i) => t - x[i]!)) ?? 0;
}

/** Where a line is interrupted: after a point that the next one follows much later than usual. */
function cutsOf(x: number[], values: Line["values"], step: number): number[] {
  const known = x.filter((_, i) => typeof values[i] === "number"),
    usual = Math.max(usualStep(known), step);
  return known.flatMap((t, i) => {
    const next = known[i + 1] ?? x.at(-1)!;
    return next - t > 4 * usual ? [t + usual] : [];
  });
}

/**
 * Nothing is drawn over a time without a row of the line's own: a point of no value comes after the
 * last one before it. Lines whose points lie at other times do not interrupt each other.
 */
export function withGaps(x: number[], lines: Line[]): { x: number[]; lines: Line[] } {
  const step = usualStep(x),
    cuts = lines.map((line) => new Set(cutsOf(x, line.values, step)));
  const all = cuts.flatMap((c) => [...c]);
  if (!all.length) return { x, lines };
  const index = new Map(x.map((t, i) => [t, i])),
    more = [...new Set([...x, ...all])].sort((a, b) => a - b);
  const valueAt = (line: Line, t: number) => {
    const i = index.get(t);
    return i === undefined ? undefined : line.values[i];
  };
  return {
    x: more,
    lines: lines.map((line, k) => ({
      ...line,
      values: more.map((t) => (cuts[k]!.has(t) ? null : valueAt(line, t))),
    })),
  };
}

/** Points that no line leads to or from: they are seen as points only. */
export function lonely(values: ArrayLike<number | null | undefined>): number[] {
  const found: number[] = [];
  let run: number[] = []; // points since the last gap, two at most
  for (let i = 0; i <= values.length; i++) {
    const v = i < values.length ? values[i] : null;
    if (v === null && run.length === 1) found.push(run[0]!);
    if (v === null) run = [];
    else if (v !== undefined && run.length < 2) run.push(i);
  }
  return found;
}
