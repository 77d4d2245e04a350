// Which time is shown.
import { ask } from "../lib/api.ts";
import { change, link } from "../lib/place.ts";
import { DEFAULT_SPAN, formatRange, parseRange, type Range, rangeText } from "../lib/range.ts";
import { useStore } from "../lib/store.ts";

const CHOICES: [value: string, name: string][] = [
  ["1m", "last minute"],
  ["10m", "last 10 min"],
  ["1h", "last hour"],
  ["6h", "last 6 h"],
  ["1d", "last day"],
];

/** From the first row of the chosen processes to the last, or to now. */
export async function wholeRun(target: string): Promise<Range | null> {
  const { rows } = await ask({
    sql: "SELECT epoch_ms(min(timestamp)), epoch_ms(max(timestamp)) " + "FROM memory_usage",
    ...(target ? { target } : {}),
    quiet: true,
  });
  const [from, to] = rows[0] ?? [];
  if (typeof from !== "number" || typeof to !== "number") return null;
  return Date.now() - to < 15000
    ? { live: true, span: Math.ceil((Date.now() - from) / 60000) * 60 }
    : { live: false, from: from - 1000, to: to + 1000 };
}

export function RangeChoice() {
  const { params } = useStore(link),
    range = parseRange(params.r),
    value = formatRange(range);
  const known = CHOICES.some(([v]) => v === value);

  const choose = async (event: Event) => {
    const box = event.currentTarget as HTMLSelectElement,
      wanted = box.value;
    if (wanted === "run") {
      const run = await wholeRun(params.p ?? "").catch(() => null);
      if (run) change({ r: formatRange(run) }, true);
      else box.value = value; // nothing was measured of it
    } else if (wanted === "ago") {
      const to = Date.now() - 3600e3;
      change({ r: formatRange({ live: false, from: to - 600e3, to }) }, true);
    } else {
      change(
        {
          r: wanted === formatRange({ live: true, span: DEFAULT_SPAN }) ? undefined : wanted,
        },
        true,
      );
    }
  };

  return (
    <select aria-label="which time" value={value} onChange={choose}>
      {CHOICES.map(([v, text]) => (
        <option key={v} value={v}>
          {text}
        </option>
      ))}
      <option value="ago">an hour ago</option>
      <option value="run">this run</option>
      {!known && <option value={value}>{rangeText(range)}</option>}
    </select>
  );
}
