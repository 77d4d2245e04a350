// The cluster that the node belongs to: asked for now and then, for the frame and the page.
import { getJson } from "./api.ts";
import { paused } from "./live.ts";
import { Store } from "./store.ts";

export interface MemberJob {
  job: string;
  script: string;
  ranks: string;
  world: number;
  restarts: number;
}

export interface Member {
  id: string;
  host: string;
  address: string;
  state: string;
  self: boolean;
  software: string;
  jobs: MemberJob[];
  reason: string | null;
  since_ms: number;
  clock_offset_us: number | null;
  clock_error_us: number | null;
}

export interface Cluster {
  attached: boolean;
  name: string | null;
  observer: boolean;
  refused: number;
  members: Member[];
}

/** null: not known yet, or not to be known with this token. */
export const cluster = new Store<Cluster | null>(null);

const EVERY_MS = 3000,
  ALONE_MS = 15000;
let asking = false;

export async function look(): Promise<void> {
  if (asking) return;
  asking = true;
  try {
    const next = await getJson<Cluster>("api/cluster");
    if (JSON.stringify(next) !== JSON.stringify(cluster.value)) cluster.value = next;
  } catch {
    // a port of one process has no cluster; what is known stays
  } finally {
    asking = false;
  }
}

/** From now on, and less often while the node is in none. */
export function followCluster(): void {
  void look();
  let last = Date.now();
  setInterval(() => {
    const every = cluster.value?.attached ? EVERY_MS : ALONE_MS;
    if (document.hidden || paused.value || Date.now() - last < every) return;
    last = Date.now();
    void look();
  }, EVERY_MS);
}

/** Who answered a question to all of them. */
export interface Coverage {
  asked: number;
  answered: number;
  bytes: number;
  missing: { node: string; address: string; reason: string }[];
  left_out?: number;
  ranks_missing?: string;
  ranks_twice?: string;
}

/** "3 of 4 nodes answered; missing: node-c (does not answer)" */
export function coverageText(c: Coverage): string {
  const all = c.answered + c.missing.length + (c.left_out ?? 0);
  const parts = [`${c.answered} of ${all} node${all === 1 ? "" : "s"} answered`];
  if (c.missing.length)
    parts.push("missing: " + c.missing.map((m) => `${m.node} (${m.reason})`).join(", "));
  if (c.ranks_missing) parts.push(`ranks ${c.ranks_missing} run at no node that is known`);
  if (c.ranks_twice) parts.push(`claimed by several nodes: ${c.ranks_twice}`);
  return parts.join("; ");
}

export function isPartial(c: Coverage): boolean {
  return c.missing.length > 0 || (c.left_out ?? 0) > 0 || c.ranks_missing !== undefined;
}

/** "+12 ±85 µs" */
export function clockOf(m: Pick<Member, "self" | "clock_offset_us" | "clock_error_us">): string {
  if (m.self || m.clock_error_us === null || m.clock_offset_us === null) return "";
  const small = m.clock_error_us < 1000 && Math.abs(m.clock_offset_us) < 100000,
    by = small ? 1 : 1000,
    digits = small ? 0 : 1;
  const sign = m.clock_offset_us >= 0 ? "+" : "";
  return (
    `${sign}${(m.clock_offset_us / by).toFixed(digits)} ` +
    `±${(m.clock_error_us / by).toFixed(digits)} ${small ? "µs" : "ms"}`
  );
}
