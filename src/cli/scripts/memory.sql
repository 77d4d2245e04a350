-- `probing memory`: what each process holds, by kind, over the last ten minutes that are known.
-- Points are the highest value of each twentieth of the window.
WITH told AS (
    SELECT 1 AS place, 'resident' AS kind, epoch(timestamp) AS t, rss_mb AS mb, pid FROM system.cpu
    UNION ALL SELECT 1, 'resident', epoch(timestamp), rss_mb, pid FROM python.memory
    UNION ALL SELECT 2, 'python objects', epoch(timestamp), python_mb, pid FROM python.memory
    UNION ALL SELECT 3, 'arrays and tensors', epoch(timestamp), heap_mb, pid FROM python.memory
    UNION ALL SELECT 4, 'cuda allocated', epoch(timestamp), cuda_allocated_mb, pid FROM python.memory
    UNION ALL SELECT 5, 'cuda reserved', epoch(timestamp), cuda_reserved_mb, pid FROM python.memory
    UNION ALL SELECT 6 + device, 'gpu ' || device, epoch(timestamp), memory_used_mb, pid
              FROM gpu.process
),
known AS (SELECT * FROM told WHERE mb IS NOT NULL),
edge AS (
    SELECT pid, max(t) AS last, greatest(min(t), max(t) - 600) AS first FROM known GROUP BY pid
),
whole AS (
    SELECT pid, place, kind, max(mb) AS peak, arg_max(mb, t) AS now FROM known GROUP BY ALL
),
recent AS (SELECT known.*, first, last FROM known JOIN edge USING (pid) WHERE t >= first),
-- A trend is told from the later half alone: what a program makes when it starts is none.
-- Memory goes up and down within a step: four times what that would make of a flat line. And it
-- is the same in both parts of that half, or it has just begun or just ended.
line AS (
    SELECT pid, place, regr_slope(mb, t) * 60 AS slope,
           regr_slope(mb, t) FILTER (t < last - (last - first) / 4) * 60 AS before,
           regr_slope(mb, t) FILTER (t >= last - (last - first) / 4) * 60 AS after,
           60 * sqrt(greatest(0, 1 - regr_r2(mb, t)) / greatest(count(*) - 2, 1))
              * stddev_samp(mb) / stddev_samp(t) AS error,
           count(*) AS n
    FROM recent WHERE t >= (first + last) / 2 GROUP BY pid, place
),
trend AS (
    SELECT pid, place, slope AS mb_per_min, error FROM line
    WHERE n > 5 AND abs(slope) >= 4 * error
      AND before / slope BETWEEN 0.4 AND 2.5 AND after / slope BETWEEN 0.4 AND 2.5
),
bucket AS (
    SELECT pid, place,
           least(19, floor((t - first) * 20 / greatest(last - first, 0.001)))::BIGINT AS b,
           max(mb) AS mb
    FROM recent GROUP BY ALL
),
spark AS (
    SELECT pid, place, list(b ORDER BY b) AS slots, list(mb ORDER BY b) AS points
    FROM bucket GROUP BY ALL
),
-- Another process may have the number of one that has ended.
alive AS (
    SELECT pid, epoch(start_time) AS start, command FROM system.process WHERE state <> 'ended'
)
SELECT whole.pid, kind, now, peak, mb_per_min, error, first, last, slots, points, command
FROM whole JOIN edge USING (pid)
LEFT JOIN trend USING (pid, place)
LEFT JOIN spark USING (pid, place)
LEFT JOIN alive ON alive.pid = whole.pid AND start <= first + 1
ORDER BY whole.pid, place
