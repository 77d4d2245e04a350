-- loss: a loss that is not a number, or infinite
-- Of probed trainings: the first step that had it, on the rank that had it first.
WITH bad AS (
    SELECT l.host, l.pid, l.rank, min(l.step) AS step, min(l.timestamp) AS since, count(*) AS n,
           arg_min(l.loss, l.step) AS loss
    FROM python.training_logs AS l
    WHERE isnan(l.loss) OR isinf(l.loss)
    GROUP BY l.host, l.pid, l.rank
)
SELECT 'values' AS kind, 'loss is not a number' AS class, 'established' AS confidence, t.family,
       b.rank, b.host, b.pid, t.tid, t.file, t.line, t.func,
       1000 * epoch(now() - b.since) AS stuck_ms,
       format('the loss of {} is {} since step {}', t.who, b.loss, b.step) AS what,
       format('{} step(s) since then', b.n) AS why,
       'look at the inputs and the learning rate of the steps before' AS next
FROM bad AS b JOIN subjects AS t ON t.host = b.host AND t.pid = b.pid
QUALIFY row_number() OVER (PARTITION BY t.family ORDER BY b.step, b.since) = 1
