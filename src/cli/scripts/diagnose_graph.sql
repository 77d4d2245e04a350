-- Who waits for whom.
SELECT pid, tid, CASE WHEN rank IS NULL THEN format('{}', pid) ELSE format('rank {} ({})', rank, pid)
                 END || CASE WHEN is_main THEN '' ELSE format(' {}', thread) END AS who,
       kind, what, on_pid, on_tid, cycle,
       CASE WHEN line IS NULL THEN coalesce(top_func, '')
            ELSE format('{} {}:{}', func, regexp_extract(file, '[^/]*$'), line) END AS place
FROM python.waits
WHERE on_pid IS NOT NULL OR line IS NOT NULL OR kind = 'stopped'
ORDER BY pid, tid
