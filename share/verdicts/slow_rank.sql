-- slow_rank: one rank works while the others wait for it, again and again
-- By glances at all ranks from outside: the slow one is rarely met in a collective, the others most
-- of the time, and all of them go on; five glances are one look, and nine looks tell a pause now and
-- then (a checkpoint) from every step. The line is where the slow one is met most.
WITH shares AS (
    SELECT *, glances_comm / glances AS share FROM subjects
    WHERE rank IS NOT NULL AND glances >= 45 AND busy_line IS NOT NULL
),
others AS (
    SELECT a.family, a.host, a.pid, median(b.share) AS share, count(*) AS n
    FROM shares AS a JOIN shares AS b ON b.family = a.family AND b.host = a.host AND b.pid <> a.pid
    GROUP BY a.family, a.host, a.pid
)
SELECT 'slow' AS kind, 'slow rank' AS class, 'supported' AS confidence, s.family, s.rank, s.host,
       s.pid, s.tid, s.busy_file AS file, s.busy_line AS line, s.busy_func AS func, 0 AS stuck_ms,
       format('rank {} (pid {}) is slow: the others wait for it {:.0f} % of the time', s.rank, s.pid,
              100 * o.share) AS what,
       format('met in collectives {} of {} times, at {}:{} {} times', s.glances_comm, s.glances,
              regexp_extract(s.busy_file, '[^/]*$'), s.busy_line, s.busy_glances) AS why,
       format('probing {} flamegraph', s.pid) AS next
FROM shares AS s JOIN others AS o ON o.family = s.family AND o.host = s.host AND o.pid = s.pid
WHERE s.share < 0.3 AND o.share > 0.75 AND s.busy_glances >= 0.3 * (s.glances - s.glances_comm)
