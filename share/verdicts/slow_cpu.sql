-- slow_cpu: a process that is ready to run much of the time, and has no CPU
-- Two causes, each with its own evidence. Its control group holds it back for a third of the time or
-- more. Or its main thread waits for a processor for that long, and may use fewer of them than the
-- machine has; or may use all, and waits most of the time while others than its own job take most of
-- a machine that has nothing left. Ranks that merely crowd each other out are none, nor is a process
-- that does not go on.
WITH lately AS (
    SELECT *, now() - INTERVAL 12 SECOND AS since FROM system.thread
    WHERE timestamp > now() - INTERVAL 12 SECOND
),
waited AS (
    SELECT host, pid, count(*) AS n, epoch(max(timestamp) - min(timestamp)) AS seconds,
           sum(wait_ms) - arg_min(wait_ms, timestamp) AS wait_ms
    FROM lately WHERE tid = pid GROUP BY host, pid
),
machine AS (
    SELECT host, any_value(cpus) AS cpus, avg(cpu_pct) AS busy_pct FROM system.machine
    WHERE timestamp > now() - INTERVAL 12 SECOND GROUP BY host
),
used AS (
    SELECT t.host, t.family, sum(u.cpu_pct) AS cpu_pct
    FROM (SELECT DISTINCT host, family, pid FROM threads) AS t
    JOIN (SELECT host, pid, avg(cpu_pct) AS cpu_pct FROM system.cpu
          WHERE timestamp > now() - INTERVAL 12 SECOND GROUP BY host, pid) AS u
      ON u.host = t.host AND u.pid = t.pid
    GROUP BY t.host, t.family
),
held AS (
    SELECT host, pid, any_value(cpu_limit) AS cpu_limit, sum(throttled_ms) AS throttled_ms,
           count(*) AS n, epoch(max(timestamp) - min(timestamp)) AS seconds
    FROM system.cgroup
    WHERE timestamp > now() - INTERVAL 12 SECOND AND throttled_ms IS NOT NULL GROUP BY host, pid
),
causes AS (
    SELECT t.host, t.pid, 'CPU limit of its group' AS class,
           h.throttled_ms / 10 / h.seconds AS share,
           format('its control group may use {:.2g} CPUs and was held back {:.0f} ms a second',
                  coalesce(h.cpu_limit, 0), h.throttled_ms / h.seconds) AS why,
           'raise the limit of the container (cpu.max, resources.limits.cpu), or use fewer threads'
               AS next
    FROM subjects AS t JOIN held AS h ON h.host = t.host AND h.pid = t.pid
    WHERE h.n >= 6 AND h.seconds >= 5 AND h.throttled_ms > 330 * h.seconds AND t.glances >= 45
    UNION ALL
    SELECT t.host, t.pid,
           CASE WHEN t.cpus < m.cpus THEN 'too few processors' ELSE 'neighbour on the CPU' END,
           w.wait_ms / 10 / w.seconds,
           format('ready without a CPU {:.0f} ms a second; it may use {} of {} processors',
                  w.wait_ms / w.seconds, t.cpus, m.cpus)
               || CASE WHEN t.cpus < m.cpus THEN ''
                       ELSE format(', others take {:.0f} % of the machine',
                                   m.busy_pct - u.cpu_pct / m.cpus) END,
           CASE WHEN t.cpus < m.cpus
                THEN format('taskset -p {}: let it use more processors, or others of them', t.pid)
                ELSE 'see who it is: top; move one of them to another machine' END
    FROM subjects AS t JOIN waited AS w ON w.host = t.host AND w.pid = t.pid
    JOIN machine AS m ON m.host = t.host
    LEFT JOIN used AS u ON u.host = t.host AND u.family = t.family
    WHERE w.n >= 6 AND w.seconds >= 5 AND w.wait_ms > 350 * w.seconds AND t.glances >= 45
      AND (t.cpus < m.cpus
           OR (m.busy_pct > 95 AND (t.trains OR t.rank IS NOT NULL) AND w.wait_ms > 700 * w.seconds
               AND m.busy_pct - u.cpu_pct / m.cpus > 60))
)
SELECT 'slow' AS kind, c.class, 'supported' AS confidence, t.family, t.family_rank AS rank, t.host,
       t.pid, t.tid, coalesce(t.busy_file, t.file) AS file, coalesce(t.busy_line, t.line) AS line,
       coalesce(t.busy_func, t.func) AS func, 0 AS stuck_ms,
       format('{} has no CPU {:.0f} % of the time', t.who, least(c.share, 100)) AS what, c.why,
       c.next,
       format('SELECT timestamp, cpu_pct, wait_ms FROM system.thread WHERE pid = {} AND tid = {} '
              'ORDER BY timestamp DESC LIMIT 20', t.pid, t.pid) AS evidence
FROM causes AS c JOIN subjects AS t ON t.host = c.host AND t.pid = c.pid
QUALIFY row_number() OVER (PARTITION BY t.family ORDER BY c.class = 'CPU limit of its group' DESC,
                           c.share DESC, t.pid) = 1
