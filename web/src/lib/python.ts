// Whether Enter runs what was typed, or begins another line, as Python's own prompt would have it.

/** Brackets that are open, outside of strings and comments; and whether a long string is. */
function open(code: string): { depth: number; inString: boolean } {
  const found = code.matchAll(
    /("""|''')[^]*?(?:\1|$)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?|#.*|[([{]|[)\]}]/g,
  );
  let depth = 0,
    inString = false;
  for (const [text, long] of found) {
    if (long) inString = text.length < 6 || !text.endsWith(long);
    else if ("([{".includes(text)) depth++;
    else if (")]}".includes(text)) depth--;
  }
  return { depth, inString };
}

/** A statement of one line that needs no more, or a block that an empty line has ended. */
export function isComplete(code: string): boolean {
  const { depth, inString } = open(code),
    rows = code.split("\n"),
    last = rows.at(-1)!;
  if (depth > 0 || inString || last.endsWith("\\")) return false;
  const isBlock = rows.some((row) => /:\s*(#.*)?$/.test(row)) || /^\s*@/.test(rows[0]!);
  return !isBlock || (rows.length > 1 && last.trim() === "");
}
