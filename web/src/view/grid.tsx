// A table of few columns that a page has chosen: sorted by a click on a title.
import type { ComponentChildren } from "preact";
import { counted } from "../lib/format.ts";
import { linkTo } from "../lib/link.ts";
import { link } from "../lib/place.ts";
import { parseRange } from "../lib/range.ts";
import { forPeople } from "../lib/sql.ts";
import { formatOrder, parseOrder, slug, useLinked } from "../lib/linked.ts";

export interface GridColumn<T> {
  title: string;
  /** What it is sorted by. */
  by?: (row: T) => number | string | null;
  show: (row: T) => ComponentChildren;
  number?: boolean;
  /** Takes what is left of the width. */
  wide?: boolean;
  doc?: string;
}

export interface GridProps<T> {
  label: string;
  columns: GridColumn<T>[];
  rows: T[];
  id: (row: T) => string;
  /** The column to sort by at first, and whether the largest come first. */
  sort?: [column: number, down: boolean];
  class?: (row: T) => string;
  onOpen?: (row: T) => void;
  /** A query (see sql.ts) for the rows that its numbers are made of: they lead to it. */
  behind?: (row: T) => string;
  /** More are counted, not shown. */
  limit?: number;
  /** How many rows there are, where the query has left some out. */
  all?: number | undefined;
}

export function sorted<T>(rows: T[], by: (row: T) => number | string | null, down: boolean): T[] {
  const sign = down ? -1 : 1;
  return [...rows].sort((a, b) => {
    const x = by(a),
      y = by(b);
    if (x === null || y === null) return x === y ? 0 : x === null ? 1 : -1;
    return x < y ? -sign : x > y ? sign : 0;
  });
}

function Cell<T>({ row, column, behind }: { row: T; column: GridColumn<T>; behind: string }) {
  const shown = column.show(row);
  if (!behind || !column.number || shown === "" || shown === null || shown === undefined)
    return <>{shown}</>;
  return (
    <a href={behind} title="the rows behind this number">
      {shown}
    </a>
  );
}

export function Grid<T>(p: GridProps<T>) {
  const [said, say] = useLinked(`o.${slug(p.label)}`);
  const order = parseOrder(said),
    chosen = order ? p.columns.findIndex((c) => c.title === order.column) : -1;
  const sort: GridProps<T>["sort"] = order && chosen >= 0 ? [chosen, order.down] : p.sort;
  const by = sort && p.columns[sort[0]]?.by;
  const all = by ? sorted(p.rows, by, sort[1]) : p.rows;
  const shown = p.limit ? all.slice(0, p.limit) : all;
  const count = Math.max(all.length, p.all ?? 0);
  const range = parseRange(link.value.params.r);
  const behind = (row: T) =>
    p.behind ? linkTo(link.value, "sql", { q: forPeople(p.behind(row), range) }) : "";
  const turn = (i: number) => {
    const down = sort?.[0] === i ? !sort[1] : (p.columns[i]!.number ?? false);
    say(formatOrder({ column: p.columns[i]!.title, down }));
  };

  return (
    <div class="grid-scroll">
      <table class="grid" aria-label={p.label}>
        <thead>
          <tr>
            {p.columns.map((c, i) => (
              <th
                key={c.title}
                class={`${c.number ? "number" : ""} ${c.wide ? "wide" : ""}`}
                title={c.doc}
                aria-sort={sort?.[0] === i ? (sort[1] ? "descending" : "ascending") : undefined}
              >
                {c.by ? (
                  <button type="button" onClick={() => turn(i)}>
                    {c.title}
                    {sort?.[0] === i ? (sort[1] ? " ↓" : " ↑") : ""}
                  </button>
                ) : (
                  c.title
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {shown.map((row) => {
            const to = behind(row);
            return (
              <tr
                key={p.id(row)}
                class={p.class?.(row) ?? ""}
                onClick={p.onOpen && (() => p.onOpen!(row))}
              >
                {p.columns.map((c) => (
                  <td key={c.title} class={`${c.number ? "number" : ""} ${c.wide ? "wide" : ""}`}>
                    <Cell row={row} column={c} behind={to} />
                  </td>
                ))}
              </tr>
            );
          })}
        </tbody>
      </table>
      {shown.length < count && <p class="dim more">{counted(shown.length, count)}</p>}
    </div>
  );
}
