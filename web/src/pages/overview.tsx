// Jobs and ranks, what each does, and what changed lately. Ended ones stay.
import { useMemo } from "preact/hooks";
import { ago, milliseconds, number, quantity, shortCommand } from "../lib/format.ts";
import { deviation, median, slots } from "../lib/job.ts";
import { linkTo } from "../lib/link.ts";
import { useWatch } from "../lib/live.ts";
import { change, link } from "../lib/place.ts";
import {
  diedBadly,
  heard,
  inTarget,
  isCrowd,
  type Job,
  jobsOf,
  nameOf,
  type Process,
  processes,
  shadowed,
} from "../lib/processes.ts";
import { bucketOf, parseRange, spanOf } from "../lib/range.ts";
import { objects } from "../lib/rows.ts";
import { useStore } from "../lib/store.ts";
import { Changes } from "../view/changes.tsx";
import { Grid, type GridColumn } from "../view/grid.tsx";
import { Panel } from "../view/panel.tsx";
import { Spark } from "../view/spark.tsx";
import { judge, useVerdicts, VerdictPanel, type Verdicts } from "../view/verdicts.tsx";

const TRAINING = `
SELECT pid, max(step) AS step, arg_max(loss, timestamp) AS loss, median(step_ms) AS step_ms,
       100 * sum(data_ms) / sum(step_ms) AS data_pct, 100 * sum(comm_ms) / sum(step_ms) AS comm_pct,
       epoch_ms(max(timestamp)) AS last
FROM python.training_logs WHERE {time}
GROUP BY pid`;
const PACE = `
SELECT epoch_ms(time_bucket(INTERVAL {bucket} SECOND, timestamp)) AS t, pid, avg(step_ms) AS step_ms
FROM python.training_logs WHERE {time}
GROUP BY t, pid ORDER BY t`;
const USE = `
SELECT pid, arg_max(cpu_pct, timestamp) AS cpu_pct, arg_max(rss_mb, timestamp) AS rss_mb,
       60 * regr_slope(rss_mb, epoch(timestamp)) AS mb_per_min
FROM system.cpu WHERE {time}
GROUP BY pid`;
const GPU = `
SELECT p.pid, sum(p.memory_mb) AS memory_mb, avg(u.gpu_util) AS gpu_util
FROM (SELECT pid, uuid, arg_max(memory_used_mb, timestamp) AS memory_mb
      FROM gpu.process WHERE {time} GROUP BY pid, uuid) AS p
LEFT JOIN (SELECT uuid, arg_max(gpu_util, timestamp) AS gpu_util
           FROM gpu.utilization WHERE {time} GROUP BY uuid) AS u ON u.uuid = p.uuid
GROUP BY p.pid`;
interface Training {
  pid: number;
  step: number;
  loss: number | null;
  step_ms: number | null;
  data_pct: number | null;
  comm_pct: number | null;
  last: number;
}
interface Use {
  pid: number;
  cpu_pct: number | null;
  rss_mb: number | null;
  mb_per_min: number | null;
}
interface Gpu {
  pid: number;
  memory_mb: number | null;
  gpu_util: number | null;
}
interface Line {
  process: Process;
  training?: Training | undefined;
  use?: Use | undefined;
  gpu?: Gpu | undefined;
  pace: (number | null)[];
}

function byPid<T extends { pid: number }>(rows: T[]): Map<number, T> {
  return new Map(rows.map((row) => [row.pid, row]));
}

function useLines(target: string): {
  lines: Map<string, Line>;
  training: ReturnType<typeof useWatch>;
} {
  const all = useStore(processes),
    range = parseRange(useStore(link).params.r);
  const every = isCrowd(all) ? 5 : 2;
  const training = useWatch({ sql: TRAINING, target, whole: true, every });
  const pace = useWatch({ sql: PACE, target, every: 5 });
  const use = useWatch({ sql: USE, target, whole: true, every });
  const gpu = useWatch({ sql: GPU, target, whole: true, every: 10 });
  const lines = useMemo(() => {
    const steps = byPid(objects<Training>(training.result)),
      uses = byPid(objects<Use>(use.result));
    const gpus = byPid(objects<Gpu>(gpu.result)),
      points = new Map<number, [number, number | null][]>();
    for (const [t, pid, ms] of pace.result.rows as [number, number, number | null][]) {
      if (!points.has(pid)) points.set(pid, []);
      points.get(pid)!.push([t, ms]);
    }
    const to = range.live ? pace.result.at : range.to,
      first = (pace.result.rows[0]?.[0] as number | undefined) ?? 0;
    const from = Math.max(to - spanOf(range) * 1000, first);
    const step = bucketOf(range) * 1000,
      hidden = shadowed(all);
    const lineOf = (p: Process): Line => ({
      process: p,
      training: steps.get(p.pid),
      use: uses.get(p.pid),
      gpu: gpus.get(p.pid),
      pace: slots(points.get(p.pid) ?? [], from, to, step),
    });
    return new Map(
      all.map((p) => [p.key, hidden.has(p.key) && !target ? { process: p, pace: [] } : lineOf(p)]),
    );
  }, [all, training.result, use.result, gpu.result, pace.result]);
  return { lines, training };
}

function stateOf(p: Process): string {
  const how = diedBadly(p) ? `, ${p.how}` : "";
  if (!p.live) return (p.ended ? `ended ${ago(p.ended)}` : "ended") + how;
  return p.probed ? p.state : `${p.state}, not probed`;
}

function verdictOf(
  verdicts: Verdicts,
  to: (page: string, l: Line) => string,
): GridColumn<Line> {
  return {
    title: "verdict",
    doc: "what is wrong with it, as far as can be seen from outside",
    by: (l) => -judge(l.process, verdicts).order,
    show: (l) => {
      const { text, kind, why } = judge(l.process, verdicts);
      return (
        text && (
          <a class={kind} title={why} href={to("process", l)}>
            {text}
          </a>
        )
      );
    },
  };
}

function columnsOf(lines: Line[], ranked: boolean, verdicts: Verdicts): GridColumn<Line>[] {
  const here = link.value,
    usual = ranked ? median(lines.map((l) => l.training?.step_ms)) : null;
  const to = (page: string, l: Line) => linkTo(here, page, { p: l.process.key });
  const trains = lines.some((l) => l.training),
    onGpu = lines.some((l) => l.gpu);
  const slow = (l: Line) => (deviation(l.training?.step_ms, usual) > 0.2 ? "warn" : "");
  const number_ = (
    title: string,
    unit: string,
    page: string,
    value: (l: Line) => number | null | undefined,
    doc: string,
    mark?: (l: Line) => string,
  ): GridColumn<Line> => ({
    title,
    number: true,
    doc,
    by: (l) => value(l) ?? null,
    show: (l) => {
      const text = quantity(value(l), unit);
      return text ? (
        <a href={to(page, l)} class={mark?.(l)}>
          {text}
        </a>
      ) : (
        ""
      );
    },
  });
  const columns: (GridColumn<Line> | null | false)[] = [
    ranked
      ? {
          title: "rank",
          number: true,
          by: (l) => l.process.rank,
          show: (l) => <a href={to("process", l)}>{l.process.rank}</a>,
        }
      : null,
    {
      title: "pid",
      number: true,
      by: (l) => l.process.pid,
      show: (l) => <a href={to("process", l)}>{l.process.pid}</a>,
    },
    {
      title: "state",
      by: (l) => l.process.state,
      show: (l) =>
        diedBadly(l.process) ? (
          <span class="bad">{stateOf(l.process)}</span>
        ) : (
          stateOf(l.process)
        ),
    },
    verdictOf(verdicts, to),
    trains && number_("step", "", "training", (l) => l.training?.step, "training step"),
    trains &&
      number_(
        "step time",
        "ms",
        "training",
        (l) => l.training?.step_ms,
        "median time of a step",
        slow,
      ),
    trains && {
      title: "lately",
      show: (l: Line) =>
        l.training && (
          <Spark values={l.pace} label={`step time of ${nameOf(l.process.rank, l.process.pid)}`} />
        ),
    },
    trains &&
      number_(
        "data",
        "%",
        "training",
        (l) => l.training?.data_pct,
        "share of the time waiting for data",
        (l) => ((l.training?.data_pct ?? 0) > 20 ? "warn" : ""),
      ),
    trains &&
      number_(
        "comm",
        "%",
        "communication",
        (l) => l.training?.comm_pct,
        "share of the time with communication under way",
      ),
    trains && number_("loss", "", "training", (l) => l.training?.loss, "last loss"),
    onGpu && number_("GPU", "%", "system", (l) => l.gpu?.gpu_util, "use of its GPUs"),
    onGpu && number_("GPU memory", "MB", "memory", (l) => l.gpu?.memory_mb, "memory on GPUs"),
    number_("CPU", "%", "system", (l) => l.use?.cpu_pct, "100 % is one core"),
    number_("memory", "MB", "memory", (l) => l.use?.rss_mb, "resident memory"),
    !ranked && {
      title: "command",
      wide: true,
      by: (l: Line) => l.process.command,
      show: (l: Line) => <span title={l.process.command}>{shortCommand(l.process.command)}</span>,
    },
  ];
  return columns.filter((c): c is GridColumn<Line> => Boolean(c));
}

/** So many that ended are shown by themselves; the others when somebody asks. */
const ENDED_SHOWN = 8;

function Ended({ more, all }: { more: number; all: boolean }) {
  if (more <= 0) return null;
  return (
    <button
      type="button"
      class="quiet"
      onClick={() => change({ ended: all ? undefined : "all" }, true)}
    >
      {all ? "fewer of those that ended" : `${number(more)} more that ended`}
    </button>
  );
}

/** Many ranks at a glance: what is usual recedes. */
function Tiles({ lines }: { lines: Line[] }) {
  const usual = median(lines.map((l) => l.training?.step_ms));
  return (
    <ul class="tiles" aria-label="ranks by step time">
      {lines.map((l) => {
        const off = deviation(l.training?.step_ms, usual),
          name = nameOf(l.process.rank, l.process.pid);
        const kind = !l.process.live
          ? "ended"
          : Math.abs(off) > 0.2
            ? "far"
            : Math.abs(off) > 0.05
              ? "off"
              : l.training
                ? "usual"
                : "silent";
        const pace = l.training ? milliseconds(l.training.step_ms ?? 0) : stateOf(l.process);
        const text = `${name}: ${pace}`;
        return (
          <li key={l.process.key}>
            <a
              class={`tile ${kind}`}
              title={text}
              aria-label={text}
              href={linkTo(link.value, "process", { p: l.process.key })}
            />
          </li>
        );
      })}
    </ul>
  );
}

function JobPanel({
  job,
  lines,
  of,
  verdicts,
}: {
  job: Job;
  lines: Line[];
  of: ReturnType<typeof useWatch>;
  verdicts: Verdicts;
}) {
  const step = Math.max(...lines.map((l) => l.training?.step ?? -1));
  const pace = median(lines.map((l) => l.training?.step_ms));
  const ended = lines.filter((l) => !l.process.live).length;
  const about = [
    `${lines.length} ranks`,
    step >= 0 && `step ${number(step)}`,
    pace !== null && `${milliseconds(pace)} a step`,
    ended && `${ended} ended`,
  ].filter(Boolean);
  return (
    <Panel
      title={job.name}
      about={about.join(" · ")}
      of={of}
      target={job.processes.map((p) => p.key).join(",")}
    >
      {lines.length > 8 && <Tiles lines={lines} />}
      <Grid
        label={job.name}
        columns={columnsOf(lines, true, verdicts)}
        rows={lines}
        sort={[0, false]}
        id={(l) => l.process.key}
        class={(l) => (l.process.live ? "" : "ended")}
        limit={256}
      />
    </Panel>
  );
}

export function Overview() {
  const { params } = useStore(link),
    target = params.p ?? "",
    all = useStore(processes);
  const told = useStore(heard),
    { lines, training } = useLines(target),
    verdicts = useVerdicts(target);
  const shown = all.filter((p) => inTarget(p, target)),
    jobs = jobsOf(shown);
  const linesOf = (list: Process[]) =>
    list.map((p) => lines.get(p.key)).filter((l) => l !== undefined);
  const everything = params.ended === "all" || target !== "";
  const lives = (j: Job) => j.processes.some((p) => p.live);
  const firstEnded = (list: Job[]) =>
    list.filter((j, i) => everything || lives(j) || i < list.findIndex((k) => !lives(k)) + 3);
  const groups = jobs.filter((j) => j.processes.length > 1),
    several = firstEnded(groups);
  const alone = jobs.filter((j) => j.processes.length === 1).map((j) => j.processes[0]!);
  const living_ = alone.filter((p) => p.live),
    ended = alone.filter((p) => !p.live);
  const single = linesOf([...living_, ...(everything ? ended : ended.slice(0, ENDED_SHOWN))]);
  const living = shown.filter((p) => p.live).length;

  return (
    <>
      <VerdictPanel verdicts={verdicts} target={target} />
      {!told && (
        <p class="nothing dim" aria-busy="true">
          Python processes are looked for …
        </p>
      )}
      {several.map((job) => (
        <JobPanel
          key={job.processes[0]!.key}
          job={job}
          of={training}
          verdicts={verdicts}
          lines={linesOf(job.processes)}
        />
      ))}
      {single.length > 0 && (
        <Panel
          title="Python processes"
          of={training}
          target={target}
          about={
            `${number(living_.length)} living` +
            (ended.length ? `, ${number(ended.length)} ended` : "")
          }
        >
          <Grid
            label="Python processes"
            columns={columnsOf(single, false, verdicts)}
            rows={single}
            limit={500}
            id={(l) => l.process.key}
            class={(l) => (l.process.live ? "" : "ended")}
            onOpen={(l) => change({ p: l.process.key })}
          />
          <Ended
            more={ended.length - ENDED_SHOWN + groups.length - several.length}
            all={params.ended === "all"}
          />
        </Panel>
      )}
      {told && !shown.length && (
        <p class="nothing dim">
          No Python process of this user runs here, and none has left rows. Start one, or look at
          all of them with <code>probing list</code>.
        </p>
      )}
      {told && living > 0 && !shown.some((p) => p.probed) && (
        <p class="nothing dim">
          No process has probes in it: steps, losses and modules come from there.{" "}
          <code>probing PID inject</code> loads them while it runs.
        </p>
      )}
      <Changes target={target} />
    </>
  );
}
