-- slow_data: steps wait for data most of their time
-- Of probed trainings, by the last fifty steps. The line is where the loop asks for its batch, if it
-- stands there now.
WITH steps AS (
    SELECT host, pid, rank, step_ms, data_ms FROM python.training_logs
    WHERE data_ms IS NOT NULL
    QUALIFY row_number() OVER (PARTITION BY host, pid ORDER BY timestamp DESC) <= 50
)
SELECT 'slow' AS kind, 'starved data loader' AS class, 'supported' AS confidence, t.family, t.rank,
       t.host, t.pid, t.tid, t.file, t.line, t.func, 0 AS stuck_ms,
       format('{} waits for data {:.0f} % of each step', t.who, 100 * s.share) AS what,
       format('median of {} steps: {:.1f} ms, of them {:.1f} ms for data', s.n, s.step_ms,
              s.data_ms) AS why,
       'more workers, less work for each sample, or faster storage' AS next
FROM (SELECT host, pid, count(*) AS n, median(step_ms) AS step_ms, median(data_ms) AS data_ms,
             median(data_ms / step_ms) AS share
      FROM steps WHERE step_ms > 0 GROUP BY host, pid) AS s
JOIN subjects AS t ON t.host = s.host AND t.pid = s.pid
WHERE s.n >= 20 AND s.share > 0.6 AND s.data_ms > 20
