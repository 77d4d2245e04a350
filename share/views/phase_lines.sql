-- phase_lines: hottest lines of each phase of the step (other: what other_ms is), last ten minutes
--   phase        NAME       part of the step: data, forward, backward, optimizer, other
--   place        INT        1: the line with most time in this phase
--   func         NAME       innermost function that is neither Python's nor of an installed package
--   file         NAME       source file of func
--   lineno       INT        line of func
--   pct          REAL  %    share of the phase
--   ms           REAL  ms   wall time
--   running_ms   REAL  ms   part of ms on a processor or ready for one
--   host         NAME       machine
--   pid          INT        process id
--   rank         INT        rank in its job, if it has one
WITH latest AS (
    SELECT host, pid, max(timestamp) AS until FROM python.samples GROUP BY host, pid
),
times AS (
    SELECT s.host, s.pid, s.rank, s.phase, s.stack_id, sum(s.weight_ms) AS ms,
           coalesce(sum(s.weight_ms) FILTER (s.on_cpu), 0) AS running_ms
    FROM python.samples AS s JOIN latest AS l ON s.host = l.host AND s.pid = l.pid
    WHERE s.timestamp > l.until - INTERVAL 10 MINUTE AND s.phase IS NOT NULL
    GROUP BY s.host, s.pid, s.rank, s.phase, s.stack_id
),
-- The program's own code; where a stack has none, its innermost frame.
frames AS (
    SELECT stack_id, func, file, lineno,
           depth + CASE WHEN regexp_matches(file, '/(site|dist)-packages/|/lib/python[0-9.]+t?/')
                             OR file LIKE '%/torch/%' OR file LIKE '<frozen %'
                             OR frame_type <> 'python'
                        THEN 100000 ELSE 0 END AS distance
    FROM python.stack_frames WHERE stack_id IN (SELECT stack_id FROM times)
),
places AS (
    SELECT stack_id, arg_min(func, distance) AS func, arg_min(file, distance) AS file,
           arg_min(lineno, distance) AS lineno
    FROM frames GROUP BY stack_id
),
lines AS (
    SELECT t.host, t.pid, t.rank, t.phase, p.func, p.file, p.lineno, sum(t.ms) AS ms,
           sum(t.running_ms) AS running_ms
    FROM times AS t JOIN places AS p ON p.stack_id = t.stack_id
    GROUP BY ALL
)
SELECT phase,
       row_number() OVER (PARTITION BY host, pid, phase ORDER BY ms DESC) AS place,
       func, file, lineno,
       100 * ms / sum(ms) OVER (PARTITION BY host, pid, phase) AS pct, ms, running_ms, host, pid,
       rank
FROM lines
ORDER BY host, pid, phase, place
