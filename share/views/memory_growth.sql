-- memory_growth: memory in tensors that grows from step to step, and which modules' calls leave it
--   module             NAME       dotted name of the module; NULL: not to be told by module
--   module_type        NAME       class of the module
--   mb_per_step        REAL  MB   what the module's calls of one step leave allocated for good
--   own_mb             REAL  MB   what the module's calls leave allocated, without modules inside
--   total_mb_per_step  REAL  MB   growth of the whole process from one step to the next
--   error_mb           REAL  MB   standard error of total_mb_per_step
--   growth_mb          REAL  MB   growth of the process over these steps
--   last_mb            REAL  MB   memory in tensors at the end of the last step
--   steps              INT        steps that were looked at: the last thousand that were traced
--   host               NAME       machine
--   pid                INT        process id
--   rank               INT        rank in its job, if it has one
WITH steps AS (
    SELECT host, pid, any_value(rank) AS rank, step, min(allocated) AS mb
    FROM python.torch_trace WHERE allocated IS NOT NULL
    GROUP BY host, pid, step
    -- The first steps make what stays: buffers, gradients, state of the optimizer.
    QUALIFY step > min(step) OVER (PARTITION BY host, pid) + 2
        AND row_number() OVER (PARTITION BY host, pid ORDER BY step DESC) <= 1000
),
quarters AS (
    SELECT *, ntile(4) OVER (PARTITION BY host, pid ORDER BY step) AS part FROM steps
),
process AS (
    SELECT host, pid, any_value(rank) AS rank, count(*) AS steps, regr_slope(mb, step) AS slope,
           sqrt(greatest(0, 1 - regr_r2(mb, step)) / (count(*) - 2)) * stddev_samp(mb) /
               stddev_samp(step) AS error,
           arg_max(mb, step) - arg_min(mb, step) AS growth, arg_max(mb, step) AS last,
           avg(mb) FILTER (part = 1) AS a, avg(mb) FILTER (part = 2) AS b,
           avg(mb) FILTER (part = 3) AS c, avg(mb) FILTER (part = 4) AS d
    FROM quarters GROUP BY host, pid HAVING count(*) >= 8
),
-- It grew all the time, not at one moment, and by more than rounding.
growing AS (
    SELECT * FROM process
    WHERE slope > 4 * error AND d - a > 0.05 AND b - a > 0.1 * (d - a) AND
          c - b > 0.1 * (d - a) AND d - c > 0.1 * (d - a)
),
calls AS (
    SELECT t.host, t.pid, t.step, t.seq, t.module, t.module_type, t.allocated_delta AS delta,
           t.timestamp AS began,
           t.timestamp + to_microseconds((1000 * t.duration_ms)::BIGINT) AS ended
    FROM python.torch_trace AS t JOIN growing AS g ON t.host = g.host AND t.pid = g.pid
    WHERE t.stage = 'forward' AND t.allocated_delta IS NOT NULL
    QUALIFY dense_rank() OVER (PARTITION BY t.host, t.pid ORDER BY t.step DESC) BETWEEN 2 AND 17
),
-- Rows are written when a call ends: what is inside comes before, and began after.
inside AS (
    SELECT o.host, o.pid, o.step, o.seq AS outer_seq, i.delta
    FROM calls AS o
    JOIN calls AS i ON i.host = o.host AND i.pid = o.pid AND i.step = o.step AND i.seq < o.seq
                       AND i.began >= o.began AND i.ended <= o.ended + INTERVAL 1 MICROSECOND
    QUALIFY row_number() OVER (PARTITION BY i.host, i.pid, i.step, i.seq ORDER BY o.seq) = 1
),
own AS (
    SELECT host, pid, module, module_type, sum(own) / count(DISTINCT step) AS own_mb
    FROM (SELECT c.host, c.pid, c.module, c.module_type, c.step,
                 any_value(c.delta) - coalesce(sum(i.delta), 0) AS own
          FROM calls AS c
          LEFT JOIN inside AS i ON i.host = c.host AND i.pid = c.pid AND i.step = c.step
                                   AND i.outer_seq = c.seq
          GROUP BY c.host, c.pid, c.module, c.module_type, c.step, c.seq)
    GROUP BY host, pid, module, module_type
),
-- What forward leaves is mostly freed again, by backward or by the loop. Only where all of it stays
-- is it known whose it is.
sums AS (
    SELECT o.host, o.pid, sum(greatest(o.own_mb, 0)) AS left_mb,
           sum(greatest(o.own_mb, 0)) <= 1.25 * any_value(g.slope) AS all_stays
    FROM own AS o JOIN growing AS g ON o.host = g.host AND o.pid = g.pid
    GROUP BY o.host, o.pid
)
SELECT o.module, o.module_type,
       CASE WHEN o.module IS NULL THEN g.slope - CASE WHEN s.all_stays THEN s.left_mb ELSE 0 END
            ELSE o.own_mb END AS mb_per_step,
       o.own_mb, g.slope AS total_mb_per_step, g.error AS error_mb, g.growth AS growth_mb,
       g.last AS last_mb, g.steps, g.host, g.pid, g.rank
FROM growing AS g
LEFT JOIN sums AS s ON s.host = g.host AND s.pid = g.pid
JOIN (SELECT host, pid, module, module_type, own_mb FROM own
      UNION ALL SELECT host, pid, NULL, NULL, NULL FROM growing) AS o
  ON o.host = g.host AND o.pid = g.pid
WHERE CASE WHEN o.module IS NULL THEN NOT coalesce(s.all_stays, false)
                                      OR g.slope - s.left_mb > 0.1 * g.slope
           ELSE s.all_stays AND o.own_mb > 0.01 * g.slope END
ORDER BY mb_per_step DESC
