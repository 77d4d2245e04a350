-- phase_times: time of the training thread by phase of the step and module, last ten minutes
--   phase        NAME       part of the step: data, forward, backward, optimizer, …
--   module       NAME       innermost module that ran
--   pct          REAL  %    share of the thread's time
--   ms           REAL  ms   wall time
--   running_ms   REAL  ms   part of ms on a processor or ready for one
--   waiting_ms   REAL  ms   part of ms not running
--   samples      INT        samples behind ms
--   host         NAME       machine
--   pid          INT        process id
--   rank         INT        rank in its job, if it has one
WITH latest AS (
    SELECT host, pid, max(timestamp) AS until FROM python.samples GROUP BY host, pid
),
recent AS (
    SELECT s.*
    FROM python.samples AS s JOIN latest AS l ON s.host = l.host AND s.pid = l.pid
    WHERE s.timestamp > l.until - INTERVAL 10 MINUTE AND s.phase IS NOT NULL
)
SELECT phase, module,
       100 * sum(weight_ms) / sum(sum(weight_ms)) OVER (PARTITION BY host, pid) AS pct,
       sum(weight_ms) AS ms, coalesce(sum(weight_ms) FILTER (on_cpu), 0) AS running_ms,
       coalesce(sum(weight_ms) FILTER (NOT on_cpu), 0) AS waiting_ms,
       sum(samples)::BIGINT AS samples, host, pid, rank
FROM recent
GROUP BY phase, module, host, pid, rank
ORDER BY ms DESC
