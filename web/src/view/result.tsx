// A table of any number of rows: only those that are seen are made.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Bulk } from "../lib/bulk.ts";
import { moment } from "../lib/format.ts";
import { type Cell, type Column, isNumeric, isTime } from "../lib/rows.ts";

const ROW = 22,
  BUFFER = 12;
/** Browsers draw no element that is much higher. */
const MAX_HEIGHT = 15e6;

/** A value as it is, but for a time, which is said in the reader's own. */
function exact(cell: Cell, column: Column): string {
  if (cell === null) return "";
  if (isTime(column) && typeof cell === "string") {
    const t = Date.parse(cell);
    return Number.isNaN(t) ? cell : moment(t) + cell.slice(19, 26).replace("Z", "");
  }
  return typeof cell === "object" ? JSON.stringify(cell) : String(cell);
}

/** Eight digits of what is no whole number: the others are in the row's own list. */
export function show(cell: Cell, column: Column): string {
  return typeof cell === "number" && isNumeric(column) && !Number.isInteger(cell)
    ? String(+cell.toPrecision(8))
    : exact(cell, column);
}

let pen: CanvasRenderingContext2D | null = null;

/** In the table's font. */
function widthOf(text: string, size: number): number {
  pen ??= document.createElement("canvas").getContext("2d");
  if (!pen) return text.length * size;
  pen.font = `${size}px ${getComputedStyle(document.body).fontFamily}`;
  return pen.measureText(text).width;
}

const FONT = 12.5,
  NUMBER_FONT = 11,
  PADDING = 18;

/** Widths by the titles and the first rows; they stay when more come. */
function widthsOf(bulk: Bulk): number[] {
  const n = Math.min(bulk.length, 100),
    rows = Array.from({ length: n }, (_, i) => bulk.row(i));
  return bulk.columns.map((c, k) => {
    const texts = [c.name + " ↓", ...rows.map((r) => show(r[k] ?? null, c).slice(0, 80))];
    const widest = Math.max(...texts.map((text) => widthOf(text, FONT)));
    return Math.min(Math.max(Math.ceil(widest) + PADDING, 50), 420);
  });
}

export function ResultTable({
  bulk,
  version,
  sort,
  onSort,
}: {
  bulk: Bulk;
  /** Changes when rows have come. */
  version: number;
  sort: { column: string; down: boolean } | null;
  onSort: (column: string) => void;
}) {
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0),
    [height, setHeight] = useState(400);
  const [chosen, setChosen] = useState<number | null>(null);
  const widths = useRef<number[]>([]),
    of = useRef<Bulk | null>(null),
    counted = useRef(0);
  if (of.current !== bulk || counted.current < Math.min(bulk.length, 100)) {
    widths.current = widthsOf(bulk);
    of.current = bulk;
    counted.current = Math.min(bulk.length, 100);
  }
  void version;

  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => setHeight(entry!.contentRect.height));
    watch.observe(box.current!);
    return () => watch.disconnect();
  }, []);
  useEffect(() => {
    box.current!.scrollTop = 0;
    setChosen(null);
  }, [bulk]);

  // Beyond what a browser can draw, a pixel of the bar stands for more than one.
  const full = bulk.length * ROW,
    space = Math.min(full, MAX_HEIGHT);
  const scale = full > space ? (full - height) / (space - height) : 1;
  const offset = top * scale,
    first = Math.max(0, Math.floor(offset / ROW) - BUFFER);
  const last = Math.min(bulk.length, Math.ceil((offset + height) / ROW) + BUFFER);
  const numbers = Math.max(56, Math.ceil(widthOf(String(bulk.length), NUMBER_FONT)) + PADDING);
  const shift = top - (offset - first * ROW),
    total = widths.current.reduce((a, b) => a + b, numbers);

  /** The row above or below; scrolled to, if it is not on the screen. */
  const move = (event: KeyboardEvent) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") setChosen(null);
    if (!by || event.target !== box.current) return;
    event.preventDefault();
    const at = chosen === null ? Math.ceil(offset / ROW) : chosen + by,
      next = Math.min(Math.max(at, 0), bulk.length - 1);
    setChosen(next);
    const head = (box.current!.firstElementChild as HTMLElement).offsetHeight,
      lowest = Math.max(0, head + (next + 1) * ROW - height),
      seen = Math.min(Math.max(offset, lowest), next * ROW);
    if (seen !== offset) box.current!.scrollTop = seen / scale;
  };

  return (
    <>
      <div
        class="result"
        ref={box}
        tabIndex={0}
        role="table"
        aria-label="rows; arrow keys choose one"
        aria-rowcount={bulk.length + 1}
        onScroll={(e) => setTop(e.currentTarget.scrollTop)}
        onKeyDown={move}
      >
        <div class="result-head" style={{ width: `${total}px` }} role="row" aria-rowindex={1}>
          <span class="result-number" role="columnheader" style={{ width: `${numbers}px` }}>
            <span class="hidden">number</span>
          </span>
          {bulk.columns.map((c, k) => (
            <span
              key={k}
              role="columnheader"
              style={{ width: `${widths.current[k]}px` }}
              aria-sort={
                sort?.column === c.name ? (sort.down ? "descending" : "ascending") : undefined
              }
            >
              <button
                type="button"
                class={isNumeric(c) ? "number" : ""}
                title={`${c.name}: ${c.type}`}
                onClick={() => onSort(c.name)}
              >
                {c.name}
                {sort?.column === c.name ? (sort.down ? " ↓" : " ↑") : ""}
              </button>
            </span>
          ))}
        </div>
        <div style={{ height: `${space}px`, width: `${total}px`, position: "relative" }}>
          <div style={{ transform: `translateY(${shift}px)` }}>
            {Array.from({ length: Math.max(0, last - first) }, (_, i) => {
              const n = first + i,
                row = bulk.row(n);
              return (
                <div
                  key={n}
                  role="row"
                  aria-rowindex={n + 2}
                  aria-current={n === chosen ? "true" : undefined}
                  class={`result-row ${n === chosen ? "chosen" : ""}`}
                  onClick={() => setChosen(n === chosen ? null : n)}
                >
                  <span
                    class="result-number"
                    role="rowheader"
                    style={{ width: `${numbers}px` }}
                  >
                    {n + 1}
                  </span>
                  {bulk.columns.map((c, k) => (
                    <span
                      key={k}
                      role="cell"
                      style={{ width: `${widths.current[k]}px` }}
                      class={`${isNumeric(c) ? "number" : ""} ${row[k] === null ? "null" : ""}`}
                    >
                      {show(row[k] ?? null, c)}
                    </span>
                  ))}
                </div>
              );
            })}
          </div>
        </div>
      </div>
      {chosen !== null && chosen < bulk.length && (
        <dl class="record" aria-label={`row ${chosen + 1}`} aria-live="polite">
          {bulk.columns.map((c, k) => (
            <div key={k}>
              <dt>{c.name}</dt>
              <dd>{exact(bulk.row(chosen)[k] ?? null, c)}</dd>
            </div>
          ))}
        </dl>
      )}
    </>
  );
}
