// Which time is shown: the last minutes up to now, or a window of the past.
import { duration, moment } from "./format.ts";

export type Range =
  | { live: true; span: number } // the last so many seconds
  | { live: false; from: number; to: number }; // milliseconds since 1970

const UNITS: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86400 };

export const DEFAULT_SPAN = 600;

/** "10m", "1h", or "1794964079-1794964139" in seconds. What makes no sense is the default. */
export function parseRange(text: string | undefined): Range {
  const span = /^(\d+)([smhd])$/.exec(text ?? "");
  if (span) {
    const seconds = +span[1]! * UNITS[span[2]!]!;
    if (seconds >= 10 && seconds <= 31 * 86400) return { live: true, span: seconds };
  }
  const window = /^(\d+(?:\.\d+)?)-(\d+(?:\.\d+)?)$/.exec(text ?? "");
  if (window && +window[1]! < +window[2]!)
    return { live: false, from: +window[1]! * 1000, to: +window[2]! * 1000 };
  return { live: true, span: DEFAULT_SPAN };
}

export function formatRange(range: Range): string {
  if (!range.live)
    return `${(range.from / 1000).toFixed(3)}-${(range.to / 1000).toFixed(3)}`.replace(
      /\.000/g,
      "",
    );
  for (const unit of ["d", "h", "m"])
    if (range.span % UNITS[unit]! === 0) return `${range.span / UNITS[unit]!}${unit}`;
  return `${range.span}s`;
}

export function spanOf(range: Range): number {
  return range.live ? range.span : (range.to - range.from) / 1000;
}

/** Seconds of one point in a chart: a round number that makes about 240 of them. */
export function bucketOf(range: Range, points = 240): number {
  const steps = [
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400,
  ];
  const wanted = spanOf(range) / points;
  return steps.find((step) => step >= wanted) ?? steps.at(-1)!;
}

/** For titles: "last 10 min", "04:10:00 to 04:20:00". */
export function rangeText(range: Range): string {
  if (!range.live) return `${moment(range.from)} to ${moment(range.to)}`;
  return `last ${duration(range.span)}`;
}
