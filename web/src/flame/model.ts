// A recording as a tree with weights: which time counts, how frames add up, what a search finds.
// Nothing here knows of a screen.

/** Name, file, line (0: none), and what it is: one of `Kind`. */
export type Frame = [name: string, file: string, line: number, kind: number];

/** A rest stands for callees that are too light to be told apart. */
export const Kind = { python: 0, native: 1, rest: 2 } as const;

/** What `probing flamegraph` writes and the node answers: a prefix tree and what was seen in it. */
export interface FlameData {
  title: string;
  info: string;
  threads: string[];
  frames: Frame[];
  /** By node: the caller's node and the frame; node 0 is the root. Callers come first. */
  parent: number[];
  frame: number[];
  /** What leaves weigh; without it microseconds. */
  unit?: "bytes";
  /** Four numbers each: node, thread, what it did (bits of `Did`), microseconds. */
  leaves: number[];
  /** Parts of the time that is covered: how many, how long each, and when the first began. */
  slots?: { n: number; ms: number; start: number };
  /** By leaf: its part, and over how many more it reaches. */
  slot?: number[];
  span?: number[];
  /** What it is compared with, like `leaves`; scaled to the same length of time. */
  before?: number[];
  /** By node with rests below it: an id to ask for what lies there. */
  more?: Record<string, string>;
  /** By frame: its line of the program. */
  source?: Record<string, string>;
}

export const Did = { cpu: 1, holdsGil: 2, waitsGil: 4 } as const;

export type Filter = "all" | "cpu" | "off" | "gil" | "wait";

const FILTERS: Record<Filter, (did: number) => boolean> = {
  all: () => true,
  cpu: (did) => (did & Did.cpu) !== 0,
  off: (did) => (did & Did.cpu) === 0,
  gil: (did) => (did & Did.holdsGil) !== 0,
  wait: (did) => (did & Did.waitsGil) !== 0,
};

export const FILTER_NAMES: Record<Filter, string> = {
  all: "all time",
  cpu: "running",
  off: "not running",
  gil: "holding the GIL",
  wait: "waiting for the GIL",
};

export interface Selection {
  filter: Filter;
  /** Index into `threads`; -1 for all. */
  thread: number;
  /** A level of threads below the root. */
  byThread: boolean;
  /** Parts of the time, from the first up to and without the second; null for all. */
  window?: [from: number, to: number] | null;
  /** Of a comparison: widths are what was before. */
  showBefore?: boolean;
}

/**
 * Arrays by node. Children of n are child[first[n] .. first[n + 1]); `childrenOf` puts the heaviest
 * first when they are first looked at, since most are never seen.
 */
export interface Tree {
  n: number;
  parent: ArrayLike<number>;
  /** A frame, or -2 - thread for the node of a thread; -1 for the root. */
  frame: ArrayLike<number>;
  own: Float64Array;
  total: Float64Array;
  /** Of a comparison, the same for what widths do not show. */
  other: Float64Array | null;
  first: Uint32Array;
  child: Uint32Array;
  sorted: Uint8Array;
}

/** The recording's own tree, with one copy of it below each thread. */
class ThreadSplit {
  readonly parent = [0];
  readonly frame = [-1];
  private readonly copies = new Map<number, Map<number, number>>();

  constructor(private readonly data: FlameData) {}

  private add(parent: number, frame: number): number {
    this.parent.push(parent);
    this.frame.push(frame);
    return this.parent.length - 1;
  }

  /** The copy of a node below its thread; made with all its callers when it is new. */
  node(thread: number, node: number): number {
    let copy = this.copies.get(thread);
    if (!copy) this.copies.set(thread, (copy = new Map([[0, this.add(0, -2 - thread)]])));
    const path: number[] = [];
    while (!copy.has(node)) {
      path.push(node);
      node = this.data.parent[node]!;
    }
    let at = copy.get(node)!;
    for (const n of path.reverse()) copy.set(n, (at = this.add(at, this.data.frame[n]!)));
    return at;
  }
}

function children(parent: ArrayLike<number>, total: Float64Array): Pick<Tree, "first" | "child"> {
  const n = total.length, first = new Uint32Array(n + 1);
  for (let i = 1; i < n; i++) if (total[i]) first[parent[i]! + 1]!++;
  for (let i = 1; i <= n; i++) first[i]! += first[i - 1]!;
  const at = first.slice(), child = new Uint32Array(first[n]!);
  for (let i = 1; i < n; i++) if (total[i]) child[at[parent[i]!]!++] = i;
  return { first, child };
}

/** Callees of a node, heaviest first. */
export function childrenOf(tree: Tree, node: number): Uint32Array {
  const list = tree.child.subarray(tree.first[node], tree.first[node + 1]);
  if (!tree.sorted[node]) {
    tree.sorted[node] = 1;
    // Most lists are of two, for which a call of sort() takes longer than what it does.
    if (list.length === 2 && tree.total[list[1]!]! > tree.total[list[0]!]!) list.reverse();
    else if (list.length > 2) list.sort((a, b) => tree.total[b]! - tree.total[a]! || a - b);
  }
  return list;
}

/** The part of a leaf's time that lies in a window. */
function partOf(data: FlameData, leaf: number, window: Selection["window"]): number {
  if (!window || !data.slot) return 1;
  const from = data.slot[leaf]!, length = (data.span?.[leaf] ?? 0) + 1;
  const inside = Math.min(from + length, window[1]) - Math.max(from, window[0]);
  return inside <= 0 ? 0 : inside / length;
}

interface Sums {
  own: Float64Array;
  total: Float64Array;
}

function sumUp(parent: ArrayLike<number>, own: Float64Array): Sums {
  const total = own.slice();
  for (let i = total.length - 1; i > 0; i--) total[parent[i]!]! += total[i]!;
  return { own, total };
}

export function buildTree(data: FlameData, want: Selection): Tree {
  const counts = FILTERS[want.filter], leaves = data.leaves, before = data.before;
  const split = want.byThread ? new ThreadSplit(data) : null;
  const nodes = split ? new Uint32Array((leaves.length + (before?.length ?? 0)) / 4) : null;
  if (nodes) // all copies are made first: their number is the length of the arrays
    for (let i = 0, all = before ? leaves.concat(before) : leaves; i < all.length; i += 4)
      if (counts(all[i + 2]!)) nodes[i / 4] = split!.node(all[i + 1]!, all[i]!);
  const { parent, frame } = split ?? data, n = parent.length;
  const add = (from: number[], first: number, window: Selection["window"]): Float64Array => {
    const own = new Float64Array(n);
    for (let i = 0; i < from.length; i += 4) {
      if (!counts(from[i + 2]!) || (want.thread >= 0 && from[i + 1] !== want.thread)) continue;
      own[nodes ? nodes[first + i / 4]! : from[i]!]! += from[i + 3]! * partOf(data, i / 4, window);
    }
    return own;
  };
  const now = sumUp(parent, add(leaves, 0, want.window));
  const old = before ? sumUp(parent, add(before, leaves.length / 4, null)) : null;
  const shown = old && want.showBefore ? old : now, other = old && want.showBefore ? now : old;
  return { n, parent, frame, ...shown, other: other?.total ?? null, sorted: new Uint8Array(n),
    ...children(parent, shown.total) };
}

/** By part of the time: how much of it ran, and how much did not, of the thread that is chosen. */
export function activity(data: FlameData, thread: number): Record<"ran" | "not", Float64Array> {
  const n = data.slots?.n ?? 0, ran = new Float64Array(n), not = new Float64Array(n);
  for (let i = 0; data.slot && i < data.slot.length; i++) {
    if (thread >= 0 && data.leaves[4 * i + 1] !== thread) continue;
    const to = data.leaves[4 * i + 2]! & Did.cpu ? ran : not, span = (data.span?.[i] ?? 0) + 1;
    for (let k = 0; k < span; k++) to[data.slot[i]! + k]! += data.leaves[4 * i + 3]! / span;
  }
  return { ran, not };
}

/** A difference of this share of everything is shown at its full strength; less is chance. */
const CERTAIN = 0.005;

/** From -1 (gone) to 1 (new): how what is shown differs from what it is compared with. */
export function changeOf(tree: Tree, node: number, showBefore: boolean): number {
  if (!tree.other) return 0;
  const now = showBefore ? tree.other[node]! : tree.total[node]!;
  const old = showBefore ? tree.total[node]! : tree.other[node]!;
  const whole = Math.max(tree.total[0]!, tree.other[0]!, 1);
  const certain = Math.min(1, Math.abs(now - old) / (CERTAIN * whole));
  return now === old ? 0 : (certain * (now - old)) / Math.max(now, old);
}

/** The part of a path that tells files apart: below the library folder, else the name. */
export function shortFile(file: string): string {
  const found = /(?:.*\/(?:site|dist)-packages|.*\/lib\/python3[^/]*)\/(.+)$/.exec(file);
  return found ? found[1]! : file.slice(file.lastIndexOf("/") + 1) || file;
}

export function labelOf(data: FlameData, tree: Tree, node: number): string {
  const f = tree.frame[node]!;
  if (node === 0) return "all";
  if (f < 0) return data.threads[-2 - f] ?? "thread";
  const [name, file, line] = data.frames[f]!;
  return file ? name + "  " + shortFile(file) + (line ? ":" + line : "") : name;
}

/** A short key of what a node stands for: the same in another recording of the same program. */
function keyOf(data: FlameData, tree: Tree, node: number): string {
  const f = tree.frame[node]!;
  const text = f < 0 ? (data.threads[-2 - f] ?? "") : data.frames[f]!.join("\n");
  let h = 5381;
  for (let i = 0; i < text.length; i++) h = (h * 33 + text.charCodeAt(i)) >>> 0;
  return h.toString(36);
}

/** Keys from the root to a node, so that it is found again in other data; "" for the root. */
export function pathOf(data: FlameData, tree: Tree, node: number): string {
  const keys: string[] = [];
  for (let n = node; n; n = tree.parent[n]!) keys.unshift(keyOf(data, tree, n));
  return keys.join(".");
}

/** The node of such a path, or as far as there is one. */
export function nodeOfPath(data: FlameData, tree: Tree, path: string): number {
  let at = 0;
  for (const key of path ? path.split(".") : []) {
    const next = childrenOf(tree, at).find((child) => keyOf(data, tree, child) === key);
    if (next === undefined) break;
    at = next;
  }
  return at;
}

/** By node: bit 1 when it matches, bit 2 when it or a caller does; and the time below matches. */
export interface Matches {
  bits: Uint8Array;
  weight: number;
}

/** A regular expression, or plain text where it is none; null for an empty one. */
export function search(data: FlameData, tree: Tree, text: string): Matches | null {
  if (!text) return null;
  let hit: (s: string) => boolean;
  try {
    const re = new RegExp(text, "i");
    hit = (s) => re.test(s);
  } catch {
    const low = text.toLowerCase();
    hit = (s) => s.toLowerCase().includes(low);
  }
  const byFrame = data.frames.map(([name, file]) => hit(name) || hit(file));
  const bits = new Uint8Array(tree.n);
  let weight = 0;
  for (let i = 1; i < tree.n; i++) {
    const f = tree.frame[i]!;
    const own = f < 0 ? hit(data.threads[-2 - f] ?? "") : byFrame[f]!;
    const above = bits[tree.parent[i]!]! & 2;
    bits[i] = (own ? 1 : 0) | (own || above ? 2 : 0);
    if (own && !above) weight += tree.total[i]!;
  }
  return { bits, weight };
}

export function percentOf(part: number, whole: number): string {
  return (whole ? (100 * part) / whole : 0).toFixed(1) + " %";
}

/** A weight for people: bytes of memory, or a time. */
export function amountOf(data: FlameData, weight: number): string {
  if (data.unit !== "bytes") return timeOf(weight);
  const mb = weight / 1048576;
  return mb >= 1024 ? (mb / 1024).toFixed(2) + " GB" : mb.toFixed(2) + " MB";
}

function timeOf(us: number): string {
  return us >= 1e6 ? (us / 1e6).toFixed(2) + " s" : (us / 1e3).toFixed(1) + " ms";
}
