-- never_woken: every thread of a process waits for another one of the same process
-- Locks, queues, events, futures, coroutines: none of its threads runs, sleeps or listens to
-- anything outside, so none of these waits can end. A thread that only wakes up to sleep on, with
-- the same variables, changes nothing of that, if what is waited for is not what a service without
-- work waits for (an event, an item of a queue): a lock, a future, room in a queue, a barrier. The
-- same holds for a main thread that waits for an event where the process handles signals.
WITH closed AS (
    SELECT host, pid, any_value(threads) AS threads, count(*) AS python_threads,
           count(*) FILTER (idles) AS idlers,
           bool_or(coalesce(is_main AND handles_signals AND what = 'an event', false))
               AS signalled, min(stuck_ms) FILTER (NOT idles) AS stuck_ms
    FROM threads
    GROUP BY host, pid
    HAVING bool_and(kind IN ('lock', 'thread', 'queue', 'event', 'future')
                    OR (kind = 'await' AND alone) OR (kind = 'other' AND line IS NULL)
                    OR (kind IN ('pipe', 'poll', 'socket') AND alone) OR idles)
       AND NOT bool_or(timed AND NOT idles) AND min(stuck_ms) FILTER (NOT idles) > 3000
),
-- Waits of which nobody makes a habit; that of a main thread, or that which it hangs on.
unusual AS (
    SELECT t.host, t.pid, t.tid FROM threads AS t
    WHERE t.kind IN ('lock', 'future')
       OR (((t.kind = 'queue' AND t.what NOT LIKE 'an item%')
            OR (t.kind = 'event' AND t.what <> 'an event'))
           AND EXISTS (FROM threads AS m WHERE m.host = t.host AND m.pid = t.pid AND m.is_main
                       AND m.root_pid = t.pid AND m.root_tid = t.tid))
)
SELECT 'hang' AS kind,
       CASE t.kind WHEN 'lock' THEN CASE WHEN t.forked THEN 'lock held over fork'
                                         ELSE 'lock that nobody releases' END
                   WHEN 'queue' THEN 'queue' WHEN 'await' THEN 'await that nobody completes'
                   ELSE format('{} that nobody completes', t.kind) END AS class,
       CASE WHEN c.threads > c.python_threads OR c.idlers > 0 THEN 'supported'
            ELSE 'established' END AS confidence,
       t.family, t.family_rank AS rank, t.host, t.pid, t.tid, t.file, t.line, t.func, c.stuck_ms,
       format('{} waits for {}, and nobody is left to give it', t.who, coalesce(t.what, t.kind))
           AS what,
       CASE WHEN t.forked AND t.kind = 'lock'
            THEN format('{}: the process is a fork; a thread of its parent held the lock then, and '
                        'does not exist here', t.place)
            ELSE format('{}: all {} Python thread(s) of the process wait for one another', t.place,
                        c.python_threads)
                 || CASE WHEN c.idlers = 0 THEN ''
                         ELSE format(', or only sleep: {}', c.idlers) END END AS why,
       format('probing {} backtrace -a -l', t.pid) AS next
FROM closed AS c JOIN threads AS t ON t.host = c.host AND t.pid = c.pid
WHERE t.line IS NOT NULL AND t.kind <> 'thread' AND NOT t.idles
  AND ((c.idlers = 0 AND NOT c.signalled)
       OR (c.stuck_ms > 6000 AND (t.host, t.pid, t.tid) IN (FROM unusual)))
QUALIFY row_number() OVER (PARTITION BY t.host, t.pid ORDER BY t.kind = 'lock' DESC,
                           t.is_main AND t.kind IN ('future', 'event'), t.stuck_ms DESC) = 1
