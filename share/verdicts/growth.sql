-- growth: memory that grows all the time, resident or on a GPU
-- By the node's own samples, a second apart, of memory without files: it grows in each quarter of the
-- window, along a line, by more than a megabyte a second, or for ten minutes by more than a megabyte
-- a minute. The first 15 seconds of a process do not count, nor as many more as it had no CPU, and none
-- before an import that was seen: every program grows while it loads code. Who holds it: the largest
-- containers of the program (python.heap_containers).
WITH used AS (
    SELECT host, pid, timestamp, 'memory' AS of_what, coalesce(anon_mb, rss_mb) AS used_mb
    FROM system.cpu
    UNION ALL
    SELECT host, pid, timestamp, format('memory on GPU {}', device), memory_used_mb
    FROM gpu.process
),
points AS (
    SELECT u.host, u.pid, u.of_what, epoch(u.timestamp) AS t, u.used_mb
    FROM used AS u JOIN system.process AS p ON p.host = u.host AND p.pid = u.pid
    WHERE u.used_mb IS NOT NULL AND u.timestamp > now() - INTERVAL 10 MINUTE
      AND u.timestamp > p.start_time + INTERVAL 15 SECOND
      AND NOT EXISTS (FROM threads AS i WHERE i.host = u.host AND i.pid = u.pid AND i.is_main
                      AND (u.timestamp < now() - to_milliseconds(i.import_ms::BIGINT)
                           OR u.timestamp < p.start_time + INTERVAL 15 SECOND
                                            + to_milliseconds(i.unserved_ms::BIGINT)))
),
quarters AS (
    SELECT *, ntile(4) OVER (PARTITION BY host, pid, of_what ORDER BY t) AS part FROM points
),
lines AS (
    SELECT host, pid, of_what, count(*) AS n, max(t) - min(t) AS seconds,
           regr_slope(used_mb, t) AS slope, regr_r2(used_mb, t) AS r2,
           max(used_mb) - min(used_mb) AS grown, max(used_mb) AS used,
           avg(used_mb) FILTER (part = 1) AS a, avg(used_mb) FILTER (part = 2) AS b,
           avg(used_mb) FILTER (part = 3) AS c, avg(used_mb) FILTER (part = 4) AS d
    FROM quarters GROUP BY host, pid, of_what
)
SELECT 'leak' AS kind, 'memory grows' AS class, 'supported' AS confidence, t.family, t.family_rank
       AS rank, t.host, t.pid, t.tid, coalesce(t.work_file, t.busy_file, t.file) AS file,
       coalesce(t.work_line, t.busy_line, t.line) AS line,
       coalesce(t.work_func, t.busy_func, t.func) AS func,
       1000 * l.seconds AS stuck_ms,
       format('{} of {} grows by {:.1f} MB a second, to {:.0f} MB', l.of_what, t.who, l.slope,
              l.used) AS what,
       format('+{:.0f} MB in {:.0f} s, in each quarter of it; met at work most at {} {}:{}', l.grown, l.seconds,
              coalesce(t.work_func, t.func), regexp_extract(coalesce(t.work_file, t.file), '[^/]*$'),
              coalesce(t.work_line, t.line)) AS why,
       format('probing {} memory --heap -w 5', t.pid) AS next,
       format('SELECT type, items, bytes, held_by FROM python.heap_containers WHERE pid = {} '
              'ORDER BY bytes DESC LIMIT 10', t.pid) AS evidence,
       format('SELECT grows_file, grows_line, NULL::VARCHAR, format(''{{}} {{}} has {{}} items: {{}}'', type, '
              'held_by, items, grows_text) FROM python.heap_containers WHERE pid = {} AND '
              'grows_line IS NOT NULL ORDER BY items DESC LIMIT 1', t.pid) AS refine
FROM lines AS l JOIN threads AS t ON t.host = l.host AND t.pid = l.pid AND t.is_main
WHERE l.n >= 8 AND l.seconds >= 8 AND l.r2 > 0.93 AND l.b - l.a > 0.15 * (l.d - l.a)
  AND l.c - l.b > 0.15 * (l.d - l.a) AND l.d - l.c > 0.15 * (l.d - l.a)
  AND (l.slope > 1 OR (l.seconds > 300 AND l.slope > 1.0 / 60)) AND l.grown > 10
