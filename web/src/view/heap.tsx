// Python objects of one process by type, read from outside when somebody asks: what there is, what
// has grown since the first look, and who holds the largest containers.
import { useEffect, useState } from "preact/hooks";
import { ask, failureFrom } from "../lib/api.ts";
import { clock, counted, number, quantity } from "../lib/format.ts";
import { change, link } from "../lib/place.ts";
import { inTarget, nameOf, processes } from "../lib/processes.ts";
import { objects } from "../lib/rows.ts";
import { useStore } from "../lib/store.ts";
import { Grid, type GridColumn } from "./grid.tsx";
import { Panel } from "./panel.tsx";

const TYPES = `
SELECT type, module, "count", bytes FROM python.heap ORDER BY bytes DESC`;
const CONTAINERS = `
SELECT type, items, bytes, held_by FROM python.heap_containers ORDER BY bytes DESC`;
const SHOWN = 25;

interface Type {
  type: string;
  module: string | null;
  count: number;
  bytes: number;
}
interface Container {
  type: string;
  items: number | null;
  bytes: number;
  held_by: string | null;
}
interface Look {
  at: number;
  types: Type[];
  containers: Container[];
}
interface Line extends Type {
  more: number | null;
  moreBytes: number | null;
}

async function lookAt(target: string): Promise<Look> {
  const [types, containers] = await Promise.all([
    ask({ sql: TYPES, target }),
    ask({ sql: CONTAINERS, target }),
  ]);
  return { at: types.at, types: objects(types), containers: objects(containers) };
}

const nameOfType = (t: Type) =>
  (t.module && t.module !== "builtins" ? `${t.module}.` : "") + t.type;

/** What is there now beside what was there at the first look; the largest growth first. */
export function growth(first: Type[], now: Type[]): Line[] {
  const before = new Map(first.map((t) => [nameOfType(t), t]));
  return now
    .map((t) => {
      const old = before.get(nameOfType(t));
      return { ...t, more: t.count - (old?.count ?? 0), moreBytes: t.bytes - (old?.bytes ?? 0) };
    })
    .sort((a, b) => b.moreBytes - a.moreBytes || b.bytes - a.bytes);
}

const signed = (text: string, value: number | null) => (value && value > 0 ? `+${text}` : text);

function columnsOf(grows: boolean): GridColumn<Line>[] {
  return [
    { title: "objects", number: true, by: (t) => t.count, show: (t) => number(t.count) },
    { title: "memory", number: true, by: (t) => t.bytes, show: (t) => quantity(t.bytes, "B") },
    ...(grows
      ? ([
          {
            title: "more objects",
            number: true,
            by: (t) => t.more,
            show: (t) => (t.more ? signed(number(t.more), t.more) : ""),
          },
          {
            title: "more memory",
            number: true,
            by: (t) => t.moreBytes,
            show: (t) => (t.moreBytes ? signed(quantity(t.moreBytes, "B"), t.moreBytes) : ""),
          },
        ] as GridColumn<Line>[])
      : []),
    { title: "type", wide: true, by: (t) => nameOfType(t), show: (t) => nameOfType(t) },
  ];
}

function Types({ first, now }: { first: Look; now: Look }) {
  const grows = first !== now;
  const lines: Line[] = grows
    ? growth(first.types, now.types)
    : now.types.map((t) => ({ ...t, more: null, moreBytes: null }));
  return (
    <Grid
      label="objects by type"
      rows={lines}
      id={(t) => nameOfType(t)}
      limit={SHOWN}
      columns={columnsOf(grows)}
    />
  );
}

function Containers({ rows }: { rows: Container[] }) {
  return (
    <Grid
      label="largest containers"
      rows={rows}
      id={(r) => `${r.held_by} ${r.type} ${r.bytes}`}
      limit={SHOWN}
      columns={[
        { title: "items", number: true, by: (r) => r.items, show: (r) => number(r.items) },
        {
          title: "own size",
          number: true,
          by: (r) => r.bytes,
          show: (r) => quantity(r.bytes, "B"),
        },
        { title: "type", by: (r) => r.type, show: (r) => r.type },
        {
          title: "held by",
          wide: true,
          by: (r) => r.held_by,
          show: (r) => <code>{r.held_by}</code>,
        },
      ]}
    />
  );
}

export function HeapPanel({ target }: { target: string }) {
  const all = useStore(processes),
    wanted = useStore(link).params.heap === "1";
  const chosen = all.filter((p) => target && inTarget(p, target) && p.live);
  const one = chosen.length === 1 ? chosen[0]! : null;
  const [looks, setLooks] = useState<[first: Look, now: Look] | null>(null);
  const [said, setSaid] = useState("");
  const look = async () => {
    if (!one) return;
    setSaid("reading …");
    try {
      const now = await lookAt(one.key);
      setLooks((old) => [old ? old[0] : now, now]);
      setSaid("");
    } catch (error) {
      setSaid(failureFrom(error).message);
    }
  };
  useEffect(() => setLooks(null), [target]);
  useEffect(() => {
    if (wanted && one && !looks) void look();
  }, [wanted, one?.key]);
  const all_ = looks?.[1].types.length ?? 0;
  const about = looks
    ? `${counted(Math.min(SHOWN, all_), all_)} types, at ${clock(looks[1].at)}` +
      (looks[0] !== looks[1] ? `, against ${clock(looks[0].at)}` : "")
    : "read from outside, nothing is stopped";
  return (
    <Panel
      title="Python objects by type"
      about={about}
      of={{ sql: TYPES.trim() }}
      target={target}
      tools={
        one && (
          <>
            <span class="dim" role="status">
              {said}
            </span>
            <button
              type="button"
              onClick={() => {
                change({ heap: "1" });
                if (wanted || looks) void look();
              }}
            >
              {looks ? "look again: what has grown?" : "look now"}
            </button>
          </>
        )
      }
    >
      {!one ? (
        <p class="nothing dim">
          Objects are read of one living process: choose it above
          {chosen.length > 1 && (
            <>
              , for example{" "}
              <button
                type="button"
                class="plain"
                onClick={() => change({ p: chosen[0]!.key, heap: "1" }, true)}
              >
                {nameOf(chosen[0]!.rank, chosen[0]!.pid)}
              </button>
            </>
          )}
          . <code>probing {chosen[0]?.key ?? "PID"} memory --heap</code>
        </p>
      ) : looks ? (
        <div class="columns two">
          <Types first={looks[0]} now={looks[1]} />
          <Containers rows={looks[1].containers} />
        </div>
      ) : (
        <p class="nothing dim">
          Counts and sizes of all objects, also of those that are older than the probes, and who
          holds the largest containers. Two looks show what has grown in between.
        </p>
      )}
    </Panel>
  );
}
