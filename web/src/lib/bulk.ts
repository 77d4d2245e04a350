// Answers of any length: rows stay the text that they came as until they are looked at.
import type { Coverage } from "./cluster.ts";
import { lines, NodeError, post, type Question } from "./api.ts";
import type { Column, Failure, Row } from "./rows.ts";

const LONG = /\d{16}/,
  LONG_OR_TEXT = /"(?:[^"\\]|\\.)*"|(?<=[[,:])-?\d{16,}(?=[\],}])/g;

/** A row out of its text; whole numbers that JavaScript would round (hashes) are texts. */
export function exactRow(text: string): Row {
  const exact = LONG.test(text)
    ? text.replace(LONG_OR_TEXT, (found) => (found[0] === '"' ? found : `"${found}"`))
    : text;
  return JSON.parse(exact) as Row;
}

export class Bulk {
  columns: Column[] = [];
  /** Each a JSON array. */
  private texts: string[] = [];
  /** How many rows there are in all; null: not known. */
  all: number | null = null;
  truncated = false;
  ms = 0;
  notices: string[] = [];
  /** Who answered, of a cluster. */
  coverage: Coverage | undefined = undefined;
  done = false;

  get length(): number {
    return this.texts.length;
  }

  row(i: number): Row {
    return exactRow(this.texts[i]!);
  }

  /** At most so many, evenly spread. */
  some(most: number): Row[] {
    const every = Math.max(1, Math.ceil(this.length / most)),
      out: Row[] = [];
    for (let i = 0; i < this.length; i += every) out.push(this.row(i));
    return out;
  }

  take(line: string): void {
    if (line.charCodeAt(0) === 91) {
      this.texts.push(line);
      return;
    }
    const said = JSON.parse(line) as {
      columns?: Column[];
      error?: Failure;
      done?: {
        truncated: boolean;
        left_out?: number;
        ms: number;
        notices: string[];
        coverage?: Coverage;
      };
    };
    if (said.error) throw new NodeError(said.error, 400);
    if (said.columns) {
      // Of several statements the last one is shown.
      this.columns = said.columns;
      this.texts = [];
    }
    if (said.done) {
      const { truncated, left_out, ms, notices, coverage } = said.done;
      Object.assign(this, { truncated, ms, notices, coverage, done: true });
      this.all = !truncated ? this.length : left_out === undefined ? null : this.length + left_out;
    }
  }
}

/** `more` is called when there is something to show, and not too often. */
export async function askBulk(
  question: Question,
  signal: AbortSignal,
  more: (bulk: Bulk) => void,
): Promise<Bulk> {
  const bulk = new Bulk();
  const answer = await post("api/query", { dead: true, ...question, format: "rows" }, { signal });
  let told = 0;
  for await (const line of lines(answer)) {
    bulk.take(line);
    if (bulk.length === 100 || (bulk.length % 1000 === 0 && Date.now() - told > 300)) {
      told = Date.now();
      more(bulk);
    }
  }
  return bulk;
}

/** The place of a byte in a text, in characters as JavaScript counts them. */
export function characterAt(text: string, byte: number): number {
  const bytes = new TextEncoder().encode(text).subarray(0, byte);
  return new TextDecoder().decode(bytes).length;
}

/** The same question with its rows in another order: sorted before they are cut off. */
export function sortedSql(sql: string, column: string, down: boolean): string {
  const bare = sql.trim().replace(/;\s*$/, "");
  return `SELECT * FROM (\n${bare}\n) ORDER BY "${column.replaceAll('"', '""')}" ${
    down ? "DESC" : "ASC"
  } NULLS LAST`;
}
