// What the ranks of a job have in common, and which of them do not.

export function median(values: (number | null | undefined)[]): number | null {
  const known = values
    .filter((v): v is number => typeof v === "number" && Number.isFinite(v))
    .sort((a, b) => a - b);
  if (!known.length) return null;
  const half = known.length >> 1;
  return known.length % 2 ? known[half]! : (known[half - 1]! + known[half]!) / 2;
}

/** How far a value is from what the others have, as a share of that; 0: nothing to say. */
export function deviation(value: number | null | undefined, usual: number | null): number {
  return typeof value === "number" && usual ? value / usual - 1 : 0;
}

/** Values by time, in as many slots as there are buckets; null where none came. */
export function slots(
  points: [t: number, value: number | null][],
  from: number,
  to: number,
  step: number,
): (number | null)[] {
  const n = Math.max(1, Math.ceil((to - from) / step)),
    out = new Array<number | null>(n).fill(null);
  for (const [t, value] of points) {
    const i = Math.floor((t - from) / step);
    if (i >= 0 && i < n) out[i] = value;
  }
  return out;
}
