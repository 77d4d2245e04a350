// The strip above the graph: how much ran over time, and the window that is selected in it.
import { activity, type FlameData } from "./model.ts";

export type Window = [from: number, to: number] | null;

const HEIGHT = 34;

/** Parts of the time between two places on the strip, at least one. */
export function windowBetween(a: number, b: number, width: number, n: number): Window {
  const part = (x: number) => Math.min(Math.max(Math.floor((x / width) * n), 0), n - 1);
  const from = part(Math.min(a, b)), to = part(Math.max(a, b)) + 1;
  return from === 0 && to === n ? null : [from, to];
}

/** A time of day, with the day where there are several; of a file that has none, seconds. */
function clock(start: number, ms: number, withDay: boolean): string {
  if (!start) return (ms / 1000).toFixed(1) + " s";
  const at = new Date(start + ms), time = at.toTimeString().slice(0, 8);
  return withDay ? at.toLocaleDateString() + " " + time : time;
}

export class Strip {
  readonly element = document.createElement("div");
  private readonly canvas = document.createElement("canvas");
  private readonly said = document.createElement("span");
  private data!: FlameData;
  private window: Window = null;
  private thread = -1;
  private from: number | null = null;

  constructor(private readonly isDark: () => boolean,
              private readonly onWindow: (window: Window) => void) {
    this.element.className = "flame-strip";
    this.said.className = "flame-strip-said";
    this.canvas.setAttribute("aria-label", "time; drag to select a part of it");
    this.element.append(this.canvas, this.said);
    this.canvas.addEventListener("pointerdown", (event) => {
      this.from = event.offsetX;
      this.canvas.setPointerCapture(event.pointerId);
      this.drag(event.offsetX);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (this.from !== null) this.drag(event.offsetX);
    });
    this.canvas.addEventListener("pointerup", (event) => {
      if (this.from === null) return;
      const clicked = Math.abs(event.offsetX - this.from) < 3;
      this.from = null;
      this.onWindow(clicked && this.window ? null : this.window); // a click gives all back
    });
  }

  show(data: FlameData, thread: number, window: Window): void {
    this.data = data;
    this.thread = thread;
    this.window = window;
    this.element.hidden = !data.slots || !data.slot?.length;
    requestAnimationFrame(() => this.draw()); // behind the graph, which is waited for
  }

  /** The same length earlier or later; wider and narrower by halves. */
  move(key: "[" | "]" | "+" | "-"): void {
    const n = this.data.slots?.n ?? 0;
    if (!n) return;
    let [from, to] = this.window ?? [0, n];
    const length = to - from, step = Math.max(1, Math.round(length / 4));
    if (key === "[") [from, to] = [Math.max(0, from - step), Math.max(length, to - step)];
    if (key === "]") [from, to] = [Math.min(n - length, from + step), Math.min(n, to + step)];
    if (key === "+") [from, to] = [from + Math.floor(length / 4), to - Math.floor(length / 4)];
    if (key === "-") [from, to] = [Math.max(0, from - step), Math.min(n, to + step)];
    this.onWindow(from === 0 && to === n ? null : [from, Math.max(to, from + 1)]);
  }

  private drag(x: number): void {
    this.window = windowBetween(this.from!, x, this.canvas.clientWidth, this.data.slots!.n);
    this.draw();
  }

  draw(): void {
    const width = this.element.clientWidth, ratio = devicePixelRatio || 1, slots = this.data?.slots;
    const pen = this.canvas.getContext("2d");
    if (!pen || !width || !slots || this.element.hidden) return;
    this.canvas.width = width * ratio;
    this.canvas.height = HEIGHT * ratio;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    const { ran, not } = activity(this.data, this.thread), dark = this.isDark();
    const top = Math.max(...ran.map((v, i) => v + not[i]!), 1), w = width / slots.n;
    for (let i = 0; i < slots.n; i++) {
      const inside = !this.window || (i >= this.window[0] && i < this.window[1]);
      const high = (HEIGHT - 4) * (ran[i]! / top), low = (HEIGHT - 4) * (not[i]! / top);
      pen.globalAlpha = inside ? 1 : 0.3;
      pen.fillStyle = dark ? "#b86b34" : "#e8873a";
      pen.fillRect(i * w, HEIGHT - high, Math.max(w - 0.5, 0.5), high);
      pen.fillStyle = dark ? "#4a5058" : "#c9ced4";
      pen.fillRect(i * w, HEIGHT - high - low, Math.max(w - 0.5, 0.5), low);
    }
    pen.globalAlpha = 1;
    this.tell(slots);
  }

  private tell(slots: NonNullable<FlameData["slots"]>): void {
    const [from, to] = this.window ?? [0, slots.n], day = slots.ms * slots.n > 86400e3;
    const length = ((to - from) * slots.ms) / 1000;
    this.said.textContent = `${clock(slots.start, from * slots.ms, day)} – ` +
      `${clock(slots.start, to * slots.ms, day)}, ${length.toPrecision(3)} s` +
      (this.window ? "   (click: all)" : "");
  }
}
