-- gradients: gradients that are zero, in steps that are to train something
-- Of probed trainings whose loop computes the norm: it was zero in each of the last thirty steps.
WITH steps AS (
    SELECT host, pid, step, timestamp, grad_norm FROM python.training_logs
    WHERE grad_norm IS NOT NULL
    QUALIFY row_number() OVER (PARTITION BY host, pid ORDER BY timestamp DESC) <= 30
)
SELECT 'values' AS kind, 'gradients are zero' AS class, 'established' AS confidence, t.family,
       t.rank, s.host, s.pid, t.tid, t.file, t.line, t.func,
       1000 * epoch(now() - s.since) AS stuck_ms,
       format('the gradients of {} are zero in each of the last {} steps', t.who, s.n) AS what,
       format('their norm at steps {} to {}', s.first, s.last) AS why,
       'look for a detach(), no_grad() or a dead activation between the loss and the parameters'
           AS next,
       format('SELECT step, loss, lr, grad_norm FROM python.training_logs WHERE pid = {} '
              'ORDER BY timestamp DESC LIMIT 50', s.pid) AS evidence
FROM (SELECT host, pid, count(*) AS n, min(step) AS first, max(step) AS last,
             min(timestamp) AS since FROM steps
      GROUP BY host, pid HAVING count(*) = 30 AND max(abs(grad_norm)) = 0) AS s
JOIN subjects AS t ON t.host = s.host AND t.pid = s.pid
QUALIFY row_number() OVER (PARTITION BY t.family ORDER BY s.since, s.pid) = 1
