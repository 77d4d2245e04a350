// Answers of the node: columns, rows, and what it had to say about them.
import type { Coverage } from "./cluster.ts";

export type Cell = string | number | boolean | null;
export type Row = Cell[];

export interface Column {
  name: string;
  type: string;
}

export interface Result {
  columns: Column[];
  rows: Row[];
  /** Cut off at a limit; leftOut says how many more there are, if that is known. */
  truncated: boolean;
  leftOut: number | null;
  ms: number;
  notices: string[];
  /** When it was asked, milliseconds since 1970. */
  at: number;
  /** Who answered, of a cluster. */
  coverage?: Coverage;
}

export const NO_ROWS: Result = {
  columns: [],
  rows: [],
  truncated: false,
  leftOut: null,
  ms: 0,
  notices: [],
  at: 0,
};

export interface Failure {
  code: string;
  message: string;
  /** Byte of the SQL text that it is about. */
  at: number | null;
  nearest: string;
}

export function objects<T>(result: Result): T[] {
  return result.rows.map(
    (row) => Object.fromEntries(result.columns.map((c, i) => [c.name, row[i]])) as T,
  );
}

/**
 * What a stream sends of a query that grows: all points from `from` on are new. The first column is
 * the time in milliseconds, in order; what lies before `oldest` has left the window. Why there is
 * nothing is told once: it stays for as long as there is nothing.
 */
export function grow(old: Result, more: Result, from: number, oldest: number): Result {
  const kept = old.rows.filter((row) => {
    const t = row[0] as number;
    return t >= oldest && t < from;
  });
  const rows = kept.concat(more.rows),
    why = more.notices.length ? more.notices : old.notices;
  const truncated = more.truncated || (kept.length > 0 && old.truncated);
  return { ...more, rows, truncated, notices: rows.length ? [] : why };
}

const NUMBERS = /^(?:(?:U?(?:TINY|SMALL|BIG|HUGE)?INT(?:EGER)?)|DOUBLE|FLOAT|REAL|DECIMAL.*)$/;

export function isNumeric(column: Column): boolean {
  return NUMBERS.test(column.type);
}

export function isTime(column: Column): boolean {
  return column.type.startsWith("TIMESTAMP");
}
