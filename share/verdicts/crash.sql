-- crash: a process that has crashed in the last ten minutes
-- By the report that it left (python.crashes). Of several with one command line, as the ranks of a
-- job, the first one of the last minute before the newest: the others often follow from it. One that
-- has been started again since is not named.
WITH lately AS (
    SELECT *, max(timestamp) OVER (PARTITION BY host, command) AS newest FROM python.crashes
    WHERE timestamp > now() - INTERVAL 10 MINUTE
)
SELECT 'crash' AS kind, coalesce(signal, exception, c.kind) AS class, 'established' AS confidence,
       format('crash of {}', c.command) AS family, c.rank, c.host, c.pid, c.tid,
       coalesce(own_file, c.file) AS file, coalesce(own_line, lineno) AS line,
       coalesce(own_func, c.func) AS func, 1000 * epoch(now() - timestamp) AS stuck_ms,
       CASE WHEN c.rank IS NULL THEN format('pid {}', c.pid)
            ELSE format('rank {} (pid {})', c.rank, c.pid) END || ' has crashed: ' || cause AS what,
       format('thread {} in {} at {}:{}{}', coalesce(thread, c.tid::VARCHAR), coalesce(c.func, '?'),
              coalesce(regexp_extract(c.file, '[^/]*$'), '?'), coalesce(lineno, 0),
              CASE WHEN step IS NULL THEN '' ELSE format(', step {}', step) END) AS why,
       format('probing crashes {} -a', id) AS next,
       format('SELECT * FROM python.crashes WHERE id = ''{}''', id) AS evidence
FROM lately AS c
WHERE timestamp > newest - INTERVAL 1 MINUTE
  AND NOT EXISTS (FROM system.process AS p WHERE p.host = c.host AND p.command = c.command
                  AND p.rank IS NOT DISTINCT FROM c.rank AND p.start_time > c.timestamp)
QUALIFY row_number() OVER (PARTITION BY c.host, c.command ORDER BY timestamp, id) = 1
