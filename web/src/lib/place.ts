// The address of the page as a value.
import { formatLink, type Link, parseLink } from "./link.ts";
import { Store } from "./store.ts";

const start = typeof location === "undefined" ? "" : location.hash;

export const link = new Store<Link>(parseLink(start));

/** Changes some parameters; empty ones go. `push`: "back" undoes it. */
export function change(params: Record<string, string | undefined>, push = false): void {
  const next: Link = { page: link.value.page, params: { ...link.value.params } };
  for (const [key, value] of Object.entries(params))
    if (value) next.params[key] = value;
    else delete next.params[key];
  show(next, push);
}

export function show(next: Link, push: boolean): void {
  const text = formatLink(next);
  if (text === formatLink(link.value)) return;
  if (push) history.pushState(null, "", text);
  else history.replaceState(null, "", text);
  link.value = next;
}

if (typeof addEventListener !== "undefined")
  addEventListener("hashchange", () => {
    link.value = parseLink(location.hash);
  });
