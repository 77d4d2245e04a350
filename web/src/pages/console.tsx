// Python inside a process: for who has scope control. What is run is written down in it.
import { useEffect, useRef, useState } from "preact/hooks";
import { failureFrom, getJson, lines, may, post } from "../lib/api.ts";
import { moment, milliseconds, shortCommand, shortPath } from "../lib/format.ts";
import { useChosen } from "../lib/chosen.ts";
import { isComplete } from "../lib/python.ts";
import { useWatch } from "../lib/live.ts";
import { change, link } from "../lib/place.ts";
import { nameOf, processes } from "../lib/processes.ts";
import { objects } from "../lib/rows.ts";
import { useStore } from "../lib/store.ts";
import { Grid } from "../view/grid.tsx";
import { Nothing, Panel } from "../view/panel.tsx";
import type { Snapshot } from "../view/stacks.tsx";

const AUDIT = `
SELECT epoch_ms(timestamp) AS t, pid, rank, action, client, peer_uid, detail, result, ms,
       count(*) OVER () AS "all"
FROM probing.audit ORDER BY timestamp DESC LIMIT 100`;

interface Entry {
  id: number;
  code: string;
  parts: { kind: "out" | "err" | "why"; text: string }[];
  running: boolean;
}
interface Audit {
  t: number;
  pid: number;
  rank: number | null;
  action: string;
  client: string | null;
  peer_uid: number | null;
  detail: string | null;
  result: string;
  ms: number | null;
  all: number;
}

const REASONS: Record<string, string> = {
  no_gil: "the interpreter did not let the agent in in time",
  expired: "interrupted: it took too long",
  interrupted: "interrupted",
  refused: "refused",
};

function AuditPanel({ target }: { target: string }) {
  const of = useWatch({ sql: AUDIT, target, every: 3 }),
    rows = objects<Audit>(of.result);
  return (
    <Panel title="What was run or changed, and by whom" of={of} target={target}>
      {rows.length ? (
        <Grid
          label="audit"
          rows={rows}
          id={(r) => `${r.t} ${r.pid} ${r.action}`}
          all={rows[0]!.all}
          columns={[
            { title: "when", show: (r) => moment(r.t) },
            { title: "process", show: (r) => nameOf(r.rank, r.pid) },
            { title: "what", show: (r) => r.action },
            {
              title: "result",
              show: (r) => <span class={r.result === "ok" ? "" : "warn"}>{r.result}</span>,
            },
            { title: "took", number: true, show: (r) => (r.ms === null ? "" : milliseconds(r.ms)) },
            {
              title: "who",
              show: (r) => r.client ?? (r.peer_uid === null ? "" : `uid ${r.peer_uid}`),
            },
            {
              title: "detail",
              wide: true,
              show: (r) => <code title={r.detail ?? ""}>{r.detail}</code>,
            },
          ]}
        />
      ) : (
        <Nothing of={of} what="Nothing was run or changed through the tool." />
      )}
    </Panel>
  );
}

/** Frames of the main thread, to run code with their variables. */
function FrameChoice({
  target,
  value,
  choose,
}: {
  target: string;
  value: string;
  choose: (frame: string) => void;
}) {
  const [frames, setFrames] = useState<Snapshot["threads"][number]["frames"]>([]);
  const load = async () => {
    try {
      const answer = await getJson<Snapshot>(`api/backtrace?${new URLSearchParams({ target })}`);
      setFrames(answer.threads.find((t) => t.is_main)?.frames ?? []);
    } catch {
      setFrames([]);
    }
  };
  return (
    <label class="dim">
      variables of{" "}
      <select value={value} onFocus={load} onChange={(e) => choose(e.currentTarget.value)}>
        <option value="">the module (__main__)</option>
        {frames.map((f) => (
          <option key={f.depth} value={String(f.depth)}>
            {f.depth} {f.func} {shortPath(f.file ?? "")}:{f.lineno}
          </option>
        ))}
        {value && !frames.some((f) => String(f.depth) === value) && (
          <option value={value}>frame {value}</option>
        )}
      </select>
    </label>
  );
}

function Prompt({ target }: { target: string }) {
  const [entries, setEntries] = useState<Entry[]>([]),
    [code, setCode] = useState("");
  const [frame, setFrame] = useState(""),
    [main, setMain] = useState(false);
  const running = useRef<AbortController | null>(null),
    past = useRef<string[]>([]);
  const back = useRef(-1),
    end = useRef<HTMLDivElement>(null),
    ids = useRef(0);
  const input = useRef<HTMLTextAreaElement>(null);

  useEffect(() => end.current?.scrollIntoView({ block: "nearest" }), [entries]);
  useEffect(() => () => running.current?.abort(), []);

  const update = (id: number, f: (e: Entry) => Entry) =>
    setEntries((all) => all.map((e) => (e.id === id ? f(e) : e)));
  const add = (id: number, kind: "out" | "err" | "why", text: string) =>
    update(id, (e) => {
      const last = e.parts.at(-1);
      return {
        ...e,
        parts:
          last?.kind === kind
            ? [...e.parts.slice(0, -1), { kind, text: (last.text + text).slice(-200000) }]
            : [...e.parts, { kind, text }],
      };
    });

  const submit = async (text: string) => {
    const id = ++ids.current,
      abort = (running.current = new AbortController());
    past.current = [...past.current.filter((c) => c !== text), text];
    back.current = -1;
    setCode("");
    setEntries((all) => [...all.slice(-199), { id, code: text, parts: [], running: true }]);
    try {
      const answer = await post(
        "api/eval",
        { target, code: text, main, ...(frame && !main ? { frame: +frame } : {}) },
        { signal: abort.signal },
      );
      for await (const line of lines(answer)) {
        const said = JSON.parse(line) as {
          out?: string;
          err?: string;
          done?: { result: string; why: string };
        };
        if (said.out !== undefined) add(id, "out", said.out);
        if (said.err !== undefined) add(id, "err", said.err);
        if (said.done && said.done.result !== "ok" && said.done.result !== "exception")
          add(id, "why", said.done.why || REASONS[said.done.result] || said.done.result);
      }
    } catch (error) {
      add(id, "why", abort.signal.aborted ? "interrupted" : failureFrom(error).message);
    }
    update(id, (e) => ({ ...e, running: false }));
    running.current = null;
    input.current?.focus();
  };

  const onKey = (event: KeyboardEvent) => {
    const area = event.currentTarget as HTMLTextAreaElement;
    if (event.key === "Enter" && !event.shiftKey && (event.ctrlKey || isComplete(code))) {
      event.preventDefault();
      if (code.trim() && !running.current) void submit(code.replace(/\s+$/, ""));
    } else if (
      (event.key === "ArrowUp" && !code.slice(0, area.selectionStart).includes("\n")) ||
      (event.key === "ArrowDown" &&
        back.current >= 0 &&
        !code.slice(area.selectionStart).includes("\n"))
    ) {
      event.preventDefault();
      back.current = Math.max(
        -1,
        Math.min(past.current.length - 1, back.current + (event.key === "ArrowUp" ? 1 : -1)),
      );
      setCode(back.current < 0 ? "" : past.current.at(-1 - back.current)!);
    } else if (event.key === "Tab") {
      event.preventDefault();
      area.setRangeText("    ", area.selectionStart, area.selectionEnd, "end");
      setCode(area.value);
    } else if (
      event.key === "c" &&
      event.ctrlKey &&
      running.current &&
      area.selectionStart === area.selectionEnd
    ) {
      running.current.abort();
    }
  };

  return (
    <div class="console">
      <div class="transcript" role="log" aria-label="what was run and what it printed">
        {entries.map((e) => (
          <div key={e.id} class="entry">
            <pre class="code">
              {e.code
                .split("\n")
                .map((l, i) => `${i ? "..." : ">>>"} ${l}`)
                .join("\n")}
            </pre>
            {e.parts.map((part, i) => (
              <pre key={i} class={part.kind}>
                {part.text}
              </pre>
            ))}
            {e.running && (
              <p class="row">
                <span class="dim">running …</span>
                <button type="button" onClick={() => running.current?.abort()}>
                  interrupt
                </button>
              </p>
            )}
          </div>
        ))}
        <div ref={end} />
      </div>
      <textarea
        ref={input}
        value={code}
        rows={Math.min(12, code.split("\n").length)}
        autofocus
        spellcheck={false}
        aria-label="Python code"
        placeholder=">>>  Enter runs it, Shift-Enter begins a line"
        onInput={(e) => setCode(e.currentTarget.value)}
        onKeyDown={onKey}
      />
      <div class="row">
        <FrameChoice target={target} value={frame} choose={setFrame} />
        <label class="dim">
          <input
            type="checkbox"
            checked={main}
            onChange={(e) => setMain(e.currentTarget.checked)}
          />{" "}
          on the main thread
        </label>
        <span class="push" />
        <code class="dim">probing {target} repl</code>
      </div>
    </div>
  );
}

export function Console() {
  const { params } = useStore(link),
    all = useStore(processes),
    chosen = useChosen();
  const found = chosen?.process;
  if (!may("control"))
    return <p class="nothing dim">Running code needs a token of scope control.</p>;
  return (
    <>
      {found && !found.live && (
        <p class="nothing dim">{found.pid} has ended: there is nothing to run code in.</p>
      )}
      {found && chosen.met && (
        <Panel
          title={`Python in ${found.pid}`}
          about={`${shortCommand(found.command)}; names are those
          of __main__, and what you change is changed`}
        >
          <Prompt key={found.pid} target={found.key} />
        </Panel>
      )}
      {!found && (
        <Panel title="In which process?">
          <ul class="list">
            {all
              .filter((p) => p.live)
              .map((p) => (
                <li key={p.key}>
                  <button
                    type="button"
                    class="plain link"
                    onClick={() => change({ p: p.key }, true)}
                  >
                    {p.pid} {p.rank !== null ? nameOf(p.rank, p.pid) : ""} {shortCommand(p.command)}
                  </button>
                </li>
              ))}
          </ul>
        </Panel>
      )}
      <AuditPanel target={found ? found.key : (params.p ?? "")} />
    </>
  );
}
