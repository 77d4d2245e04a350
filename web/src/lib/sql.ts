// SQL as it is asked, shown and copied.
import { bucketOf, type Range } from "./range.ts";

export function quote(text: string): string {
  return "'" + text.replaceAll("'", "''") + "'";
}

/** A text as SQL says it, or NULL. */
export function literalOf(text: string | null): string {
  return text === null ? "NULL" : quote(text);
}

export function literal(ms: number): string {
  return `TIMESTAMPTZ '${new Date(ms).toISOString().replace("T", " ").replace("Z", "+00")}'`;
}

/**
 * A saved query: SQL in which
 *   {time}    is the condition that timestamp lies in the range; {time:t.timestamp} that of another
 *   {bucket}  is the number of seconds of one point
 */
export function forPeople(template: string, range: Range): string {
  return fill(template, range, (column) =>
    range.live
      ? `${column} >= now() - INTERVAL ${range.span} SECOND`
      : `${column} >= ${literal(range.from)} AND ${column} < ${literal(range.to)}`,
  );
}

/** For a stream, where the node says from when on: see POST /api/stream. */
export function forStream(template: string, range: Range): string {
  return range.live
    ? fill(template, range, (column) => `${column} >= $from`)
    : forPeople(template, range);
}

function fill(template: string, range: Range, time: (column: string) => string): string {
  return template
    .replace(/\{time(?::([\w.]+))?\}/g, (_, column?: string) => time(column ?? "timestamp"))
    .replaceAll("{bucket}", String(bucketOf(range)))
    .trim();
}

/** The text on one line where that changes nothing, for a command line. */
function oneLine(sql: string): string {
  return sql.includes("--") ? sql : sql.replace(/\s*\n\s*/g, " ");
}

export function shellQuote(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : "'" + text.replaceAll("'", "'\\''") + "'";
}

/** What shows the same in a terminal. */
export function commandLine(sql: string, target: string): string {
  return `probing ${target ? target + " " : ""}query ${shellQuote(oneLine(sql))}`;
}
