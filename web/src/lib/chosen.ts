// The one process that the link names, also when the node no longer lists it.
import { useRef } from "preact/hooks";
import { link } from "./place.ts";
import { type Process, processes } from "./processes.ts";
import { useStore } from "./store.ts";

export interface Chosen {
  process: Process;
  /** Listed no longer: what is known is from the time when it was. */
  gone: boolean;
  /** It has been alive while it was looked at: what was read from it then is still there. */
  met: boolean;
}

/**
 * A process that a list leaves out, because it ended or because it could not be read just then,
 * stays as it was: whatever is shown of it, and whatever somebody types, must not go away.
 */
export function useChosen(): Chosen | null {
  const wanted = (useStore(link).params.p ?? "").split(",").filter(Boolean),
    all = useStore(processes);
  const last = useRef<{ word: string; process: Process; met: boolean } | null>(null);
  const word = wanted.length === 1 ? wanted[0]! : "";
  const listed = word && all.find((p) => p.key === word || String(p.pid) === word);
  if (last.current?.word !== word) last.current = null;
  if (listed)
    last.current = { word, process: listed, met: listed.live || last.current?.met === true };
  return last.current && { ...last.current, gone: !listed };
}
