-- hung_collectives: operations between ranks that do not end, with who waits and who is not there
--   problem      NAME       missing: this rank has not come; waiting: it is in the operation
--   rank         INT        rank in its job
--   op           NAME       the operation that does not end; unknown if it began before the agent
--   group_name   NAME       process group
--   seq          INT        number of the operation in its group
--   last_seq     INT        number of the last operation that this rank has begun
--   waiting_s    REAL  s    how long the first rank has been waiting, by torch's own notes if earlier
--   func         NAME       innermost function that is neither Python's nor of an installed package
--   lineno       INT        line of func
--   file         NAME       source file of func
--   worker       INT        process of the rank's data loader that it waits for
--   worker_func  NAME       innermost function of the worker's own code
--   worker_line  INT        line of worker_func
--   worker_file  NAME       source file of worker_func
--   job          NAME       job that the ranks belong to: its master's address
--   host         NAME       machine
--   pid          INT        process id
WITH alive AS (
    SELECT host, pid, rank FROM system.process WHERE attached
),
-- Where each rank has come to in each group.
latest AS (
    SELECT c.host, c.pid, coalesce(c.rank, a.rank) AS rank, c.job, c.group_name, c.seq, c.op,
           c.state, c.timestamp
    FROM python.comm AS c JOIN alive AS a ON c.host = a.host AND c.pid = a.pid
    WHERE c.seq IS NOT NULL AND (c.op IS NULL OR c.op NOT IN ('send', 'recv'))
    QUALIFY row_number() OVER (PARTITION BY c.host, c.pid, c.group_name
                               ORDER BY c.seq DESC, c.state = 'seen', c.timestamp DESC,
                                        c.state IN ('started', 'enqueued')) = 1
),
front AS (
    SELECT job, group_name, max(seq) AS seq, min(seq) AS slowest
    FROM latest GROUP BY job, group_name
),
-- Torch's own notes: they were there before the agent.
recorded AS (
    SELECT host, pid, group_name, group_desc, seq, min(timestamp) AS since,
           any_value(regexp_replace(op, '^.*:', '')) AS op
    FROM python.flight_recorder WHERE state <> 'completed' AND seq > 0
    GROUP BY ALL
),
-- Who is at the front: since when, and in what.
waiting AS (
    SELECT f.job, f.group_name, f.seq, coalesce(any_value(l.op), any_value(n.op)) AS op,
           least(min(l.timestamp), min(n.since)) AS since
    FROM front AS f JOIN latest AS l
      ON l.job IS NOT DISTINCT FROM f.job AND l.group_name = f.group_name AND l.seq = f.seq
    LEFT JOIN recorded AS n
      ON n.host = l.host AND n.pid = l.pid AND n.seq = l.seq
         AND l.group_name IN (n.group_name, n.group_desc)
    WHERE l.state = 'started' OR (l.state IN ('enqueued', 'seen') AND f.slowest < f.seq)
    GROUP BY f.job, f.group_name, f.seq
),
hung AS (
    SELECT CASE WHEN l.seq < w.seq THEN 'missing' ELSE 'waiting' END AS problem, l.rank, w.op,
           w.group_name, w.seq, l.seq AS last_seq,
           epoch(now() - w.since) AS waiting_s, w.job, l.host, l.pid
    FROM waiting AS w JOIN latest AS l
      ON l.job IS NOT DISTINCT FROM w.job AND l.group_name = w.group_name
    WHERE epoch(now() - w.since) > 3
      AND (l.seq < w.seq OR l.state IN ('started', 'enqueued', 'seen'))
    UNION ALL
    SELECT 'waiting', coalesce(c.rank, a.rank), c.op, c.group_name, c.seq, c.seq,
           epoch(now() - c.timestamp), c.job, c.host, c.pid
    FROM python.comm AS c JOIN alive AS a ON c.host = a.host AND c.pid = a.pid
    WHERE c.op IN ('send', 'recv') AND epoch(now() - c.timestamp) > 3
    GROUP BY a.rank, c.rank, c.op, c.group_name, c.seq, c.timestamp, c.job, c.host, c.pid
    HAVING bool_and(c.state = 'started')
),
-- A script stands neither among Python's own files nor among installed packages.
frames AS (
    SELECT host, pid, depth, func, lineno, file,
           depth + CASE WHEN regexp_matches(file, '/(site|dist)-packages/|/lib/python[0-9.]+t?/')
                             OR regexp_matches(file, '/torch/(_[a-z]|autograd/|cuda/|distributed/|'
                                'fx/|jit/|multiprocessing/|nn/|optim/|utils/)')
                             OR file LIKE '<frozen %'
                        THEN 100000 ELSE 0 END AS distance
    FROM python.backtrace WHERE frame_type = 'python'
),
place AS (
    SELECT host, pid, arg_min(func, distance) AS func, arg_min(lineno, distance) AS lineno,
           arg_min(file, distance) AS file,
           bool_or(file LIKE '%/torch/utils/data/dataloader.py') AS loads,
           bool_or(file LIKE '%/torch/utils/data/_utils/fetch.py') AS fetches,
           min(distance) < 100000 AS own
    FROM frames GROUP BY host, pid
),
-- The worker that is at work on a batch, or stopped, where its parent waits for one.
worker AS (
    SELECT c.host, c.ppid AS pid, min(c.pid) AS worker,
           arg_min(CASE WHEN w.own THEN w.func END, c.pid) AS func,
           arg_min(CASE WHEN w.own THEN w.lineno END, c.pid) AS lineno,
           arg_min(CASE WHEN w.own THEN w.file END, c.pid) AS file
    FROM system.process AS c
    JOIN place AS p ON p.host = c.host AND p.pid = c.ppid AND p.loads
    LEFT JOIN place AS w ON w.host = c.host AND w.pid = c.pid
    WHERE w.fetches OR c.state = 'stopped'
    GROUP BY c.host, c.ppid
)
SELECT h.problem, h.rank, h.op, h.group_name, h.seq, h.last_seq, h.waiting_s,
       p.func, p.lineno, p.file, w.worker, w.func AS worker_func, w.lineno AS worker_line,
       w.file AS worker_file, h.job, h.host, h.pid
FROM hung AS h LEFT JOIN place AS p ON p.host = h.host AND p.pid = h.pid
LEFT JOIN worker AS w ON w.host = h.host AND w.pid = h.pid
ORDER BY h.problem, h.rank
