-- verdicts: what is wrong: one row for each cause, of two looks or more; ask again after a second
--   kind        NAME       hang, slow, leak, crash or values
--   class       NAME       what of that kind
--   confidence  NAME       established, supported or possible
--   ranks       TEXT       ranks to blame, commas between; empty for a process without one
--   pid         INT        process to blame
--   tid         INT        thread to blame
--   file        NAME       file of the innermost line of the program's own code to blame
--   line        INT        number of that line
--   func        NAME       function that the line is in
--   since       TIME       since when nothing moves
--   what        TEXT       what is wrong
--   why         TEXT       how that is known
--   next        TEXT       what to do
--   victims     TEXT       who only waits for it, semicolons between
--   rule        NAME       file of share/verdicts that says so
--   evidence    TEXT       SQL that shows what it stands on
--   refine      TEXT       SQL for that process alone that tells file, line, function and why better
--   host        NAME       machine
SELECT kind, class, confidence,
       coalesce(rank::VARCHAR, '') AS ranks, pid, tid, file, line,
       func, now() - to_milliseconds(stuck_ms::BIGINT) AS since, what, why, next,
       coalesce(array_to_string(list_transform(list_filter(v.list, lambda x: x.pid <> r.pid),
                                               lambda x: x.who), '; '), '') AS victims,
       rule,
       coalesce(evidence, format('SELECT rank, pid, tid, thread, kind, what, on_pid, on_tid, func, '
           'file, line, round(stalled_ms) AS stalled_ms, round(same_ms) AS same_ms, cpu_pct '
           'FROM python.waits WHERE pid IN ({}) ORDER BY pid, tid', v.pids)) AS evidence,
       refine, r.host
FROM found AS r
LEFT JOIN (SELECT host, family, string_agg(DISTINCT pid::VARCHAR, ', ') AS pids,
                  list({'pid': pid, 'who': who} ORDER BY pid)
                      FILTER (is_main AND kind <> 'running' AND stuck_ms > 2000) AS list
           FROM threads GROUP BY host, family) AS v
  ON v.host = r.host AND v.family = r.family
QUALIFY rank() OVER (PARTITION BY kind, r.family ORDER BY precedence) = 1
ORDER BY precedence, pid
