// A chart of one number by process, out of a watched query.
import { useMemo } from "preact/hooks";
import type { Watched } from "../lib/live.ts";
import { link } from "../lib/place.ts";
import { parseRange, rangeText } from "../lib/range.ts";
import { byProcess, coloured } from "../lib/series.ts";
import { useStore } from "../lib/store.ts";
import { theme } from "../lib/theme.ts";
import { Chart } from "./chart.tsx";
import { Nothing, Panel } from "./panel.tsx";

/**
 * The window of the chosen time. A live one ends where the last answer does, and begins with the
 * first point where there is none in its beginning.
 */
export function useWindow(at: number, x: number[]): [number, number] | null {
  const range = parseRange(useStore(link).params.r);
  if (!range.live) return [range.from, range.to];
  if (!at) return null;
  const from = at - range.span * 1000,
    first = x[0] ?? from;
  return [first > from + range.span * 100 ? Math.min(first, at - 10000) : from, at];
}

export function LinePanel({
  title,
  about,
  of,
  value,
  unit,
  target,
  nothing,
  steps,
  log,
  zero,
  height,
}: {
  title: string;
  about?: string;
  of: Watched;
  value: string;
  unit: string;
  target?: string;
  nothing: string;
  /** x is a step. */
  steps?: boolean;
  log?: boolean;
  zero?: boolean;
  height?: number;
}) {
  const { lines: colours } = useStore(theme);
  const series = useMemo(() => byProcess(of.result, value), [of.result, value]);
  const window = useWindow(of.result.at, series.x);
  const lines = useMemo(() => coloured(series.lines, colours), [series, colours]);
  const time = rangeText(parseRange(useStore(link).params.r));
  return (
    <Panel title={title} about={about ? `${about}, ${time}` : time} of={of} target={target ?? ""}>
      {lines.length ? (
        <Chart
          x={series.x}
          lines={lines}
          unit={unit}
          label={title}
          window={steps ? null : window}
          steps={steps ?? false}
          log={log ?? false}
          zero={zero ?? false}
          height={height ?? 150}
        />
      ) : (
        <Nothing of={of} what={nothing} />
      )}
    </Panel>
  );
}
