-- rank_missing: ranks wait in a collective that another rank does not come to
-- The waiting ranks have not moved for five seconds; the missing one is not in any collective and
-- stands still as well, or goes round in the same calls. Where it stands is the line to blame.
WITH waiting AS (
    SELECT family, host, count(*) AS n, min(stuck_ms) AS waits_ms, mode(what) AS op,
           string_agg(rank::VARCHAR, ',' ORDER BY rank) AS ranks, mode(place) AS place
    FROM subjects WHERE rank IS NOT NULL AND kind = 'collective' AND stuck_ms > 4000
    GROUP BY family, host
)
SELECT 'hang' AS kind,
       CASE c.kind WHEN 'running' THEN 'rank in a loop' WHEN 'sleep' THEN 'rank asleep'
                   WHEN 'lock' THEN 'rank waits for a lock' WHEN 'pipe' THEN 'rank reads a pipe'
                   WHEN 'socket' THEN 'rank waits for a socket'
                   WHEN 'child' THEN 'rank waits for a child' WHEN 'disk' THEN 'rank waits for a disk'
                   ELSE format('rank waits: {}', c.kind) END AS class,
       CASE WHEN c.kind = 'running' THEN 'supported' ELSE 'established' END AS confidence,
       c.family, c.rank, c.host, c.blame_pid AS pid, c.blame_tid AS tid, c.file, c.line, c.func,
       w.waits_ms AS stuck_ms,
       format('rank {} (pid {}) is not in {} that rank(s) {} wait in', c.rank, c.pid, w.op, w.ranks)
           AS what,
       CASE WHEN c.kind = 'running'
            THEN format('it runs in {} and has stayed in the same calls for {:.0f} s', c.place,
                        c.shape_ms / 1000)
            WHEN c.far THEN format('it waits for {}; {} at {} waits for {}', c.first_what, c.who,
                                   c.place, coalesce(c.what, c.kind))
            ELSE format('it is at {} and waits for {}', c.place, coalesce(c.what, c.kind)) END AS why,
       format('probing {} backtrace -a -l', c.blame_pid) AS next
FROM chains AS c JOIN waiting AS w ON w.family = c.family AND w.host = c.host
WHERE c.rank IS NOT NULL AND c.first_kind <> 'collective' AND c.kind <> 'collective'
  AND ((c.kind <> 'running' AND c.stuck_ms > 4000 AND coalesce(c.left_ms > 2000, true))
       OR (c.kind = 'sleep' AND c.shape_ms > 5000 AND c.looks >= 3)
       OR (c.kind = 'running' AND c.looks >= 3 AND c.shape_ms > 5000
           AND (c.states <= 2 OR c.top_file = c.file OR c.same_ms > 5000)))
