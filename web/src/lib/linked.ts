// A small piece of a view's state (what it is sorted by, what is folded) that the link holds, too.
import { change, link } from "./place.ts";
import { useStore } from "./store.ts";

/** What stands for a title in a link: "a step's time" is a-step-s-time. */
export function slug(title: string): string {
  return title
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .slice(0, 32);
}

/** The parameter of that name, and how it is changed; "" takes it out of the link. */
export function useLinked(key: string): [string, (value: string) => void] {
  const value = useStore(link).params[key] ?? "";
  return [value, (next) => change({ [key]: next || undefined })];
}

/** "-step time": by step time, the largest first. */
export interface Order {
  column: string;
  down: boolean;
}

export function parseOrder(text: string): Order | null {
  if (!text) return null;
  return text.startsWith("-")
    ? { column: text.slice(1), down: true }
    : { column: text, down: false };
}

export function formatOrder(order: Order | null): string {
  return order ? (order.down ? "-" : "") + order.column : "";
}
