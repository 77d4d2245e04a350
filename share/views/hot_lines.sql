-- hot_lines: where the time went, by line: the last ten minutes of each process's samples
--   func         NAME       function
--   file         NAME       source file; of a C function its library
--   lineno       INT        line
--   self_pct     REAL  %    share of the process's time, in the line itself
--   total_pct    REAL  %    share of the process's time, in the line and what it calls
--   self_ms      REAL  ms   time in the line itself, all threads together
--   total_ms     REAL  ms   time in the line and what it calls
--   running_ms   REAL  ms   part of self_ms on a processor or ready for one
--   gil_wait_ms  REAL  ms   part of self_ms waiting for the GIL
--   samples      INT        samples behind self_ms
--   host         NAME       machine
--   pid          INT        process id
--   rank         INT        rank in its job, if it has one
WITH latest AS (
    SELECT host, pid, max(timestamp) AS until FROM python.samples GROUP BY host, pid
),
-- Threads beside the main one that merely rest say nothing about the time.
recent AS (
    SELECT s.*
    FROM python.samples AS s JOIN latest AS l ON s.host = l.host AND s.pid = l.pid
    WHERE s.timestamp > l.until - INTERVAL 10 MINUTE AND (s.tid = s.pid OR s.state <> 'idle')
),
times AS (
    SELECT host, pid, rank, stack_id, sum(weight_ms) AS ms, sum(samples) AS samples,
           coalesce(sum(weight_ms) FILTER (on_cpu), 0) AS running_ms,
           coalesce(sum(weight_ms) FILTER (waits_gil), 0) AS gil_wait_ms
    FROM recent GROUP BY host, pid, rank, stack_id
),
whole AS (
    SELECT host, pid, sum(ms) AS ms FROM times GROUP BY host, pid
),
-- Once for each stack, however often it is on it; a stack is written anew each day.
frames AS (
    SELECT stack_id, func, file, lineno, min(depth) AS depth
    FROM python.stack_frames WHERE stack_id IN (SELECT stack_id FROM times)
    GROUP BY stack_id, func, file, lineno
)
SELECT f.func, f.file, f.lineno,
       100 * coalesce(sum(t.ms) FILTER (f.depth = 0), 0) / any_value(w.ms) AS self_pct,
       100 * sum(t.ms) / any_value(w.ms) AS total_pct,
       coalesce(sum(t.ms) FILTER (f.depth = 0), 0) AS self_ms, sum(t.ms) AS total_ms,
       coalesce(sum(t.running_ms) FILTER (f.depth = 0), 0) AS running_ms,
       coalesce(sum(t.gil_wait_ms) FILTER (f.depth = 0), 0) AS gil_wait_ms,
       coalesce(sum(t.samples) FILTER (f.depth = 0), 0)::BIGINT AS samples,
       t.host, t.pid, t.rank
FROM times AS t
JOIN frames AS f ON f.stack_id = t.stack_id
JOIN whole AS w ON w.host = t.host AND w.pid = t.pid
GROUP BY f.func, f.file, f.lineno, t.host, t.pid, t.rank
ORDER BY self_pct DESC, total_pct DESC
