-- growth_counts: descriptors or threads that only ever become more
-- By the node's samples of the last minute, a second apart: more in each quarter of it, not once
-- fewer, by one every two seconds or faster. The first 15 seconds of a process, and imports, do not
-- count. A process that takes clients is left out: they may just become more. Where: what most of
-- the threads do; for descriptors the container of about so many items that the running code fills.
WITH counts AS (
    SELECT host, pid, timestamp, 'descriptors' AS of_what, descriptors AS n FROM system.cpu
    UNION ALL
    SELECT host, pid, timestamp, 'threads', threads FROM system.cpu
),
points AS (
    SELECT u.host, u.pid, u.of_what, epoch(u.timestamp) AS t, u.n,
           u.n < lag(u.n) OVER (PARTITION BY u.host, u.pid, u.of_what ORDER BY u.timestamp) AS fell,
           ntile(4) OVER (PARTITION BY u.host, u.pid, u.of_what ORDER BY u.timestamp) AS part
    FROM counts AS u JOIN system.process AS p ON p.host = u.host AND p.pid = u.pid
    WHERE u.n IS NOT NULL AND u.timestamp > now() - INTERVAL 1 MINUTE
      AND u.timestamp > p.start_time + INTERVAL 15 SECOND
      AND NOT EXISTS (FROM threads AS i WHERE i.host = u.host AND i.pid = u.pid AND i.is_main
                      AND (u.timestamp < now() - to_milliseconds(i.import_ms::BIGINT)
                           OR u.timestamp < p.start_time + INTERVAL 15 SECOND
                                            + to_milliseconds(i.unserved_ms::BIGINT)))
),
lines AS (
    SELECT host, pid, of_what, max(t) - min(t) AS seconds, regr_slope(n, t) AS slope,
           max(n) - min(n) AS grown, max(n) AS n,
           avg(n) FILTER (part = 1) AS a, avg(n) FILTER (part = 2) AS b,
           avg(n) FILTER (part = 3) AS c, avg(n) FILTER (part = 4) AS d
    FROM points GROUP BY host, pid, of_what
    HAVING count(*) >= 10 AND NOT coalesce(bool_or(fell), false)
),
-- What most threads of a process other than the first are at.
crowds AS (
    SELECT host, pid, file, line, func, count(*) AS n, min(tid) AS tid FROM threads
    WHERE NOT is_main AND line IS NOT NULL GROUP BY host, pid, file, line, func
    QUALIFY row_number() OVER (PARTITION BY host, pid ORDER BY n DESC, line) = 1
)
SELECT 'leak' AS kind, l.of_what || ' grow' AS class, 'supported' AS confidence, t.family,
       t.family_rank AS rank, t.host, t.pid, CASE WHEN w.n IS NULL THEN t.tid ELSE w.tid END AS tid,
       coalesce(w.file, t.work_file, t.busy_file, t.file) AS file,
       coalesce(w.line, t.work_line, t.busy_line, t.line) AS line,
       coalesce(w.func, t.work_func, t.busy_func, t.func) AS func, 1000 * l.seconds AS stuck_ms,
       format('{} of {} grow by {:.1f} a second, to {}', l.of_what, t.who, l.slope, l.n) AS what,
       format('+{} in {:.0f} s, and never fewer', l.grown, l.seconds)
           || CASE WHEN w.n IS NULL THEN format('; met most at {}', t.place)
                   ELSE format('; {} threads are at {} {}:{}', w.n, w.func,
                               regexp_extract(w.file, '[^/]*$'), w.line) END AS why,
       CASE l.of_what WHEN 'threads' THEN format('probing {} backtrace -a', t.pid)
                      ELSE format('ls -l /proc/{}/fd; close what is opened, by `with`', t.pid) END
           AS next,
       format('SELECT timestamp, descriptors, threads FROM system.cpu WHERE pid = {} '
              'ORDER BY timestamp DESC LIMIT 60', t.pid) AS evidence,
       CASE l.of_what WHEN 'descriptors'
            THEN format('SELECT grows_file, grows_line, NULL::VARCHAR, format(''{{}} {{}} has {{}} '
                        'items: {{}}'', type, held_by, items, grows_text) '
                        'FROM python.heap_containers WHERE pid = {} AND grows_line IS NOT NULL '
                        'AND items BETWEEN {} AND {} ORDER BY items DESC LIMIT 1', t.pid,
                        l.grown // 2, l.n + l.n // 2) END AS refine
FROM lines AS l JOIN threads AS t ON t.host = l.host AND t.pid = l.pid AND t.is_main
LEFT JOIN crowds AS w ON w.host = l.host AND w.pid = l.pid AND l.of_what = 'threads'
WHERE l.seconds >= 9 AND l.slope > 0.5 AND l.grown >= 8
  AND l.b - l.a > 0.1 * (l.d - l.a) AND l.c - l.b > 0.1 * (l.d - l.a)
  AND l.d - l.c > 0.1 * (l.d - l.a)
  AND NOT EXISTS (FROM threads AS s WHERE s.host = l.host AND s.pid = l.pid
                  AND (s.kind = 'listen' OR (s.kind = 'poll' AND s.outside)))
QUALIFY row_number() OVER (PARTITION BY l.host, l.pid ORDER BY l.of_what = 'threads' DESC) = 1
