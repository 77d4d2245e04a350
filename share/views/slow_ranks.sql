-- slow_ranks: who keeps the others waiting: how late each rank comes to collectives
--   rank         INT        rank in its job
--   late_ms      REAL  ms   how long after the first rank it comes, on average
--   max_late_ms  REAL  ms   how long after the first rank it comes, at most
--   last_pct     REAL  %    share of collectives that it came to last
--   latency_ms   REAL  ms   how long it then waits: the slowest rank waits least
--   collectives  INT        collectives that several ranks were seen in
--   group_name   NAME       process group
--   job          NAME       job that the ranks belong to: its master's address
--   host         NAME       machine
--   pid          INT        process id
WITH operations AS (
    SELECT timestamp, rank, host, pid, job, group_name, seq, max(latency_ms) AS latency_ms
    FROM python.comm
    WHERE seq IS NOT NULL AND op NOT IN ('send', 'recv') AND state <> 'seen'
    GROUP BY timestamp, rank, host, pid, job, group_name, seq
),
-- A job that was started again at the same address counts from one again.
runs AS (
    SELECT *, row_number() OVER (PARTITION BY job, group_name, seq, rank ORDER BY timestamp) AS run
    FROM operations
),
calls AS (
    SELECT rank, host, pid, job, group_name, latency_ms,
           epoch_us(timestamp - min(timestamp) OVER same) / 1000.0 AS late_ms,
           timestamp = max(timestamp) OVER same AS is_last, count(*) OVER same AS ranks
    FROM runs
    WINDOW same AS (PARTITION BY job, group_name, seq, run)
)
SELECT rank, avg(late_ms) AS late_ms, max(late_ms) AS max_late_ms,
       100.0 * count(*) FILTER (is_last) / count(*) AS last_pct, avg(latency_ms) AS latency_ms,
       count(*) AS collectives, group_name, job, host, pid
FROM calls
WHERE ranks > 1
GROUP BY rank, group_name, job, host, pid
ORDER BY late_ms DESC
