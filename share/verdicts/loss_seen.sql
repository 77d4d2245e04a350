-- loss_seen: a variable that is named as a loss is not a number, infinite, or explodes
-- Of any training, from outside: what the variable was in each of the last glances, ten of them, or
-- four where it was never seen as another. One bad value is none: mixed precision leaves out such a
-- step.
SELECT 'values' AS kind,
       CASE WHEN bad_losses > 0 THEN 'loss is not a number' ELSE 'loss explodes' END AS class,
       CASE WHEN bad_losses > 0 THEN 'established' ELSE 'supported' END AS confidence, family, rank,
       host, pid, tid, busy_file AS file, busy_line AS line, busy_func AS func, 0 AS stuck_ms,
       format('the loss of {} is {}', who, loss) AS what,
       CASE WHEN bad_losses > 0
            THEN format('in each of the last {} looks at it, of {}', bad_losses, losses)
            ELSE format('it was {} when first seen', first_loss) END AS why,
       'look at the inputs and the learning rate of the steps before' AS next
FROM subjects
WHERE trains AND glances >= 15
  AND (bad_losses >= 10 OR (bad_losses >= 4 AND bad_losses = losses)
       OR (bad_losses = 0 AND abs(loss) > 1e6 AND abs(loss) > 1e4 * abs(first_loss) AND losses >= 20))
QUALIFY row_number() OVER (PARTITION BY family ORDER BY bad_losses DESC, pid) = 1
