// A part of a page: a title that says what is seen, the view, and the SQL behind it.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { clock, number } from "../lib/format.ts";
import { link } from "../lib/place.ts";
import { linkTo } from "../lib/link.ts";
import { commandLine } from "../lib/sql.ts";
import type { Watched } from "../lib/live.ts";

async function copy(text: string, done: (said: string) => void): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    done("copied");
  } catch {
    done("could not be copied: select it");
  }
}

/** A button that copies a text, and says so. */
export function Copied({ text, what }: { text: string; what: string }) {
  const [said, setSaid] = useState("");
  useEffect(() => setSaid(""), [text]);
  return (
    <>
      <button type="button" class="quiet" title={text} onClick={() => copy(text, setSaid)}>
        {what}
      </button>
      <span class="dim" role="status">
        {said}
      </span>
    </>
  );
}

/** The query of a view: to read, to copy, to change. */
export function Source({ sql, target = "" }: { sql: string; target?: string }) {
  const [open, setOpen] = useState(false);
  const [said, setSaid] = useState("");
  const box = useRef<HTMLDivElement>(null),
    id = useId();
  const [place, setPlace] = useState({ left: 0, top: 0 });

  useEffect(() => {
    if (!open) return;
    setSaid("");
    // Below its button, but all of it on the screen.
    const at = box.current!.getBoundingClientRect(),
      width = Math.min(640, innerWidth - 24);
    setPlace({
      left: Math.max(12, Math.min(at.right - width, innerWidth - width - 12)),
      top: Math.min(at.bottom + 4, innerHeight - 200),
    });
    const close = (event: Event) => {
      if (
        event instanceof KeyboardEvent
          ? event.key === "Escape"
          : !box.current?.contains(event.target as Node)
      )
        setOpen(false);
    };
    addEventListener("keydown", close);
    addEventListener("pointerdown", close);
    return () => {
      removeEventListener("keydown", close);
      removeEventListener("pointerdown", close);
    };
  }, [open]);

  return (
    <div class="source" ref={box}>
      <button
        type="button"
        class="quiet"
        aria-expanded={open}
        aria-controls={id}
        title="the query behind this"
        onClick={() => setOpen(!open)}
      >
        SQL
      </button>
      {open && (
        <div
          class="source-box"
          style={{ left: `${place.left}px`, top: `${place.top}px` }}
          id={id}
          role="dialog"
          aria-label="the query behind this"
        >
          <pre tabIndex={0}>{sql}</pre>
          <div class="row">
            <a class="button" href={linkTo(link.value, "sql", { q: sql })}>
              open in SQL
            </a>
            <button type="button" onClick={() => copy(sql, setSaid)}>
              copy
            </button>
            <button type="button" onClick={() => copy(commandLine(sql, target), setSaid)}>
              copy as command line
            </button>
            <span class="dim" role="status">
              {said}
            </span>
          </div>
        </div>
      )}
    </div>
  );
}

/** What is true of the rows below and cannot be seen from them: they are old, or not all. */
function Reserve({ of }: { of: Partial<Watched> }) {
  const { failure, result } = of;
  if (!result?.rows.length) return null;
  if (failure && failure.code !== "unreachable")
    return (
      <p class="bad" role="status">
        as of {clock(result.at)}: {failure.message}
      </p>
    );
  if (!result.truncated) return null;
  return (
    <p class="warn" role="status">
      the first {number(result.rows.length)} rows only: choose fewer processes or less time
    </p>
  );
}

export function Panel({
  title,
  about,
  of,
  target,
  children,
  tools,
  class: extra,
}: {
  title: string;
  /** What the numbers are, in a few words. */
  about?: ComponentChildren;
  of?: Pick<Watched, "sql"> & Partial<Watched>;
  target?: string;
  tools?: ComponentChildren;
  class?: string;
  children: ComponentChildren;
}) {
  return (
    <section class={`panel ${extra ?? ""}`} aria-label={title}>
      <header>
        <div class="title">
          <h2>{title}</h2>
          {about && <span class="dim">{about}</span>}
        </div>
        <div class="tools">
          {tools}
          {of && <Source sql={of.sql} target={target ?? ""} />}
        </div>
      </header>
      {of && <Reserve of={of} />}
      {children}
    </section>
  );
}

/** Why there is nothing to see, and what would change that. */
export function Nothing({
  of,
  what,
  children,
}: {
  of: Watched;
  what: string;
  children?: ComponentChildren;
}) {
  if (of.failure)
    return (
      <p class="nothing bad" role="alert">
        {of.failure.message}
      </p>
    );
  if (of.waiting)
    return (
      <p class="nothing dim" aria-busy="true">
        …
      </p>
    );
  return (
    <div class="nothing dim">
      <p>{what}</p>
      {of.result.notices.map((line) => (
        <p key={line}>{line}</p>
      ))}
      {children}
    </div>
  );
}
