// One process: its threads and stacks now, its memory, its settings.
import { useEffect, useRef, useState } from "preact/hooks";
import { failureFrom, may, post, request } from "../lib/api.ts";
import { milliseconds, moment, number, shortCommand, shortPath } from "../lib/format.ts";
import { paused, useWatch } from "../lib/live.ts";
import { change, link } from "../lib/place.ts";
import { useChosen } from "../lib/chosen.ts";
import { heard, jobsOf, nameOf, type Process as Known, processes } from "../lib/processes.ts";
import { objects } from "../lib/rows.ts";
import { useStore } from "../lib/store.ts";
import { Grid } from "../view/grid.tsx";
import { LinePanel } from "../view/linechart.tsx";
import { Nothing, Panel } from "../view/panel.tsx";
import { Settings } from "../view/settings.tsx";
import { type Snapshot, Stacks } from "../view/stacks.tsx";

const THREADS = `
SELECT tid, thread, is_main, holds_gil, waits_gil, state, wchan, cpu_ms, top_func, top_file,
       top_line
FROM python.threads ORDER BY is_main DESC, cpu_ms DESC`;
const MEMORY = `
SELECT epoch_ms(time_bucket(INTERVAL {bucket} SECOND, timestamp)) AS t, rank, pid,
       avg(memory_mb) AS memory_mb
FROM memory_usage WHERE {time} GROUP BY t, rank, pid ORDER BY t`;
const CPU = `
SELECT epoch_ms(time_bucket(INTERVAL {bucket} SECOND, timestamp)) AS t, rank, pid,
       avg(cpu_pct) AS cpu_pct
FROM system.cpu WHERE {time} GROUP BY t, rank, pid ORDER BY t`;
const COLLECTORS = `
SELECT collector, state, reason FROM probing.agents WHERE role = 'agent' ORDER BY collector`;

interface Thread {
  tid: number;
  thread: string;
  is_main: boolean;
  holds_gil: boolean;
  waits_gil: boolean | null;
  state: string;
  wchan: string | null;
  cpu_ms: number;
  top_func: string | null;
  top_file: string | null;
  top_line: number | null;
}

/** A stack is read from outside when it is asked for; with live, again and again. */
function useStacks({ key, live }: Known, all: boolean, native: boolean, locals: boolean) {
  const [snapshot, setSnapshot] = useState<Snapshot | null>(null);
  const [wrong, setWrong] = useState("");
  const stopped = useStore(paused);

  useEffect(() => {
    if (!live) return;
    const abort = new AbortController();
    let timer = 0;
    const look = async () => {
      const query = new URLSearchParams({
        target: key,
        ...(all ? { all: "1" } : {}),
        ...(native ? { native: "1" } : {}),
        ...(locals ? { locals: "1" } : {}),
      });
      try {
        const answer = await request(`api/backtrace?${query}`, { signal: abort.signal });
        setSnapshot(JSON.parse((await answer.text()).split("\n")[0]!) as Snapshot);
        setWrong("");
      } catch (error) {
        if (!abort.signal.aborted) setWrong(failureFrom(error).message);
      }
      if (!abort.signal.aborted && !stopped)
        timer = setTimeout(look, document.hidden ? 5000 : 2000) as unknown as number;
    };
    void look();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [key, live, all, native, locals, stopped]);
  return { snapshot, wrong };
}

function StacksPanel({ process }: { process: Known }) {
  const { params } = useStore(link),
    native = params.native === "1",
    all = params.threads !== "main";
  const locals = params.locals === "1" && may("look");
  const { snapshot, wrong } = useStacks(process, all, native, locals);
  const toggle = (name: string, on: boolean, value = "1") => (
    <button
      type="button"
      aria-pressed={on}
      onClick={() => change({ [name]: on ? undefined : value })}
    >
      {name}
    </button>
  );
  const words = [all && "-a", native && "-n", locals && "-l"].filter(Boolean).join(" ");
  return (
    <Panel
      title={process.live ? "Stacks, now" : "Stacks, before it ended"}
      about={
        snapshot &&
        `read from outside in ${milliseconds(snapshot.took_us / 1000)}` +
          (snapshot.pause_us > 0
            ? `, one thread held for ${milliseconds(snapshot.pause_us / 1000)}`
            : ", nothing was stopped")
      }
      tools={
        <>
          {may("look") && toggle("locals", locals)}
          {toggle("native", native)}
          <code class="dim command">
            probing {process.key} backtrace {words}
          </code>
        </>
      }
    >
      {wrong && process.live && (
        <p class="nothing bad" role="alert">
          {wrong}
        </p>
      )}
      {snapshot && <Stacks snapshot={snapshot} />}
    </Panel>
  );
}

function ThreadsPanel({ process }: { process: Known }) {
  const of = useWatch({ sql: THREADS, target: process.key, every: 2, off: !process.live });
  // Between its end and the news of it the answer is empty: what was there before stays.
  const last = useRef<Thread[]>([]);
  const told = objects<Thread>(of.result);
  if (told.length) last.current = told;
  const rows = last.current;
  const gil = (t: Thread) =>
    t.holds_gil ? <b>holds it</b> : t.waits_gil ? <b class="warn">waits</b> : "";
  return (
    <Panel
      title="Threads"
      about={
        (rows.length ? `${rows.length} that run Python` : "") +
        (process.live ? "" : ", before it ended")
      }
      of={of}
      target={process.key}
    >
      {rows.length ? (
        <Grid
          label="threads"
          rows={rows}
          id={(t) => String(t.tid)}
          limit={300}
          columns={[
            { title: "tid", number: true, by: (t) => t.tid, show: (t) => t.tid },
            { title: "name", by: (t) => t.thread, show: (t) => t.thread },
            { title: "state", by: (t) => t.state, show: (t) => t.state },
            { title: "GIL", by: (t) => (t.holds_gil ? 2 : t.waits_gil ? 1 : 0), show: gil },
            { title: "waits in", by: (t) => t.wchan, show: (t) => t.wchan },
            {
              title: "CPU",
              number: true,
              doc: "CPU time since it began",
              by: (t) => t.cpu_ms,
              show: (t) => milliseconds(t.cpu_ms),
            },
            {
              title: "in",
              wide: true,
              by: (t) => t.top_func,
              show: (t) =>
                t.top_func && (
                  <>
                    {t.top_func}{" "}
                    <span class="dim" title={t.top_file ?? ""}>
                      {shortPath(t.top_file ?? "")}:{t.top_line}
                    </span>
                  </>
                ),
            },
          ]}
        />
      ) : (
        <Nothing of={of} what="No Python threads to be seen." />
      )}
    </Panel>
  );
}

function Collectors({ process }: { process: Known }) {
  const of = useWatch({ sql: COLLECTORS, target: process.key, every: 5 });
  const rows = objects<{ collector: string; state: string; reason: string | null }>(of.result);
  const [said, setSaid] = useState("");
  const inject = async () => {
    setSaid("loading …");
    try {
      await (await post("api/eval", { target: process.key, code: "pass" })).text();
      setSaid("");
    } catch (error) {
      setSaid(failureFrom(error).message);
    }
  };
  return (
    <Panel title="Probes" of={of} target={process.key}>
      {rows.length ? (
        <Grid
          label="probes"
          rows={rows}
          id={(r) => r.collector}
          columns={[
            { title: "what", show: (r) => r.collector },
            { title: "state", show: (r) => r.state },
            { title: "why", wide: true, show: (r) => r.reason },
          ]}
        />
      ) : (
        <div class="nothing dim">
          <p>
            Nothing is loaded into this process: it is looked at from outside only. Steps, modules,
            communication and memory of Python's own come from probes inside.
          </p>
          <p class="row">
            <code>probing {process.key} inject</code>
            {may("control") && process.live && (
              <button type="button" onClick={inject}>
                load them now
              </button>
            )}
            <span role="status">{said}</span>
          </p>
        </div>
      )}
    </Panel>
  );
}

/** Which one? */
function Choose() {
  const all = useStore(processes),
    told = useStore(heard);
  if (told && !all.length) return <p class="nothing dim">There is no Python process to look at.</p>;
  return (
    <Panel title="Which process?">
      <ul class="list">
        {jobsOf(all)
          .flatMap((job) => job.processes)
          .map((p) => (
            <li key={p.key}>
              <a href={`#/process?p=${p.key}`} class={p.live ? "" : "dim"}>
                {p.pid} {p.rank !== null ? nameOf(p.rank, p.pid) : ""} {shortCommand(p.command)}
                {p.live ? "" : " (ended)"}
              </a>
            </li>
          ))}
      </ul>
    </Panel>
  );
}

function Charts({ process }: { process: Known }) {
  return (
    <div class="columns">
      <LinePanel
        title="Memory"
        about="resident"
        value="memory_mb"
        unit="MB"
        target={process.key}
        of={useWatch({ sql: MEMORY, target: process.key })}
        nothing="Not measured in this time."
      />
      <LinePanel
        title="CPU"
        about="100 % is one core"
        value="cpu_pct"
        unit="%"
        zero
        target={process.key}
        of={useWatch({ sql: CPU, target: process.key })}
        nothing="Not measured in this time."
      />
      <Collectors process={process} />
    </div>
  );
}

export function Process() {
  const chosen = useChosen();
  if (!chosen) return <Choose />;
  const { process, gone, met } = chosen;
  const facts = [
    process.rank !== null && `rank ${process.rank} of ${number(process.world ?? 0)}`,
    process.python && `Python ${process.python}`,
    process.user,
    process.live ? process.state : process.ended ? `ended ${moment(process.ended)}` : "ended",
    !process.live && process.how,
    process.live && `${process.threads} threads`,
  ]
    .filter(Boolean)
    .join(" · ");
  return (
    <>
      <div>
        <h2 class="title">
          {process.pid} <span>{shortCommand(process.command)}</span>
        </h2>
        <p class="dim" title={process.command}>
          {facts}
        </p>
        {gone && (
          <p class="warn" role="status">
            The node no longer sees this process: what is shown is from when it did.
          </p>
        )}
      </div>
      {met && <ThreadsPanel key={`threads ${process.pid}`} process={process} />}
      {met && <StacksPanel key={`stacks ${process.pid}`} process={process} />}
      <Charts process={process} />
      {process.live && <Settings target={process.key} title="Settings of this process" />}
    </>
  );
}
