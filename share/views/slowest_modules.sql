-- slowest_modules: where the time of a step goes, by module; children are part of their parents
--   module       NAME       dotted name of the module
--   module_type  NAME       its class
--   stage        NAME       forward, backward, optimizer
--   calls        INT        calls that were traced
--   avg_ms       REAL  ms   time of a call on the host
--   max_ms       REAL  ms   longest call
--   total_ms     REAL  ms   all calls together
--   gpu_ms       REAL  ms   time of a call on the GPU, where it was measured
--   step_pct     REAL  %    share of traced time at the outermost level; backward of parts: estimate
--   host         NAME       machine
--   pid          INT        process id
--   rank         INT        rank in its job, if it has one
WITH calls AS (
    -- A backward pass as a whole has this operation; that of a module has the module's name in it.
    SELECT module, module_type, stage, stage = 'backward' AND operation_name <> 'backward' AS part,
           count(*) AS calls, avg(duration_ms) AS avg_ms, max(duration_ms) AS max_ms,
           sum(duration_ms) AS total_ms, avg(gpu_ms) AS gpu_ms, host, pid, rank
    FROM python.torch_trace
    GROUP BY module, module_type, stage, part, host, pid, rank
),
-- A root is named after its class; an optimizer and a whole backward are, too.
whole AS (
    SELECT host, pid, sum(total_ms) AS ms FROM calls WHERE module = module_type AND NOT part
    GROUP BY host, pid
),
-- Steps with backward, and those of them where it was told apart by module.
steps AS (
    SELECT host, pid, count(DISTINCT step) /
           nullif(count(DISTINCT CASE WHEN operation_name <> 'backward' THEN step END), 0) AS scale
    FROM python.torch_trace WHERE stage = 'backward' GROUP BY host, pid
)
SELECT c.module, c.module_type, c.stage, c.calls, c.avg_ms, c.max_ms, c.total_ms, c.gpu_ms,
       100 * c.total_ms * CASE WHEN c.part THEN s.scale ELSE 1 END / w.ms AS step_pct,
       c.host, c.pid, c.rank
FROM calls AS c
LEFT JOIN whole AS w ON w.host = c.host AND w.pid = c.pid
LEFT JOIN steps AS s ON s.host = c.host AND s.pid = c.pid
ORDER BY step_pct DESC
