// What is shown is in the address, behind the #: a page and its parameters. So a link shows
// somebody else the same, "back" works, and nothing of it is sent to a server.

export interface Link {
  page: string;
  params: Record<string, string>;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a link that was cut off in the middle
  }
}

export function parseLink(hash: string): Link {
  const text = hash.replace(/^#\/?/, "");
  const cut = text.indexOf("?");
  const page = decoded(cut < 0 ? text : text.slice(0, cut)) || "overview";
  const params: Record<string, string> = {};
  for (const [key, value] of new URLSearchParams(cut < 0 ? "" : text.slice(cut + 1)))
    params[key] = value;
  return { page, params };
}

export function formatLink(link: Link): string {
  const query = new URLSearchParams();
  for (const key of Object.keys(link.params).sort())
    if (link.params[key]) query.set(key, link.params[key]!);
  // A link is read by people, too.
  const text = query.toString().replace(/%2C/g, ",").replace(/%3A/g, ":");
  return `#/${link.page === "overview" ? "" : link.page}${text ? "?" + text : ""}`;
}

/** Parameters that go along from page to page: whose rows, and of which time. */
const LASTING = ["p", "r"];

export function linkTo(from: Link, page: string, params: Record<string, string> = {}): string {
  const kept: Record<string, string> = {};
  for (const key of LASTING) if (from.params[key]) kept[key] = from.params[key]!;
  return formatLink({ page, params: { ...kept, ...params } });
}
