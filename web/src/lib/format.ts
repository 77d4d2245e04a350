// Numbers, times and names as people read them.

/** Three significant digits, with thousands apart: 0.0234, 41.2, 1,841. */
export function number(value: number | null | undefined, digits = 3): string {
  if (value === null || value === undefined) return "";
  if (!Number.isFinite(value)) return String(value);
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (Number.isInteger(value) || size >= 1000) return Math.round(value).toLocaleString("en-US");
  if (size < 1e-4) return value.toExponential(Math.max(digits - 1, 0));
  const whole = Math.floor(Math.log10(size)) + 1;
  return value.toLocaleString("en-US", { maximumFractionDigits: Math.max(digits - whole, 0) });
}

type Scale = [limit: number, factor: number, unit: string][];

const TIMES: Scale = [
  [0.001, 1e6, "ns"],
  [1, 1000, "µs"],
  [1000, 1, "ms"],
  [60e3, 1e-3, "s"],
  [3600e3, 1 / 60e3, "min"],
  [86400e3, 1 / 3600e3, "h"],
  [Infinity, 1 / 86400e3, "d"],
];
const SIZES: Scale = [
  [1 / 1024, 1048576, "B"],
  [1, 1024, "kB"],
  [1024, 1, "MB"],
  [1048576, 1 / 1024, "GB"],
  [Infinity, 1 / 1048576, "TB"],
];

function scaled(
  value: number,
  scale: Scale,
  text = (v: number, _factor: number) => number(v),
  size = value,
) {
  // What is rounded up to the limit is said in the next unit: 1 s, not 1,000 ms.
  const fits = ([limit]: Scale[number]) => Math.abs(size) < limit * 0.9995;
  const [, factor, unit] = scale.find(fits) ?? scale.at(-1)!;
  return text(value * factor, factor) + " " + unit;
}

export function milliseconds(ms: number): string {
  return ms === 0 ? "0 ms" : scaled(ms, TIMES);
}

export function megabytes(mb: number): string {
  return mb === 0 ? "0 MB" : scaled(mb, SIZES);
}

/** One digit behind the point, as far as it says something: <0.1 %, 0.4 %, 12.3 %, 100 %. */
export function percent(value: number): string {
  if (value > 0 && value < 0.05) return "<0.1 %";
  return (
    value.toLocaleString("en-US", { maximumFractionDigits: Math.abs(value) < 99.95 ? 1 : 0 }) + " %"
  );
}

/** A value with its unit, as `probing.columns` names units. */
export function quantity(value: number | null | undefined, unit = ""): string {
  if (value === null || value === undefined) return "";
  switch (unit) {
    case "":
      return number(value);
    case "ms":
      return milliseconds(value);
    case "s":
      return milliseconds(value * 1000);
    case "MB":
      return megabytes(value);
    case "MB/s":
      return megabytes(value) + "/s";
    case "B":
    case "bytes":
      return megabytes(value / 1048576);
    case "%":
      return percent(value);
    case "C":
      return number(value) + " °C";
    case "1/s":
      return number(value) + "/s";
    default:
      return number(value) + " " + unit;
  }
}

/** So many digits behind the point that a step of an axis is told apart from the next one. */
function digitsOf(step: number): number {
  for (let digits = 0; digits < 9; digits++)
    if (Math.abs(step - Number(step.toFixed(digits))) < step / 100) return digits;
  return 9;
}

function plainTick(value: number, step: number): string {
  const size = Math.abs(value);
  if (size >= 1e6) return plainTick(value / 1e6, step / 1e6) + " M";
  if (size > 0 && size < 1e-4)
    return value.toExponential(Math.max(0, Math.floor(Math.log10(size)) + digitsOf(step)));
  return value.toLocaleString("en-US", { maximumFractionDigits: digitsOf(step) });
}

/** For axes: short, with the digits that tell two marks apart. */
export function tick(value: number, step: number, unit = ""): string {
  // Zero has the unit of the mark beside it.
  const inUnit = (v: number, s: number, scale: Scale) =>
    scaled(
      v,
      scale,
      (shown, factor) => plainTick(shown, Math.min(s * factor, Math.abs(shown) || Infinity)),
      v || s,
    );
  switch (unit) {
    case "ms":
      return inUnit(value, step, TIMES);
    case "s":
      return inUnit(value * 1000, step * 1000, TIMES);
    case "MB":
      return inUnit(value, step, SIZES);
    case "MB/s":
      return inUnit(value, step, SIZES) + "/s";
    case "B":
    case "bytes":
      return inUnit(value / 1048576, step / 1048576, SIZES);
    case "%":
      return plainTick(value, step) + " %";
    case "1/s":
      return plainTick(value, step) + "/s";
    case "C":
      return plainTick(value, step) + " °C";
    default:
      return plainTick(value, step) + (unit && " " + unit);
  }
}

const two = (n: number) => String(n).padStart(2, "0");

export function clock(ms: number): string {
  const d = new Date(ms);
  return `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}

/** Round times between two others, in milliseconds, at most so many. */
export function timeMarks(from: number, to: number, most: number): { t: number; text: string }[] {
  const seconds = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 86400];
  const round = [1, 2, 5, 10, 20, 50, 100, 200, 500].concat(seconds.map((s) => 1000 * s));
  const wanted = (to - from) / Math.max(1, most),
    step = round.find((s) => s >= wanted) ?? 86400e3 * Math.ceil(wanted / 86400e3);
  const marks: { t: number; text: string }[] = [];
  for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
    const rest = step % 1000 ? "." + String(t % 1000).padStart(3, "0") : "";
    marks.push({ t, text: clock(t) + rest });
  }
  return marks;
}

/** With the day where it is not today. */
export function moment(ms: number, now = Date.now()): string {
  const d = new Date(ms),
    today = new Date(now);
  const same = d.toDateString() === today.toDateString();
  return (
    (same ? "" : `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} `) + clock(ms)
  );
}

/** "3 min 12 s", "2 h 5 min": two units at most. */
export function duration(seconds: number): string {
  const parts: [number, string][] = [
    [86400, "d"],
    [3600, "h"],
    [60, "min"],
    [1, "s"],
  ];
  let left = Math.max(0, Math.round(seconds));
  const words: string[] = [];
  for (const [size, name] of parts) {
    const n = Math.floor(left / size);
    left -= n * size;
    if (n) words.push(`${n} ${name}`);
    if (words.length === 2 || (words.length === 1 && name === "s")) break;
  }
  return words.length ? words.join(" ") : "0 s";
}

export function ago(ms: number, now = Date.now()): string {
  return now - ms < 1500
    ? "just now"
    : duration((now - ms) / 1000)
        .split(" ")
        .slice(0, 2)
        .join(" ") + " ago";
}

/** What tells a command apart: the script and its arguments, without the interpreter. */
export function shortCommand(command: string): string {
  const words = command.trim().split(/\s+/);
  let i = /(?:^|\/)python[\d.]*t?$/.test(words[0] ?? "") ? 1 : 0;
  while (
    i < words.length &&
    /^-[a-zA-Z]$/.test(words[i]!) &&
    words[i] !== "-m" &&
    words[i] !== "-c"
  )
    i++;
  const rest = words.slice(i);
  if (!rest.length) return command;
  if (rest[0] !== "-m" && rest[0] !== "-c") rest[0] = rest[0]!.slice(rest[0]!.lastIndexOf("/") + 1);
  return rest.join(" ");
}

/** The part of a path that tells files apart. */
export function shortPath(path: string): string {
  const found = /(?:.*\/(?:site|dist)-packages|.*\/lib\/python3[^/]*)\/(.+)$/.exec(path);
  if (found) return found[1]!;
  const parts = path.split("/");
  return parts.length > 3 ? parts.slice(-2).join("/") : path;
}

/** "5,000 of 81,233". */
export function counted(shown: number, all: number | null): string {
  const s = shown.toLocaleString("en-US");
  if (all === null) return `${s} of more`;
  return shown === all ? s : `${s} of ${all.toLocaleString("en-US")}`;
}
