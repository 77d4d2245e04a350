-- loss_explodes: a loss that has become ten thousand times what it was
-- Of probed trainings: the last ten steps beside the smallest ten in a row before, all finite.
WITH steps AS (
    SELECT host, pid, step, timestamp, abs(loss) AS loss,
           median(abs(loss)) OVER (PARTITION BY host, pid ORDER BY timestamp
                                   ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS level,
           count(*) OVER (PARTITION BY host, pid ORDER BY timestamp
                          ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS n
    FROM python.training_logs WHERE loss IS NOT NULL
),
levels AS (
    SELECT host, pid, arg_max(level, timestamp) AS now_level, min(level) AS low,
           arg_min(step, level) AS low_step, arg_min(timestamp, level) AS low_at,
           max(step) AS step, bool_or(isnan(loss) OR isinf(loss)) AS bad
    FROM steps WHERE n = 10 GROUP BY host, pid
)
SELECT 'values' AS kind, 'loss explodes' AS class, 'supported' AS confidence, t.family, t.rank,
       l.host, l.pid, t.tid, t.file, t.line, t.func, 1000 * epoch(now() - l.low_at) AS stuck_ms,
       format('the loss of {} grew from {:.3g} at step {} to {:.3g} at step {}', t.who, l.low,
              l.low_step, l.now_level, l.step) AS what,
       format('medians of ten steps: {:.3g} times', l.now_level / l.low) AS why,
       'look at the learning rate and clip gradients; where it began: SELECT step, loss, lr FROM '
       'python.training_logs' AS next,
       format('SELECT step, loss, lr, grad_norm FROM python.training_logs WHERE pid = {} '
              'ORDER BY timestamp DESC LIMIT 50', l.pid) AS evidence
FROM levels AS l JOIN subjects AS t ON t.host = l.host AND t.pid = l.pid
WHERE NOT l.bad AND l.low > 0 AND l.now_level > 1e4 * l.low AND l.now_level > 1e3
QUALIFY row_number() OVER (PARTITION BY t.family ORDER BY l.low_at, l.pid) = 1
