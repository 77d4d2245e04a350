// Sets of ranks as people write them: "0-3,5".

/** Texts of sets, put together to one: "0-1" and "2-3,7" are "0-3,7". */
export function union(texts: string[]): string {
  const all = texts
    .flatMap((text) => text.split(","))
    .map((part) => /^(\d+)(?:-(\d+))?$/.exec(part.trim()))
    .filter((found) => found !== null)
    .map((found): [number, number] => [+found[1]!, +(found[2] ?? found[1]!)])
    .sort((a, b) => a[0] - b[0]);
  const out: [number, number][] = [];
  for (const [first, last] of all) {
    const before = out.at(-1);
    if (before && first <= before[1] + 1) before[1] = Math.max(before[1], last);
    else out.push([first, last]);
  }
  return out.map(([a, b]) => (a === b ? String(a) : `${a}-${b}`)).join(",");
}

/** The first rank of a set, for an example; null: there is none. */
export function firstOf(text: string): number | null {
  const found = /^\d+/.exec(text);
  return found ? +found[0] : null;
}
