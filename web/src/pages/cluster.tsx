// All machines of a job as one: who is there, and where all ranks are.
import { useEffect, useState } from "preact/hooks";
import { ask, failureFrom } from "../lib/api.ts";
import {
  type Cluster as Told,
  clockOf,
  cluster,
  coverageText,
  isPartial,
  type Member,
} from "../lib/cluster.ts";
import { duration, number } from "../lib/format.ts";
import { paused } from "../lib/live.ts";
import { change, link } from "../lib/place.ts";
import { firstOf, union } from "../lib/ranks.ts";
import { type Failure, NO_ROWS, objects, type Result } from "../lib/rows.ts";
import { useStore } from "../lib/store.ts";
import { Grid } from "../view/grid.tsx";
import { Copied, Panel } from "../view/panel.tsx";

const STACKS = `
SELECT stack_hash, any_value(stack) AS stack, any_value(reason) AS reason,
       sum(processes)::BIGINT AS processes, string_agg(ranks, ',') AS ranks,
       count(DISTINCT host) AS hosts, min(host) AS host
FROM python.folded_stacks GROUP BY stack_hash ORDER BY processes, ranks`.trim();
const ALL_RANKS = "0-100000000";
const FRAMES = 12;
/** Between two looks at least; and so many times what a look took. */
const LEAST_MS = 5000,
  SHARE = 20;

interface Class {
  stack_hash: string | null;
  stack: string | null;
  reason: string | null;
  processes: number;
  ranks: string;
  hosts: number;
  host: string;
}

function ranksOf(m: Member): string {
  return m.jobs
    .map((j) => {
      const world = j.world ? `/${j.world}` : "",
        restart = j.restarts ? ` (restart ${j.restarts})` : "";
      return `${j.ranks}${world} ${j.script}${restart}`;
    })
    .join(", ");
}

function stateOf(m: Member): string {
  if (m.self) return "here";
  if (m.state === "alive") return m.reason ? `alive, not from here: ${m.reason}` : "alive";
  return `${m.state} for ${duration(m.since_ms / 1000)}${m.reason ? ": " + m.reason : ""}`;
}

function Nodes({ told }: { told: Told }) {
  const gone = told.members.filter((m) => m.state !== "alive" && m.state !== "left").length;
  const about =
    `${told.members.length - gone} of ${told.members.length} are there` +
    (told.observer ? "; this node asks them and is not asked" : "") +
    (told.refused ? `; ${number(told.refused)} messages of others were refused` : "");
  return (
    <Panel title={`Cluster ${told.name}`} about={about}>
      <Grid
        label="nodes"
        rows={told.members}
        id={(m) => m.id}
        limit={200}
        class={(m) => (m.state === "alive" ? "" : m.state === "left" ? "ended" : "marked")}
        columns={[
          { title: "node", by: (m) => m.host, show: (m) => m.host },
          { title: "address", by: (m) => m.address, show: (m) => m.address },
          { title: "ranks", by: (m) => firstOf(m.jobs[0]?.ranks ?? ""), show: ranksOf },
          {
            title: "clock",
            number: true,
            by: (m) => m.clock_offset_us,
            show: clockOf,
            doc: "how far ahead of this machine's, and how wrong that may be",
          },
          { title: "version", by: (m) => m.software, show: (m) => m.software },
          { title: "state", by: (m) => m.state, show: stateOf, wide: true },
        ]}
      />
    </Panel>
  );
}

interface Looked {
  result: Result;
  failure: Failure | null;
  waiting: boolean;
}

/** Reads a stack of every rank: not in the stream, which it would hold up. */
function useStacks(ranks: string): Looked {
  const stopped = useStore(paused);
  const [of, setOf] = useState<Looked>({ result: NO_ROWS, failure: null, waiting: true });
  useEffect(() => {
    if (stopped) return;
    const abort = new AbortController();
    let timer = 0;
    const after = (ms: number) => {
      timer = setTimeout(look, ms) as unknown as number;
    };
    const look = async () => {
      if (document.hidden) return after(LEAST_MS);
      const began = performance.now();
      try {
        const question = { sql: STACKS, cluster: true, ranks: ranks || ALL_RANKS, dead: false };
        const result = await ask({ ...question, quiet: true }, abort.signal);
        setOf({ result, failure: null, waiting: false });
      } catch (error) {
        if (abort.signal.aborted) return;
        setOf((old) => ({ ...old, failure: failureFrom(error), waiting: false }));
      }
      after(Math.max(LEAST_MS, SHARE * (performance.now() - began)));
    };
    void look();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [ranks, stopped]);
  return of;
}

function Folded({ one, all }: { one: Class; all: number }) {
  const [open, setOpen] = useState(false);
  const ranks = union([one.ranks]),
    frames = (one.stack ?? "").split("\n").filter(Boolean),
    example = firstOf(ranks),
    several = /[,-]/.test(ranks);
  return (
    <li class="folded">
      <p>
        <b>
          {number(one.processes)} of {number(all)}: rank{several ? "s" : ""} {ranks}
        </b>{" "}
        <span class="dim">
          {one.hosts === 1 ? `on ${one.host}` : `on ${number(one.hosts)} nodes`}
        </span>{" "}
        {example !== null && (
          <Copied
            text={`probing rank:${example} backtrace -a -l`}
            what={`copy: look at rank ${example}`}
          />
        )}
      </p>
      {one.reason && <p class="bad">{one.reason}</p>}
      <ol start={0} class="mono">
        {(open ? frames : frames.slice(0, FRAMES)).map((frame, i) => (
          <li key={i}>{frame}</li>
        ))}
      </ol>
      {frames.length > FRAMES && (
        <button type="button" class="quiet" onClick={() => setOpen(!open)}>
          {open ? "fewer frames" : `all ${frames.length} frames`}
        </button>
      )}
    </li>
  );
}

function Stacks() {
  const { params } = useStore(link),
    ranks = params.ranks ?? "";
  const of = useStacks(ranks),
    classes = objects<Class>(of.result),
    { coverage } = of.result;
  const all = classes.reduce((sum, c) => sum + c.processes, 0);
  const about =
    `main threads, equal stacks once, what few ranks do first` +
    (coverage ? `; ${coverageText(coverage)}` : "");
  return (
    <Panel
      title="Where all ranks are"
      about={about}
      of={{ sql: STACKS }}
      target="cluster"
      tools={
        <label class="dim">
          ranks{" "}
          <input
            value={ranks}
            size={10}
            placeholder="all"
            aria-label="ranks"
            onChange={(e) => change({ ranks: e.currentTarget.value.trim() || undefined })}
          />
        </label>
      }
    >
      {of.failure && (
        <p class="bad" role="alert">
          {of.failure.message}
        </p>
      )}
      {coverage && isPartial(coverage) && (
        <p class="bad" role="status">
          {coverageText(coverage)}
        </p>
      )}
      {classes.length ? (
        <ul class="folds">
          {classes.map((c) => (
            <Folded key={`${c.stack_hash}|${c.reason}`} one={c} all={all} />
          ))}
        </ul>
      ) : (
        !of.failure && (
          <p class="nothing dim">{of.waiting ? "…" : "No rank of a job runs there."}</p>
        )
      )}
    </Panel>
  );
}

export function Cluster() {
  const told = useStore(cluster);
  if (!told?.attached)
    return (
      <p class="nothing dim">
        {told ? (
          <>
            This node belongs to no cluster: <code>probing cluster attach</code> on a machine of the
            job.
          </>
        ) : (
          "…"
        )}
      </p>
    );
  return (
    <>
      <Nodes told={told} />
      <Stacks />
    </>
  );
}
