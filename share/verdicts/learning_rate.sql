-- learning_rate: a learning rate that is zero, or is another one on one rank
-- Of probed trainings: zero in each of the last fifty steps, of which a schedule's end has fewer; or
-- in the last steps of all ranks another one than most ranks have at the same step. One that stays
-- the same is none: many trainings have no schedule.
WITH steps AS (
    SELECT host, pid, step, timestamp, lr FROM python.training_logs WHERE lr IS NOT NULL
    QUALIFY row_number() OVER (PARTITION BY host, pid ORDER BY timestamp DESC) <= 50
),
zero AS (
    SELECT host, pid, min(step) AS first, min(timestamp) AS since, 0.0 AS lr, 0.0 AS others, 0 AS n
    FROM steps GROUP BY host, pid HAVING count(*) = 50 AND max(abs(lr)) = 0
),
pairs AS (
    SELECT t.family, s.host, s.pid, s.step, s.timestamp, s.lr,
           mode(s.lr) OVER (PARTITION BY t.family, s.step) AS most,
           count(*) OVER (PARTITION BY t.family, s.step) AS ranks
    FROM steps AS s JOIN subjects AS t ON t.host = s.host AND t.pid = s.pid AND t.rank IS NOT NULL
),
apart AS (
    SELECT host, pid, min(step) AS first, min(timestamp) AS since, arg_max(lr, step) AS lr,
           arg_max(most, step) AS others, count(*) AS n
    FROM pairs WHERE ranks > 1 GROUP BY host, pid
    HAVING count(*) >= 10 AND bool_and(abs(lr - most) > 1e-6 * abs(most))
)
SELECT 'values' AS kind,
       CASE WHEN b.n = 0 THEN 'learning rate is zero' ELSE 'learning rate differs' END AS class,
       'established' AS confidence, t.family, t.rank, b.host, b.pid, t.tid, t.file, t.line, t.func,
       1000 * epoch(now() - b.since) AS stuck_ms,
       CASE WHEN b.n = 0 THEN format('the learning rate of {} is zero since step {} or before',
                                     t.who, b.first)
            ELSE format('the learning rate of {} is {}, that of the other ranks {}', t.who, b.lr,
                        b.others) END AS what,
       CASE WHEN b.n = 0 THEN 'in each of the last 50 steps'
            ELSE format('at each of {} steps that both made', b.n) END AS why,
       'look where the scheduler is stepped, and with what it was loaded' AS next,
       format('SELECT step, lr, loss FROM python.training_logs WHERE pid = {} '
              'ORDER BY timestamp DESC LIMIT 50', b.pid) AS evidence
FROM (FROM zero UNION ALL FROM apart) AS b
JOIN subjects AS t ON t.host = b.host AND t.pid = b.pid
QUALIFY row_number() OVER (PARTITION BY t.family ORDER BY b.since, b.pid) = 1
