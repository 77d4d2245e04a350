// What changed lately: processes that began or ended, code that was run, settings, lack of memory.
import { useMemo } from "preact/hooks";
import { moment, shortCommand } from "../lib/format.ts";
import { useWatch } from "../lib/live.ts";
import { link } from "../lib/place.ts";
import { diedBadly, inTarget, nameOf, processes } from "../lib/processes.ts";
import { parseRange } from "../lib/range.ts";
import { objects } from "../lib/rows.ts";
import { useStore } from "../lib/store.ts";
import { Grid } from "./grid.tsx";
import { Panel } from "./panel.tsx";

const CHANGES = `
SELECT *, count(*) OVER () AS "all" FROM (
SELECT epoch_ms(timestamp) AS t, pid, rank, action AS what, detail, result <> 'ok' AS bad
FROM probing.audit WHERE {time} AND detail NOT LIKE '# For python.%'
     AND NOT (action = 'login' AND result = 'ok')
UNION ALL
SELECT epoch_ms(timestamp), pid, rank, 'out of memory', message, true
FROM python.out_of_memory WHERE {time} AND coalesce(place, 1) = 1
UNION ALL
SELECT epoch_ms(start_time), pid, rank, 'began', command, false
FROM system.process WHERE {time:start_time})
ORDER BY t DESC LIMIT 50`;

interface Change {
  t: number;
  pid: number;
  rank: number | null;
  what: string;
  detail: string | null;
  bad: boolean;
  all?: number;
}

export function Changes({ target }: { target: string }) {
  const changes = useWatch({ sql: CHANGES, target, whole: true, every: 15 });
  const all = useStore(processes),
    range = parseRange(useStore(link).params.r);
  const { rows, count } = useMemo(() => {
    const oldest = range.live ? Date.now() - range.span * 1000 : range.from,
      newest = range.live ? Infinity : range.to;
    const ends = all
      .filter((p) => p.ended && p.ended >= oldest && p.ended < newest && inTarget(p, target))
      .map((p): Change => ({
        t: p.ended!,
        pid: p.pid,
        rank: p.rank,
        what: diedBadly(p) ? `ended: ${p.how}` : "ended",
        detail: p.command,
        bad: diedBadly(p),
      }));
    const told = objects<Change>(changes.result);
    return {
      rows: [...told, ...ends].sort((a, b) => b.t - a.t),
      count: (told[0]?.all ?? 0) + ends.length,
    };
  }, [changes.result, all]);
  if (!rows.length) return null;
  return (
    <Panel title="What changed lately" of={changes} target={target}>
      <Grid
        label="changes"
        rows={rows}
        id={(r) => `${r.t} ${r.pid} ${r.what}`}
        limit={30}
        all={count}
        class={(r) => (r.bad ? "marked" : "")}
        columns={[
          { title: "when", show: (r) => <span title={moment(r.t)}>{moment(r.t)}</span> },
          { title: "process", show: (r) => nameOf(r.rank, r.pid) },
          { title: "what", show: (r) => r.what },
          {
            title: "detail",
            wide: true,
            show: (r) => (
              <span title={r.detail ?? ""}>
                {/^(began|ended)/.test(r.what) ? shortCommand(r.detail ?? "") : r.detail}
              </span>
            ),
          },
        ]}
      />
    </Panel>
  );
}
