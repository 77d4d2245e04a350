// Which lines allocated the memory that Python's allocators have given out, by a sample that is
// taken where the setting memory.sites is on.
import { useState } from "preact/hooks";
import { failureFrom, may, post } from "../lib/api.ts";
import { megabytes, moment, number, shortPath } from "../lib/format.ts";
import { useWatch } from "../lib/live.ts";
import { inTarget, nameOf, processes } from "../lib/processes.ts";
import { objects } from "../lib/rows.ts";
import { useStore } from "../lib/store.ts";
import { Grid } from "./grid.tsx";
import { Nothing, Panel } from "./panel.tsx";

const SITES = `
SELECT func, file, lineno, live_mb, error_mb, growth_mb, live_blocks, alloc_mb,
       stack_id::VARCHAR AS stack, rank, pid, epoch_ms(since) AS since, count(*) OVER () AS sites
FROM alloc_sites WHERE live_mb > 0 OR growth_mb <> 0
ORDER BY growth_mb DESC, live_mb DESC LIMIT 40`;

interface Site {
  func: string;
  file: string | null;
  lineno: number | null;
  live_mb: number;
  error_mb: number;
  growth_mb: number;
  live_blocks: number;
  alloc_mb: number;
  /** Its id, which is larger than numbers here can be. */
  stack: string;
  rank: number | null;
  pid: number;
  since: number;
  sites: number;
}

/** Turns the sample on, for who may change settings. */
function Begin({ target }: { target: string }) {
  const all = useStore(processes),
    [said, setSaid] = useState("");
  const chosen = all.filter((p) => p.live && target && inTarget(p, target)),
    living = chosen.filter((p) => p.probed);
  const begin = async () => {
    setSaid("…");
    try {
      const keys = living.map((p) => p.key).join(",");
      await (await post("api/config", { target: keys, set: { "memory.sites": "on" } })).text();
      setSaid("it has begun: the first numbers come within seconds");
    } catch (error) {
      setSaid(failureFrom(error).message);
    }
  };
  return (
    <p class="row">
      <code>probing {chosen[0]?.key ?? "PID"} memory --sites</code>
      {may("control") && living.length > 0 && (
        <button type="button" onClick={() => void begin()}>
          begin
        </button>
      )}
      <span role="status">{said}</span>
    </p>
  );
}

export function SitesPanel({ target }: { target: string }) {
  const of = useWatch({ sql: SITES, target, every: 5 }),
    rows = objects<Site>(of.result);
  const several = new Set(rows.map((r) => r.pid)).size > 1;
  const began = Math.min(...rows.map((r) => r.since));
  return (
    <Panel
      title="Memory by the line that allocated it"
      about={
        rows.length
          ? `in use now, of what was allocated since ${moment(began)}; growth in the last 10 min`
          : "by a sample of what Python's allocators give out"
      }
      of={of}
      target={target}
    >
      {rows.length ? (
        <Grid
          label="allocation sites"
          rows={rows}
          id={(r) => `${r.pid} ${r.stack}`}
          all={rows[0]!.sites}
          behind={(r) => `SELECT timestamp, live_bytes, live_error, live_blocks, alloc_bytes
FROM python.alloc WHERE pid = ${r.pid} AND stack_id = ${r.stack} ORDER BY timestamp DESC`}
          columns={[
            ...(several
              ? [
                  {
                    title: "process",
                    by: (r: Site) => r.rank ?? r.pid,
                    show: (r: Site) => nameOf(r.rank, r.pid),
                  },
                ]
              : []),
            {
              title: "in use",
              number: true,
              by: (r) => r.live_mb,
              show: (r) => megabytes(r.live_mb),
            },
            {
              title: "±",
              number: true,
              doc: "standard error of the sample",
              show: (r) => megabytes(r.error_mb),
            },
            {
              title: "growth",
              number: true,
              by: (r) => r.growth_mb,
              show: (r) => (r.growth_mb > 0 ? "+" : "") + megabytes(r.growth_mb),
            },
            {
              title: "blocks",
              number: true,
              by: (r) => r.live_blocks,
              show: (r) => number(r.live_blocks),
            },
            {
              title: "allocated",
              number: true,
              doc: "what was freed, too",
              by: (r) => r.alloc_mb,
              show: (r) => megabytes(r.alloc_mb),
            },
            {
              title: "by",
              wide: true,
              by: (r) => r.func,
              show: (r) => (
                <>
                  {r.func}{" "}
                  <span class="dim" title={r.file ?? ""}>
                    {shortPath(r.file ?? "")}:{r.lineno}
                  </span>
                </>
              ),
            },
          ]}
        />
      ) : (
        <Nothing of={of} what="No memory is in use that was seen when it was allocated.">
          <Begin target={target} />
        </Nothing>
      )}
    </Panel>
  );
}
