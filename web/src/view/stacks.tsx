// Stacks as the node reads them: threads, frames, and local variables where they were asked for.
import { useState } from "preact/hooks";
import { shortPath } from "../lib/format.ts";

export interface Frame {
  depth: number;
  func: string;
  file: string | null;
  lineno: number | null;
  frame_type: string;
  locals?: Record<string, string>;
  arguments?: string[];
}

export interface ThreadStack {
  tid: number;
  name: string;
  is_main: boolean;
  holds_gil: boolean;
  waits_gil?: boolean;
  state: string;
  wait: string | null;
  torn: boolean;
  note: string | null;
  total: number;
  elided: number;
  frames: Frame[];
}

export interface Snapshot {
  pid: number;
  pause_us: number;
  took_us: number;
  threads: ThreadStack[];
}

function Variables({ frame }: { frame: Frame }) {
  const names = Object.keys(frame.locals ?? {});
  if (!names.length) return null;
  return (
    <dl class="locals">
      {names.map((name) => (
        <div key={name}>
          <dt class={frame.arguments?.includes(name) ? "argument" : ""}>{name}</dt>
          <dd>{frame.locals![name]}</dd>
        </div>
      ))}
    </dl>
  );
}

function Thread({ thread }: { thread: ThreadStack }) {
  const [open, setOpen] = useState(thread.is_main || thread.holds_gil);
  const facts = [
    thread.state + (thread.wait ? `: ${thread.wait}` : ""),
    thread.holds_gil && "holds the GIL",
    thread.waits_gil && "waits for the GIL",
    thread.torn && "torn",
    thread.note,
  ]
    .filter(Boolean)
    .join(" · ");
  const top = thread.frames[0];
  return (
    <details class="thread" open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>
        <b>{thread.name || "thread"}</b>{" "}
        <span class="dim">
          {thread.tid} · {facts}
        </span>
        {!open && top && <span class="dim"> · {top.func}</span>}
      </summary>
      <ol start={0}>
        {thread.frames.map((frame) => (
          <li key={frame.depth} class={frame.frame_type === "native" ? "native" : ""}>
            <span class="func">{frame.func}</span>{" "}
            <span class="dim" title={frame.file ?? ""}>
              {frame.file ? shortPath(frame.file) : ""}
              {frame.lineno ? `:${frame.lineno}` : ""}
            </span>
            <Variables frame={frame} />
          </li>
        ))}
      </ol>
      {thread.elided > 0 && (
        <p class="dim">
          {thread.frames.length} of {thread.total} frames
        </p>
      )}
    </details>
  );
}

export function Stacks({ snapshot }: { snapshot: Snapshot }) {
  return (
    <div class="stacks">
      {snapshot.threads.map((t) => (
        <Thread key={t.tid} thread={t} />
      ))}
    </div>
  );
}
