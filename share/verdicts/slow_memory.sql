-- slow_memory: a training that waits for its memory: pages from swap, or new ones all the time
-- By the node's samples of the last twelve seconds. Faults that read from a disk, hundreds a second,
-- while memory of the machine is in swap; or tens of thousands of new pages a second, for which the
-- kernel needs half of the CPU time. The line is where it was met most.
WITH lately AS (
    SELECT host, pid, count(*) AS n, median(major_faults_s) AS major, median(minor_faults_s) AS minor,
           median(system_pct) AS system_pct, median(cpu_pct) AS cpu_pct
    FROM system.cpu WHERE timestamp > now() - INTERVAL 12 SECOND GROUP BY host, pid
),
machine AS (
    SELECT host, max(swap_used_mb) AS swap_mb FROM system.machine
    WHERE timestamp > now() - INTERVAL 12 SECOND GROUP BY host
)
SELECT 'slow' AS kind, CASE WHEN l.major > 300 THEN 'swap' ELSE 'page faults' END AS class,
       'supported' AS confidence, t.family, t.family_rank AS rank, t.host, t.pid, t.tid,
       coalesce(t.busy_file, t.file) AS file, coalesce(t.busy_line, t.line) AS line,
       coalesce(t.busy_func, t.func) AS func, 0 AS stuck_ms,
       CASE WHEN l.major > 300
            THEN format('{} waits for {:.0f} pages a second from a disk', t.who, l.major)
            ELSE format('{} takes {:.0f} new pages a second from the kernel', t.who, l.minor) END
           AS what,
       CASE WHEN l.major > 300
            THEN format('{:.0f} MB of this machine are in swap', m.swap_mb)
            ELSE format('{:.0f} % of its CPU time is the kernel''s; met most at {} {}:{}',
                        100 * l.system_pct / l.cpu_pct, coalesce(t.busy_func, t.func),
                        regexp_extract(coalesce(t.busy_file, t.file), '[^/]*$'),
                        coalesce(t.busy_line, t.line)) END AS why,
       CASE WHEN l.major > 300 THEN 'use less memory, or a machine with more'
            ELSE 'keep large buffers from step to step in place of new ones' END AS next,
       format('SELECT timestamp, minor_faults_s, major_faults_s, system_pct, cpu_pct FROM system.cpu '
              'WHERE pid = {} ORDER BY timestamp DESC LIMIT 20', t.pid) AS evidence
FROM lately AS l JOIN subjects AS t ON t.host = l.host AND t.pid = l.pid
LEFT JOIN machine AS m ON m.host = l.host
WHERE l.n >= 6 AND t.glances >= 45 AND t.trains AND t.line IS NOT NULL
  AND ((l.major > 300 AND m.swap_mb > 100)
       OR (l.minor > 30000 AND l.system_pct > 0.5 * l.cpu_pct AND l.cpu_pct > 30))
QUALIFY row_number() OVER (PARTITION BY t.family ORDER BY l.major DESC, l.minor DESC, t.pid) = 1
