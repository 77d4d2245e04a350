-- loop: code that runs and comes to nothing
-- The thread burns a CPU, and the functions that it is in and their variables are the same few again
-- and again. Its own code has to run itself in some of the samples, with variables that are all
-- shown: what a library computes, or what is in large arrays, does not show in them. Either it stays
-- in the same calls, with the GIL: C code that computes gives it away. Or it also calls functions of
-- its own or asks a library each time (is it done? is there a file?). Or the thread has been at one
-- line of C code with the GIL for long.
SELECT 'hang' AS kind, CASE WHEN same_ms > 8000 THEN 'loop in C' ELSE 'loop' END AS class,
       'supported' AS confidence, family, family_rank AS rank, host, pid, tid, file, line, func,
       greatest(shape_ms, news_ms) AS stuck_ms,
       format('{} runs in {} and comes to nothing', who, place) AS what,
       CASE WHEN same_ms > 8000
            THEN format('at the same line in {} looks, {:.0f} % of a core', looks, cpu_pct)
            ELSE format('{} samples of its variables show {} different state(s), {:.0f} % of a core',
                        samples, states, cpu_pct) END AS why,
       format('probing {} backtrace -l', pid) AS next
FROM threads
WHERE kind = 'running' AND line IS NOT NULL AND looks >= 3 AND cpu_pct > 3
  AND NOT coalesce(collecting_garbage, false)
  AND ((shape_ms > 2800 AND samples >= 15 AND states <= greatest(1, samples // 6)
        AND same_ms < 1500 AND top_file = file AND top_share > 0.1 AND holds_gil)
       OR (news_ms > 3800 AND samples >= 20 AND states <= greatest(1, samples // 6)
           AND same_ms < 1500 AND top_share > 0.1 AND NOT coalesce(trains, false))
       OR (same_ms > 8000 AND holds_gil AND states = 1))
