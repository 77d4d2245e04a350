-- memory_growth: memory that grows from step to step, by module
--   module             NAME       dotted name of the module
--   module_type        NAME       its class
--   mb_per_step        REAL  MB   its part of the growth: own_mb, as far as the process grows
--   own_mb             REAL  MB   what its calls of one step leave allocated, without modules inside
--   total_mb_per_step  REAL  MB   growth of the whole process from one step to the next
--   growth_mb          REAL  MB   growth at its calls from the first traced step to the last
--   last_mb            REAL  MB   allocated at its last call
--   steps              INT        steps that were traced
--   host               NAME       machine
--   pid                INT        process id
--   rank               INT        rank in its job, if it has one
WITH calls AS (
    SELECT host, pid, rank, step, seq, module, module_type, allocated, allocated_delta AS delta,
           timestamp AS began, timestamp + to_microseconds((1000 * duration_ms)::BIGINT) AS ended
    FROM python.torch_trace
    WHERE stage = 'forward' AND allocated IS NOT NULL
    -- The first steps make what stays: buffers, gradients, state of the optimizer.
    QUALIFY step > min(step) OVER (PARTITION BY host, pid) + 2
),
-- Memory is looked at around each call in one step of sixteen or fewer: the last of these.
weighed AS (
    SELECT * FROM calls WHERE delta IS NOT NULL
    QUALIFY dense_rank() OVER (PARTITION BY host, pid ORDER BY step DESC) <= 16
),
-- Rows are written when a call ends: what is inside comes before, and began after.
inside AS (
    SELECT o.host, o.pid, o.step, o.seq AS outer_seq, i.seq, i.delta
    FROM weighed AS o
    JOIN weighed AS i ON i.host = o.host AND i.pid = o.pid AND i.step = o.step AND i.seq < o.seq
                         AND i.began >= o.began AND i.ended <= o.ended + INTERVAL 1 MICROSECOND
    QUALIFY row_number() OVER (PARTITION BY i.host, i.pid, i.step, i.seq ORDER BY o.seq) = 1
),
own AS (
    SELECT host, pid, module, module_type, sum(own) / count(DISTINCT step) AS own_mb
    FROM (SELECT w.host, w.pid, w.module, w.module_type, w.step,
                 any_value(w.delta) - coalesce(sum(i.delta), 0) AS own
          FROM weighed AS w
          LEFT JOIN inside AS i ON i.host = w.host AND i.pid = w.pid AND i.step = w.step
                                   AND i.outer_seq = w.seq
          GROUP BY w.host, w.pid, w.module, w.module_type, w.step, w.seq)
    GROUP BY host, pid, module, module_type
),
process AS (
    SELECT s.host, s.pid, regr_slope(s.mb, s.step) AS mb_per_step,
           any_value(o.mb) AS own_mb -- of all modules
    FROM (SELECT host, pid, step, min(allocated) AS mb FROM calls GROUP BY host, pid, step) AS s
    LEFT JOIN (SELECT host, pid, sum(greatest(own_mb, 0)) AS mb FROM own GROUP BY host, pid) AS o
        ON o.host = s.host AND o.pid = s.pid
    GROUP BY s.host, s.pid
)
SELECT c.module, c.module_type,
       CASE WHEN any_value(o.own_mb) > 0
            THEN any_value(o.own_mb) * least(1, greatest(p.mb_per_step, 0) / p.own_mb)
            ELSE 0 * any_value(o.own_mb) END AS mb_per_step,
       any_value(o.own_mb) AS own_mb, p.mb_per_step AS total_mb_per_step,
       arg_max(c.allocated, c.step) - arg_min(c.allocated, c.step) AS growth_mb,
       arg_max(c.allocated, c.step) AS last_mb, count(DISTINCT c.step) AS steps, c.host, c.pid,
       c.rank
FROM calls AS c
JOIN process AS p ON p.host = c.host AND p.pid = c.pid
LEFT JOIN own AS o ON o.host = c.host AND o.pid = c.pid AND o.module = c.module
                      AND o.module_type = c.module_type
GROUP BY c.module, c.module_type, c.host, c.pid, c.rank, p.mb_per_step, p.own_mb
HAVING count(DISTINCT c.step) > 2
ORDER BY mb_per_step DESC NULLS LAST, own_mb DESC NULLS LAST
