// Values of two dimensions as colours: modules over steps, ranks over ranks.
import { useEffect, useRef, useState } from "preact/hooks";
import { theme } from "../lib/theme.ts";
import { useStore } from "../lib/store.ts";

export interface HeatProps {
  rows: string[];
  columns: string[];
  /** By row and column; null: nothing is known. */
  values: (number | null)[][];
  format: (value: number) => string;
  label: string;
  /** What columns are, e.g. "step". */
  across: string;
  cellHeight?: number;
  /** Each row is coloured by its own values: what changes is seen, not what is large. */
  byRow?: boolean;
  onRow?: (row: number) => void;
}

const NAME_WIDTH = 240;
/** Of one character of a name. */
const LETTER = 6.8;

/** The end of a long name tells it from others. */
function tail(name: string, width: number): string {
  const fits = Math.max(6, Math.floor(width / LETTER));
  return name.length > fits ? "…" + name.slice(1 - fits) : name;
}

/** Between 0 and 1: faint to full, of the accent's hue. */
function colourOf(share: number, dark: boolean): string {
  const s = Math.max(0, Math.min(1, share));
  return dark
    ? `hsl(212 ${30 + 60 * s}% ${13 + 52 * s}%)`
    : `hsl(212 ${45 + 45 * s}% ${96 - 55 * s}%)`;
}

/** Wide cells have room for their value. */
const WIDE = 52;

/** Lowest and highest, without the outermost hundredth: one slow step does not pale the rest. */
export function limits(values: (number | null)[]): [number, number] {
  const known = values.filter((v): v is number => v !== null).sort((a, b) => a - b);
  if (!known.length) return [0, 1];
  const at = (q: number) => known[Math.min(known.length - 1, Math.floor(q * known.length))]!;
  return [known[0]!, Math.max(at(0.99), known[0]! + 1e-9)];
}

export function HeatMap(p: HeatProps) {
  const canvas = useRef<HTMLCanvasElement>(null),
    box = useRef<HTMLDivElement>(null);
  const [at, setAt] = useState<[number, number] | null>(null),
    [width, setWidth] = useState(600);
  const { dark } = useStore(theme),
    cell = p.cellHeight ?? 16,
    height = p.rows.length * cell;
  const names = Math.min(NAME_WIDTH, width * 0.4),
    room = Math.max(width - names, 40);

  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => setWidth(entry!.contentRect.width));
    watch.observe(box.current!);
    return () => watch.disconnect();
  }, []);

  useEffect(() => {
    const pen = canvas.current?.getContext("2d"),
      ratio = devicePixelRatio || 1;
    if (!pen) return;
    canvas.current!.width = room * ratio;
    canvas.current!.height = height * ratio;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, room, height);
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    const all = limits(p.values.flat()),
      step = room / Math.max(1, p.columns.length);
    p.values.forEach((row, r) => {
      const [low, high] = p.byRow ? limits(row) : all;
      row.forEach((v, c) => {
        if (v === null) return;
        pen.fillStyle = colourOf((v - low) / (high - low), dark);
        pen.fillRect(c * step, r * cell, Math.max(step - (step > 6 ? 1 : 0), 0.5), cell - 1);
        if (step < WIDE) return;
        const full = (v - low) / (high - low) > 0.5;
        pen.fillStyle = dark ? (full ? "#0b0d10" : "#e3e5e8") : full ? "#fff" : "#1c1e21";
        pen.fillText(p.format(v), c * step + 6, r * cell + cell / 2);
      });
    });
  }, [p.values, room, height, dark, p.byRow]);

  const move = (event: MouseEvent) => {
    const from = canvas.current!.getBoundingClientRect();
    const r = Math.floor((event.clientY - from.top) / cell);
    const c = Math.floor(((event.clientX - from.left) / room) * p.columns.length);
    setAt(p.values[r]?.[c] !== undefined ? [r, c] : null);
  };
  const value = at && p.values[at[0]]![at[1]];
  const titled = room / Math.max(1, p.columns.length) >= WIDE;
  return (
    <figure class="heat" aria-label={p.label} ref={box}>
      {titled && (
        <div class="heat-columns dim" style={{ paddingLeft: `${names}px` }} aria-hidden="true">
          {p.columns.map((name) => (
            <span key={name} title={`${p.across} ${name}`}>
              {/^\d+$/.test(name) ? `${p.across} ${name}` : name}
            </span>
          ))}
        </div>
      )}
      <div class="heat-box">
        <ol class="heat-names" style={{ width: `${names}px` }}>
          {p.rows.map((name, r) => (
            <li key={r} style={{ height: `${cell}px`, lineHeight: `${cell}px` }} title={name}>
              {p.onRow ? (
                <button type="button" class="plain" onClick={() => p.onRow!(r)}>
                  {tail(name, names)}
                </button>
              ) : (
                tail(name, names)
              )}
            </li>
          ))}
        </ol>
        <canvas
          ref={canvas}
          style={{ width: `${room}px`, height: `${height}px` }}
          role="img"
          aria-label={p.label}
          onMouseMove={move}
          onMouseLeave={() => setAt(null)}
        />
      </div>
      <figcaption class="dim">
        {at
          ? `${p.rows[at[0]]} · ${p.across} ${p.columns[at[1]]} · ` +
            (value === null || value === undefined ? "not known" : p.format(value))
          : [
              titled ? "" : `${p.across} ${p.columns[0] ?? ""} to ${p.columns.at(-1) ?? ""}`,
              `the ${dark ? "brighter" : "darker"} the more`,
              p.byRow ? "each row by its own values" : "",
            ]
              .filter(Boolean)
              .join("; ")}
      </figcaption>
    </figure>
  );
}
