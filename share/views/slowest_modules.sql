-- slowest_modules: where the time of a step goes, by module; children are part of their parents
--   module       NAME       dotted name of the module
--   module_type  NAME       its class
--   stage        NAME       forward, backward, optimizer
--   calls        INT        calls that were traced
--   avg_ms       REAL  ms   time of a call on the host
--   max_ms       REAL  ms   longest call
--   total_ms     REAL  ms   all calls together
--   gpu_ms       REAL  ms   time of a call on the GPU, where it was measured
--   step_pct     REAL  %    share of all traced time at the outermost level of its process
--   host         NAME       machine
--   pid          INT        process id
--   rank         INT        rank in its job, if it has one
WITH calls AS (
    SELECT module, module_type, stage, count(*) AS calls, avg(duration_ms) AS avg_ms,
           max(duration_ms) AS max_ms, sum(duration_ms) AS total_ms, avg(gpu_ms) AS gpu_ms,
           host, pid, rank
    FROM python.torch_trace
    GROUP BY module, module_type, stage, host, pid, rank
),
-- A root is named after its class; an optimizer and a whole backward are, too.
whole AS (
    SELECT host, pid, sum(total_ms) AS ms FROM calls WHERE module = module_type GROUP BY host, pid
)
SELECT c.module, c.module_type, c.stage, c.calls, c.avg_ms, c.max_ms, c.total_ms, c.gpu_ms,
       100 * c.total_ms / w.ms AS step_pct, c.host, c.pid, c.rank
FROM calls AS c LEFT JOIN whole AS w ON w.host = c.host AND w.pid = c.pid
ORDER BY c.total_ms DESC
