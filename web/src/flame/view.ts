// The flame graph as an element: one canvas with its tools, for the self-contained file of
// `probing flamegraph` and for the page of a node.
import {
  amountOf, buildTree, childrenOf, type Filter, FILTER_NAMES, type FlameData, labelOf,
  type Matches, nodeOfPath, pathOf, percentOf, search, type Selection, type Tree,
} from "./model.ts";
import { heightOf, layout, type Layout, nodeAt, paint } from "./paint.ts";
import { Strip } from "./strip.ts";

export interface FlameState extends Selection {
  /** The outermost frame at the bottom. */
  upwards: boolean;
  find: string;
  /** What is zoomed into: keys of the frames from the root to there (see `pathOf`). */
  zoom: string;
}

export const FLAME_START: FlameState = {
  filter: "all", thread: -1, byThread: false, upwards: false, find: "", zoom: "", window: null,
  showBefore: false,
};

export interface FlameOptions {
  state?: Partial<FlameState>;
  /** After each change of the state by the user. */
  onState?: (state: FlameState) => void;
  /** Is the page dark? Asked at every drawing. */
  isDark: () => boolean;
  /** Where keys are taken from; the element itself if nothing else is given. */
  keysFrom?: EventTarget;
  /** The user looks below a node of which only the heaviest parts are there: its id. */
  onMore?: (id: string) => void;
  /** The user looks at everything again. */
  onAll?: () => void;
}

const KEYS_HELP: [keys: string, what: string][] = [
  ["click, Enter", "zoom"],
  ["Backspace", "one caller back"],
  ["Home, Esc", "everything"],
  ["arrows", "move"],
  ["/", "search (a regular expression)"],
  ["t", "by thread"],
  ["i", "upwards or downwards"],
  ["b", "before or now, of a comparison"],
  ["[ ]  + -", "move, narrow and widen the window of time"],
  ["d", "dark or light"],
  ["?", "this"],
];

function make<K extends keyof HTMLElementTagNameMap>(
  tag: K, attributes: Record<string, string> = {}, ...inside: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...inside);
  return element;
}

export class FlameView {
  readonly state: FlameState;
  private data!: FlameData;
  private tree!: Tree;
  private shown!: Layout;
  private matches: Matches | null = null;
  private root = 0;
  private chosen = 0;
  private readonly find = make("input", {
    type: "search", placeholder: "search  /", "aria-label": "search functions and files" });
  private readonly filter = make("select", { "aria-label": "which time" });
  private readonly thread = make("select", { "aria-label": "thread" });
  private readonly byThread = make("button", { type: "button" }, "by thread");
  private readonly upwards = make("button", { type: "button" }, "upwards");
  private readonly before = make("button", { type: "button" }, "before");
  private readonly help = make("button", { type: "button", "aria-label": "keys" }, "?");
  private readonly share = make("span", { class: "flame-share", role: "status" });
  private readonly about = make("div", { class: "flame-about", role: "status" });
  private readonly keys = make("dl", { class: "flame-keys" });
  private readonly canvas = make("canvas");
  private readonly room = make("div");
  private readonly area = make("div", {
    class: "flame-area", tabindex: "0", role: "application",
    "aria-label": "flame graph; the arrow keys move, Enter zooms" });
  private readonly strip: Strip;
  /** Called once for the size that was drawn already, too. */
  private readonly watch = new ResizeObserver(() => {
    if (this.drawn !== this.area.clientWidth + "x" + this.area.clientHeight) this.redraw();
  });
  private drawn = "";
  private readonly ended = new AbortController();
  /** Where the tools stand; the owner may put its own beside them. */
  readonly tools = make("div", { class: "flame-tools" });

  constructor(private readonly host: HTMLElement, data: FlameData,
              private readonly options: FlameOptions) {
    this.state = { ...FLAME_START, ...options.state };
    this.strip = new Strip(options.isDark, (window) => this.select({ window }));
    this.assemble();
    this.listen();
    this.show(data);
    this.watch.observe(this.area);
  }

  /** Other data; the state stays, and what is zoomed into as far as it is still there. */
  show(data: FlameData): void {
    const chosen = this.tree ? pathOf(this.data, this.tree, this.chosen) : this.state.zoom;
    this.data = data;
    this.thread.replaceChildren(new Option("all threads", "-1"),
      ...data.threads.map((name, i) => new Option(name, String(i))));
    if (this.state.thread >= data.threads.length) this.state.thread = -1;
    if (!data.before) this.state.showBefore = false;
    this.before.hidden = !data.before;
    this.filter.hidden = this.thread.hidden = this.byThread.hidden = data.unit === "bytes";
    this.tree = buildTree(this.data, this.state);
    this.root = nodeOfPath(this.data, this.tree, this.state.zoom);
    this.chosen = nodeOfPath(this.data, this.tree, chosen);
    this.keepZoom();
  }

  destroy(): void {
    this.watch.disconnect();
    this.ended.abort();
    this.host.replaceChildren();
  }

  /** In other colours. */
  redraw(): void {
    this.draw();
    this.strip.draw();
  }

  draw(): void {
    const width = this.area.clientWidth, height = this.area.clientHeight;
    const ratio = devicePixelRatio || 1, pen = this.canvas.getContext("2d");
    if (!pen || !width) return;
    this.drawn = width + "x" + height;
    this.shown = layout(this.tree, this.root, width);
    this.room.style.height = Math.max(0, heightOf(this.shown) - height) + "px";
    if (this.canvas.width !== width * ratio || this.canvas.height !== height * ratio) {
      this.canvas.width = width * ratio;
      this.canvas.height = height * ratio;
      this.canvas.style.width = width + "px";
      this.canvas.style.height = height + "px";
    }
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    paint(pen, {
      data: this.data, tree: this.tree, layout: this.shown, chosen: this.chosen,
      matches: this.matches, upwards: this.state.upwards,
      showBefore: this.state.showBefore ?? false, dark: this.options.isDark(),
      hitColour: getComputedStyle(this.host).getPropertyValue("--hit") || "#b45cff",
      width, height, scrollTop: this.area.scrollTop,
    });
  }

  private assemble(): void {
    for (const [value, name] of Object.entries(FILTER_NAMES))
      this.filter.append(new Option(name, value));
    for (const [keys, what] of KEYS_HELP)
      this.keys.append(make("dt", {}, keys), make("dd", {}, what));
    this.keys.hidden = true;
    this.area.append(this.canvas, this.room);
    this.tools.append(this.share, this.find, this.filter, this.thread, this.byThread, this.upwards,
      this.before, this.help);
    this.host.classList.add("flame");
    this.host.replaceChildren(this.tools, this.strip.element, this.area, this.about, this.keys);
  }

  private listen(): void {
    const redraw = () => this.draw();
    this.area.addEventListener("scroll", redraw);
    this.find.addEventListener("input", () => this.searchFor(this.find.value));
    this.filter.addEventListener("change", () =>
      this.select({ filter: this.filter.value as Filter }));
    this.thread.addEventListener("change", () => this.select({ thread: +this.thread.value }));
    this.byThread.addEventListener("click", () => this.select({ byThread: !this.state.byThread }));
    this.upwards.addEventListener("click", () => this.turn());
    this.before.addEventListener("click", () =>
      this.select({ showBefore: !this.state.showBefore }));
    this.help.addEventListener("click", () => { this.keys.hidden = !this.keys.hidden; });
    this.canvas.addEventListener("mousemove", (event) => {
      const node = this.under(event);
      this.canvas.style.cursor = node > 0 ? "pointer" : "default";
      this.tell(node < 0 ? this.chosen : node);
    });
    this.canvas.addEventListener("click", (event) => {
      const node = this.under(event);
      if (node >= 0) this.zoom(node);
    });
    (this.options.keysFrom ?? this.host).addEventListener("keydown",
      (event) => this.onKey(event as KeyboardEvent), { signal: this.ended.signal });
  }

  private rebuild(): void {
    this.tree = buildTree(this.data, this.state);
    this.keepZoom();
  }

  private keepZoom(): void {
    // What is zoomed into stays, unless nothing of it is left.
    if (this.root >= this.tree.n || !this.tree.total[this.root]) this.root = 0;
    if (this.chosen >= this.tree.n || !this.tree.total[this.chosen]) this.chosen = this.root;
    this.refresh();
  }

  private refresh(): void {
    this.matches = search(this.data, this.tree, this.state.find);
    this.share.textContent = this.matches
      ? percentOf(this.matches.weight, this.tree.total[0]!) + " match" : "";
    this.find.value = this.state.find;
    this.filter.value = this.state.filter;
    this.thread.value = String(this.state.thread);
    this.byThread.setAttribute("aria-pressed", String(this.state.byThread));
    this.upwards.setAttribute("aria-pressed", String(this.state.upwards));
    this.before.setAttribute("aria-pressed", String(this.state.showBefore));
    this.strip.show(this.data, this.state.thread, this.state.window ?? null);
    this.draw();
    this.tell(this.chosen);
  }

  private changed(): void {
    this.options.onState?.({ ...this.state });
  }

  private select(change: Partial<Selection>): void {
    if (change.byThread !== undefined) { // other nodes
      this.root = this.chosen = 0;
      this.state.zoom = "";
    }
    Object.assign(this.state, change);
    this.rebuild();
    this.changed();
  }

  private turn(): void {
    this.state.upwards = !this.state.upwards;
    this.refresh();
    this.changed();
  }

  private searchFor(text: string): void {
    this.state.find = text;
    this.refresh();
    this.changed();
  }

  /** The line below the graph. */
  private tell(node: number): void {
    const f = this.tree.frame[node]!, frame = node && f >= 0 ? this.data.frames[f]! : null;
    const whole = this.tree.total[0]!, total = this.tree.total[node]!, own = this.tree.own[node]!;
    const where = frame && frame[1] ? frame[1] + (frame[2] ? ":" + frame[2] : "") + "   " : "";
    const other = this.tree.other?.[node];
    const source = frame ? this.data.source?.[String(f)] : undefined;
    const beside = other === undefined ? "" :
      `, ${this.state.showBefore ? "now" : "before"} ${amountOf(this.data, other)}`;
    this.about.replaceChildren(
      make("b", {}, frame ? frame[0] : labelOf(this.data, this.tree, node)),
      make("span", {}, `  ${where}${amountOf(this.data, total)} (${percentOf(total, whole)})` +
        `${beside}, own ${amountOf(this.data, own)} (${percentOf(own, whole)})`));
    if (source) this.about.append(make("code", {}, source));
  }

  private under(event: MouseEvent): number {
    const box = this.canvas.getBoundingClientRect();
    return nodeAt(this.shown, event.clientX - box.left,
      event.clientY - box.top + this.area.scrollTop, this.state.upwards,
      Math.max(heightOf(this.shown), this.area.clientHeight));
  }

  private choose(node: number): void {
    this.chosen = node;
    this.tell(node);
    this.draw();
  }

  private zoom(node: number): void {
    const more = this.state.byThread ? undefined : this.data.more?.[String(node)];
    this.root = node;
    this.state.zoom = pathOf(this.data, this.tree, node);
    this.area.scrollTop = this.state.upwards ? 1e9 : 0;
    this.choose(node);
    this.changed();
    if (more && node) this.options.onMore?.(more);
    if (!node) this.options.onAll?.();
  }

  private move(key: string): void {
    const { parent } = this.tree, at = this.chosen;
    let down = key === "ArrowDown", up = key === "ArrowUp";
    if (this.state.upwards) [down, up] = [up, down];
    if (up) {
      if (at) this.choose(parent[at]!);
    } else if (down) {
      const below = childrenOf(this.tree, at)[0];
      if (below !== undefined) this.choose(below);
    } else if (at) {
      const beside = Array.from(childrenOf(this.tree, parent[at]!));
      const next = beside[beside.indexOf(at) + (key === "ArrowRight" ? 1 : -1)];
      if (next !== undefined) this.choose(next);
    }
  }

  /** One thing at a time: the search, the zoom, the window. */
  private back(): void {
    if (this.state.find) this.searchFor("");
    else if (this.root) this.zoom(0);
    else if (this.state.window) this.select({ window: null });
    else this.choose(0);
  }

  private onFindKey(event: KeyboardEvent): void {
    if (event.key === "Escape") this.searchFor("");
    if (event.key === "Escape" || event.key === "Enter") this.area.focus();
    event.stopPropagation();
  }

  private onKey(event: KeyboardEvent): void {
    const target = event.target as HTMLElement;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (target === this.find) return this.onFindKey(event);
    if (target.tagName === "SELECT") return;
    if (target.tagName === "BUTTON" && event.key === "Enter") return;
    const actions: Record<string, () => void> = {
      "/": () => this.find.focus(),
      Escape: () => this.back(),
      Enter: () => this.zoom(this.chosen),
      Backspace: () => this.zoom(this.tree.parent[this.root]!),
      Home: () => this.zoom(0),
      i: () => this.turn(),
      t: () => this.select({ byThread: !this.state.byThread }),
      b: () => this.data.before && this.select({ showBefore: !this.state.showBefore }),
      "[": () => this.strip.move("["),
      "]": () => this.strip.move("]"),
      "+": () => this.strip.move("+"),
      "-": () => this.strip.move("-"),
      "?": () => { this.keys.hidden = !this.keys.hidden; },
    };
    if (event.key.startsWith("Arrow")) this.move(event.key);
    else if (actions[event.key]) actions[event.key]!();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
