-- deadlock: threads or processes that wait for each other in a circle
-- Established: each of them waits, has not run for two seconds, and the circle is closed. A lock's
-- owner is what the interpreter says (RLock) or whose `with` holds it. Two that wait for data from
-- each other by TCP are none where the first process of the program did not speak last: it may wait
-- for news. Named first is one that waits in its own code, not in a library.
SELECT 'hang' AS kind, CASE WHEN count(*) = 1 THEN 'self deadlock' ELSE 'deadlock' END AS class,
       CASE WHEN bool_or(inferred) THEN 'supported' ELSE 'established' END AS confidence,
       any_value(family) AS family, arg_min(family_rank, ord) AS rank, host, arg_min(pid, ord) AS pid,
       arg_min(tid, ord) AS tid, arg_min(file, ord) AS file, arg_min(line, ord) AS line,
       arg_min(func, ord) AS func, min(stuck_ms) AS stuck_ms,
       CASE WHEN count(*) = 1
            THEN format('{} waits for a lock that it holds itself', any_value(who))
            ELSE format('{} wait for each other', string_agg(who, ' and ' ORDER BY ord)) END AS what,
       string_agg(format('{} at {} waits for {}', who, place, what), '; ' ORDER BY ord) AS why,
       CASE WHEN count(*) = 1 THEN 'use an RLock, or do not take the lock a second time'
            ELSE 'let all take what they wait for in the same order' END AS next
FROM (SELECT *, CASE WHEN line IS NULL THEN 1000000000
                  WHEN top_file <> file THEN 500000000 ELSE 0 END + tid AS ord
      FROM threads WHERE cycle)
GROUP BY host, circle
HAVING bool_or(line IS NOT NULL) AND min(stuck_ms) > 2000
   AND bool_and(kind NOT IN ('running', 'await', 'poll') AND NOT (timed AND kind = 'sleep'))
   AND NOT coalesce(bool_or(is_main AND pid = top AND NOT asked), false)
