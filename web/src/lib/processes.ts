// Python processes that the node knows, living and ended, and the jobs that they make up.
import { getJson } from "./api.ts";
import { shortCommand } from "./format.ts";
import { paused } from "./paused.ts";
import { Store } from "./store.ts";

export interface Process {
  /** For a target: the pid of a living one, "pid-start" of one that ended. */
  key: string;
  pid: number;
  parent: number | null;
  rank: number | null;
  world: number | null;
  python: string;
  user: string;
  threads: number;
  state: string;
  command: string;
  live: boolean;
  probed: boolean;
  /** Milliseconds since 1970; null while it lives. */
  ended: number | null;
  /** "SIGKILL", "exit 1"; "" where nobody knows. */
  how: string;
  host: string;
}

interface Told {
  pid: number;
  id?: string;
  parent?: number | null;
  rank: number | null;
  world_size: number | null;
  python: string;
  user?: string;
  threads?: number;
  state?: string;
  command: string | null;
  live: boolean;
  probed?: boolean;
  ended_ns?: number;
  how?: string | null;
  host?: string;
}

export interface Job {
  name: string;
  processes: Process[];
}

export const processes = new Store<Process[]>([]);
/** Nothing has been heard yet. */
export const heard = new Store(false);

export function fromTold(t: Told): Process {
  return {
    key: t.live ? String(t.pid) : (t.id ?? String(t.pid)),
    pid: t.pid,
    parent: t.parent ?? null,
    rank: t.rank,
    world: t.world_size,
    python: t.python ?? "",
    user: t.user ?? "",
    threads: t.threads ?? 0,
    state: t.live ? (t.state ?? "") : "ended",
    command: t.command ?? "",
    live: t.live,
    probed: t.probed ?? true,
    host: t.host ?? "",
    how: t.how ?? "",
    ended: t.live || !t.ended_ns ? null : t.ended_ns / 1e6,
  };
}

/**
 * Ranks of one parent, or with the same world and command, are a job; every other process is one by
 * itself. Living ones first, then those that ended last.
 */
export function jobsOf(all: Process[]): Job[] {
  const jobs = new Map<string, Job>(),
    seen = new Map<string, number>();
  // Of one command that ran several times the last run comes first: its ranks ended last.
  for (const p of [...all].sort((a, b) => (b.ended ?? 0) - (a.ended ?? 0))) {
    let key = p.key;
    if (p.rank !== null) {
      const kind = `${p.live ? p.parent : ""}|${p.world}|${p.command}|${p.live}`,
        run = seen.get(`${p.rank}|${kind}`) ?? 0;
      seen.set(`${p.rank}|${kind}`, run + 1);
      key = `${run}|${kind}`;
    }
    let job = jobs.get(key);
    if (!job) jobs.set(key, (job = { name: shortCommand(p.command), processes: [] }));
    job.processes.push(p);
  }
  const list = [...jobs.values()];
  for (const job of list) job.processes.sort((a, b) => (a.rank ?? -1) - (b.rank ?? -1));
  const end = (j: Job) => Math.max(...j.processes.map((p) => p.ended ?? Infinity));
  return list.sort(
    (a, b) =>
      end(b) - end(a) ||
      b.processes.length - a.processes.length ||
      a.processes[0]!.pid - b.processes[0]!.pid,
  );
}

/** "rank 3", or "pid 4242" where there is no rank. */
export function nameOf(rank: number | null, pid: number): string {
  return rank === null ? `pid ${pid}` : `rank ${rank}`;
}

/** Did it end otherwise than it should have? */
export function diedBadly(p: Process): boolean {
  return !p.live && p.how !== "" && p.how !== "exit 0";
}

export function inTarget(p: Process, target: string): boolean {
  return !target || target.split(",").some((word) => word === p.key || word === String(p.pid));
}

/**
 * Keys of those whose number another process has now, or had later. Rows name processes by number
 * alone, and in containers numbers come again.
 */
export function shadowed(all: Process[]): Set<string> {
  const last = new Map<number, Process>(),
    when = (p: Process) => p.ended ?? Infinity;
  for (const p of all) {
    const other = last.get(p.pid);
    if (!other || when(p) > when(other)) last.set(p.pid, p);
  }
  return new Set(all.filter((p) => last.get(p.pid) !== p).map((p) => p.key));
}

/** The target of all processes: none, or where numbers came again one of each number. */
export function unambiguous(all: Process[]): string {
  const hidden = shadowed(all);
  if (!hidden.size) return "";
  return all
    .map((p) => p.key)
    .filter((key) => !hidden.has(key))
    .join(",");
}

const EVERY_MS = 3000;
const CROWD = 16;

/** So many that live that telling of all of them costs something: they are asked for less often. */
export function isCrowd(all: Process[]): boolean {
  return all.filter((p) => p.live).length > CROWD;
}

let asking = false;

/** A node that is slow to answer is not asked again meanwhile: a browser has few connections. */
export async function refresh(): Promise<void> {
  if (asking) return;
  asking = true;
  try {
    const told = await getJson<Told[]>("api/processes?dead=1");
    const next = told.map(fromTold),
      text = JSON.stringify(next);
    if (text !== JSON.stringify(processes.value)) processes.value = next;
    heard.value = true;
  } catch {
    // said elsewhere; what is known stays
  } finally {
    asking = false;
  }
}

/** From now on; while nobody looks or the page is paused nothing is asked. */
export function follow(): void {
  void refresh();
  let beats = 0;
  setInterval(() => {
    const due = ++beats % (isCrowd(processes.value) ? 2 : 1) === 0;
    if (due && !document.hidden && !paused.value) void refresh();
  }, EVERY_MS);
}
