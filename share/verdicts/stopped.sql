-- stopped: a process that is stopped by a signal, or sits in a debugger
-- Established by the kernel's own state; somebody else's wait for it is only the effect.
SELECT 'hang' AS kind, CASE kind WHEN 'stopped' THEN 'stopped' ELSE 'debugger' END AS class,
       'established' AS confidence, family, family_rank AS rank, host, pid, tid, file, line, func,
       stuck_ms,
       format('{} {}', who, CASE kind WHEN 'stopped' THEN 'is stopped' ELSE 'sits in a debugger' END)
           AS what,
       format('it waits for {}', what) AS why,
       CASE kind WHEN 'stopped' THEN format('kill -CONT {}', pid)
                 ELSE format('answer the prompt, or remove the breakpoint at {}', place) END AS next, NULL::VARCHAR AS evidence,
       NULL::VARCHAR AS refine
FROM threads
WHERE kind IN ('stopped', 'debugger') AND is_main AND stuck_ms > 1500
