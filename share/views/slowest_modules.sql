-- slowest_modules: where the time of a step goes, by module; children are part of their parents
--   root         NAME       outermost module, or the optimizer; a second one of its class has #2
--   module       NAME       dotted name of the module
--   module_type  NAME       class of the module
--   stage        NAME       forward, backward, optimizer
--   phase        NAME       train, eval, data (called by a data loader)
--   calls        INT        calls that were traced
--   median_ms    REAL  ms   time of a call on the host; backward of parts as in the median pass
--   whole_ms     REAL  ms   time of the outermost calls that it was called in, median
--   avg_ms       REAL  ms   time of a call, average
--   max_ms       REAL  ms   longest call
--   self_ms      REAL  ms   time of a call without modules inside, median
--   total_ms     REAL  ms   all calls together; backward of parts: as if all passes were told apart
--   gpu_ms       REAL  ms   time of a call on the GPU, where it was measured
--   step_pct     REAL  %    share of the time of these steps; without steps: of all outermost calls
--   host         NAME       machine
--   pid          INT        process id
--   rank         INT        rank in its job, if it has one
WITH logged AS (
    SELECT host, pid, step, timestamp AS ended, step_ms FROM python.training_logs
    WHERE step_ms IS NOT NULL
),
-- A backward pass as a whole has this operation; that of a module has the module's name in it.
traced AS (
    SELECT *, stage = 'backward' AND operation_name <> 'backward' AS part FROM python.torch_trace
),
-- Numbers of steps begin anew when the agent comes again: it is the next end of such a step.
calls AS (
    SELECT t.*, l.ended, l.step_ms FROM traced AS t
    ASOF LEFT JOIN logged AS l
      ON t.host = l.host AND t.pid = l.pid AND t.step = l.step AND t.timestamp <= l.ended
),
steps AS (
    SELECT host, pid, sum(step_ms) AS ms FROM (
        SELECT DISTINCT host, pid, step, ended, step_ms FROM calls WHERE step_ms IS NOT NULL)
    GROUP BY host, pid
),
-- Where nothing trains.
outermost AS (
    SELECT host, pid, sum(duration_ms) AS ms FROM calls
    WHERE module = module_type AND starts_with(root, module) AND NOT part
    GROUP BY host, pid
),
-- Passes as a whole, and those in steps where they were told apart by module.
passes AS (
    SELECT c.host, c.pid, c.root, c.duration_ms, c.step_ms,
           p.step IS NOT NULL AS apart
    FROM calls AS c
    LEFT JOIN (SELECT DISTINCT host, pid, step FROM calls WHERE part) AS p
      ON c.host = p.host AND c.pid = p.pid AND c.step = p.step
    WHERE c.stage = 'backward' AND NOT c.part
),
-- What a pass takes in all steps, of what it takes in those: parts are measured in the latter.
scales AS (
    SELECT host, pid, root, grouping(root) AS for_any,
           median(duration_ms) / nullif(median(duration_ms) FILTER (apart), 0) AS of_median,
           avg(duration_ms) / nullif(avg(duration_ms) FILTER (apart), 0) AS of_avg,
           sum(duration_ms) / nullif(sum(duration_ms) FILTER (apart), 0) AS of_sum,
           sum(duration_ms) FILTER (step_ms IS NOT NULL) /
           nullif(sum(duration_ms) FILTER (apart AND step_ms IS NOT NULL), 0) AS of_steps
    FROM passes GROUP BY GROUPING SETS ((host, pid, root), (host, pid))
),
-- The outermost call that each one is in: rows of a step are in the order of their ends.
wholes AS (
    SELECT host, pid, step, ended, root, stage, seq, duration_ms AS ms FROM calls
    WHERE module = module_type AND starts_with(root, module) AND NOT part
),
within AS (
    SELECT c.*, w.ms AS whole_ms FROM calls AS c
    ASOF LEFT JOIN wholes AS w
      ON c.host = w.host AND c.pid = w.pid AND c.step = w.step AND c.root = w.root
         AND c.stage = w.stage AND c.ended IS NOT DISTINCT FROM w.ended AND c.seq <= w.seq
),
grouped AS (
    SELECT host, pid, rank, root, module, module_type, stage, phase, part, count(*) AS calls,
           median(duration_ms) AS median_ms, median(whole_ms) AS whole_ms,
           avg(duration_ms) AS avg_ms,
           max(duration_ms) AS max_ms, median(self_ms) AS self_ms, sum(duration_ms) AS total_ms,
           avg(gpu_ms) AS gpu_ms, sum(duration_ms) FILTER (step_ms IS NOT NULL) AS in_steps_ms
    FROM within
    GROUP BY host, pid, rank, root, module, module_type, stage, phase, part
)
SELECT g.root, g.module, g.module_type, g.stage, g.phase, g.calls,
       g.median_ms * coalesce(s.of_median, a.of_median, 1) AS median_ms,
       g.whole_ms * coalesce(s.of_median, a.of_median, 1) AS whole_ms,
       g.avg_ms * coalesce(s.of_avg, a.of_avg, 1) AS avg_ms, g.max_ms,
       g.self_ms * coalesce(s.of_median, a.of_median, 1) AS self_ms,
       g.total_ms * coalesce(s.of_sum, a.of_sum, 1) AS total_ms, g.gpu_ms,
       CASE WHEN w.ms IS NOT NULL
            THEN 100 * g.in_steps_ms * coalesce(s.of_steps, a.of_steps, 1) / w.ms
            ELSE 100 * g.total_ms * coalesce(s.of_sum, a.of_sum, 1) / o.ms END AS step_pct,
       g.host, g.pid, g.rank
FROM grouped AS g
LEFT JOIN scales AS s
  ON g.part AND s.for_any = 0 AND s.host = g.host AND s.pid = g.pid AND s.root = g.root
LEFT JOIN scales AS a
  ON g.part AND a.for_any = 1 AND a.host = g.host AND a.pid = g.pid
LEFT JOIN steps AS w ON w.host = g.host AND w.pid = g.pid
LEFT JOIN outermost AS o ON o.host = g.host AND o.pid = g.pid
ORDER BY step_pct DESC NULLS LAST, g.module = g.module_type DESC
