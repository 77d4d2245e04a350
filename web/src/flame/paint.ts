// Where each frame lies and how it is drawn. Only frames at least half a pixel wide are visited, so
// that the size of a recording does not matter.
import {
  changeOf, childrenOf, type FlameData, type Frame, Kind, labelOf, type Matches, type Tree,
} from "./model.ts";

export const ROW = 18;
const THIN = 0.5, JOINED = 1.5, PADDING = 2;
/** Widest box without a name in it. */
const UNNAMED = 24;

/** One frame on the screen; x and width in pixels. */
export type Box = [node: number, x: number, width: number];

export interface Layout {
  /** By row, outermost first. */
  rows: Box[][];
  /** So many rows are callers of the root. */
  above: number;
}

/** Callers of the root, then all that can be seen below it. */
export function layout(tree: Tree, root: number, width: number): Layout {
  const { total } = tree, rows: Box[][] = [];
  for (let n = root; n !== 0; ) {
    n = tree.parent[n]!;
    rows.unshift([[n, 0, width]]);
  }
  const above = rows.length, scale = total[root] ? width / total[root]! : 0;
  let level: Box[] = [[root, 0, width]];
  while (level.length) {
    rows.push(level);
    const next: Box[] = [];
    for (const [node, from] of level) {
      let x = from;
      for (const child of childrenOf(tree, node)) {
        const w = total[child]! * scale;
        if (w < THIN) break; // sorted: the rest is thinner
        next.push([child, x, w]);
        x += w;
      }
    }
    level = next;
  }
  return { rows, above };
}

export function heightOf(l: Layout): number {
  return l.rows.length * ROW + 2 * PADDING;
}

/** The top of a row; `upwards` puts the outermost at the bottom of `height` pixels. */
export function rowTop(row: number, upwards: boolean, height: number): number {
  return upwards ? height - (row + 1) * ROW - PADDING : row * ROW + PADDING;
}

export function nodeAt(l: Layout, x: number, y: number, upwards: boolean, height: number): number {
  const row = Math.floor((upwards ? height - y - PADDING : y - PADDING) / ROW);
  const found = (l.rows[row] ?? []).find(([, from, w]) => x >= from && x < from + w);
  return found ? found[0] : -1;
}

/** Warm for Python, cool for C; the same function has the same shade everywhere. */
function shadeOf([name, , , kind]: Frame, dark: boolean): string {
  const native = kind === Kind.native;
  if (kind === Kind.rest) return dark ? "#2a2e33" : "#eceef1";
  let h = 5381;
  for (let i = 0; i < name.length; i++) h = (h * 33 + name.charCodeAt(i)) >>> 0;
  const hue = (native ? 200 : 18) + (h % 32), light = (dark ? 36 : 66) + ((h >>> 8) % 10);
  return `hsl(${hue} ${native ? 45 : dark ? 48 : 80}% ${light}%)`;
}

/** Shades by frame, made when they are first needed: a new one takes longer than its box. */
const shades = new WeakMap<FlameData, [light: string[], dark: string[]]>();

function colourOf(data: FlameData, tree: Tree, node: number, dark: boolean): string {
  const f = tree.frame[node]!;
  if (f < 0) return dark ? "#3b4048" : "#dfe3e8";
  let known = shades.get(data);
  if (!known) shades.set(data, (known = [[], []]));
  return (known[dark ? 1 : 0][f] ??= shadeOf(data.frames[f]!, dark));
}

/** Red for what takes longer than before, blue for what takes less; pale where nothing changed. */
export function differenceColour(change: number, dark: boolean): string {
  const strength = Math.min(Math.abs(change), 1), hue = change > 0 ? 8 : 212;
  const light = dark ? 26 + 18 * strength : 94 - 36 * strength;
  return `hsl(${hue} ${Math.round(8 + 70 * strength)}% ${Math.round(light)}%)`;
}

export interface Scene {
  data: FlameData;
  tree: Tree;
  layout: Layout;
  chosen: number;
  matches: Matches | null;
  upwards: boolean;
  showBefore: boolean;
  dark: boolean;
  hitColour: string;
  /** Of the part that is seen. */
  width: number;
  height: number;
  scrollTop: number;
}

/** Neighbours too thin to be told apart become one box, unless a search or a difference does. */
export function joinThin(s: Pick<Scene, "tree" | "matches" | "chosen">, row: Box[]): Box[] {
  if (s.tree.other) return row;
  const joined: Box[] = [];
  let last: Box | null = null, bits = 0;
  for (const box of row) {
    const [node, x, w] = box, hit = s.matches ? s.matches.bits[node]! : 0;
    const own = node === s.chosen ? -1 : hit;
    if (w >= JOINED) last = null;
    else if (last && own === bits && x - last[1] - last[2] < THIN && x + w - last[1] <= UNNAMED) {
      last[2] = x + w - last[1];
      continue;
    } else last = [node, x, w];
    bits = own;
    joined.push(w >= JOINED ? box : last!);
  }
  return joined;
}

export function paint(pen: CanvasRenderingContext2D, s: Scene): void {
  const all = Math.max(heightOf(s.layout), s.height);
  pen.clearRect(0, 0, s.width, s.height);
  pen.font = "11.5px system-ui, sans-serif";
  pen.textBaseline = "middle";
  s.layout.rows.forEach((row, d) => {
    const y = rowTop(d, s.upwards, all) - s.scrollTop;
    if (y < -ROW || y > s.height) return;
    for (const box of joinThin(s, row)) paintBox(pen, s, box, y, d < s.layout.above);
  });
  pen.globalAlpha = 1;
}

function paintBox(pen: CanvasRenderingContext2D, s: Scene, [node, x, w]: Box, y: number,
                  caller: boolean): void {
  const bits = s.matches ? s.matches.bits[node]! : 2, ink = s.dark ? "#f2f3f5" : "#15171a";
  pen.globalAlpha = caller ? 0.55 : bits & 2 ? 1 : 0.45;
  pen.fillStyle = bits & 1 ? s.hitColour
    : s.tree.other ? differenceColour(changeOf(s.tree, node, s.showBefore), s.dark)
    : colourOf(s.data, s.tree, node, s.dark);
  pen.fillRect(x, y, Math.max(w - (w > 2 ? 1 : 0), THIN), ROW - 1);
  if (node === s.chosen && w > 2) {
    pen.strokeStyle = ink;
    pen.lineWidth = 1.5;
    pen.strokeRect(x + 0.75, y + 0.75, w - 2.5, ROW - 2.5);
  }
  if (w <= UNNAMED) return;
  pen.fillStyle = ink;
  pen.fillText(cut(pen, labelOf(s.data, s.tree, node), w - 6), x + 3, y + ROW / 2);
}

function cut(pen: CanvasRenderingContext2D, text: string, room: number): string {
  const width = pen.measureText(text).width;
  if (width <= room) return text;
  let n = Math.floor((text.length * room) / width);
  while (n > 1 && pen.measureText(text.slice(0, n) + "…").width > room) n--;
  return text.slice(0, n) + "…";
}
