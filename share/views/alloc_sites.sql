-- alloc_sites: which stacks hold memory now, by sampled allocations (memory.sites), most first
--   func          NAME         innermost Python function
--   file          NAME         source file of func
--   lineno        INT          line of func
--   live_mb       REAL  MB     memory that was allocated there and is not freed
--   error_mb      REAL  MB     standard error of live_mb
--   growth_mb     REAL  MB     growth of live_mb since the first row of the last ten minutes
--   live_blocks   INT          blocks that were allocated there and are not freed
--   alloc_mb      REAL  MB     all memory that was allocated there since sampling began
--   since         TIME         when sampling began
--   timestamp     TIME         when these numbers were taken
--   stack_id      INT          the stack: python.alloc_frames has its frames
--   host          NAME         machine
--   pid           INT          process id
--   rank          INT          rank in its job, if it has one
WITH latest AS (
    SELECT host, pid, max(since) AS since, max(timestamp) AS until
    FROM python.alloc GROUP BY host, pid
),
rows AS (
    SELECT a.* FROM python.alloc AS a JOIN latest AS l
        ON a.host = l.host AND a.pid = l.pid AND a.since = l.since
    -- A stack has a row every ten minutes, whatever happens.
    WHERE a.timestamp > l.until - INTERVAL 21 MINUTE
),
now AS (
    SELECT *, row_number() OVER (PARTITION BY host, pid, stack_id ORDER BY timestamp DESC) AS n
    FROM rows
),
before AS (
    SELECT r.host, r.pid, r.stack_id, arg_min(r.live_bytes, r.timestamp) AS live_bytes
    FROM rows AS r JOIN latest AS l ON r.host = l.host AND r.pid = l.pid
    WHERE r.timestamp > l.until - INTERVAL 10 MINUTE
    GROUP BY r.host, r.pid, r.stack_id
)
SELECT func, file, lineno, now.live_bytes / 1048576 AS live_mb, live_error / 1048576 AS error_mb,
       (now.live_bytes - coalesce(before.live_bytes, now.live_bytes)) / 1048576 AS growth_mb,
       live_blocks::BIGINT AS live_blocks, alloc_bytes / 1048576 AS alloc_mb, since, timestamp,
       now.stack_id, now.host, now.pid, rank
FROM now LEFT JOIN before
    ON now.host = before.host AND now.pid = before.pid AND now.stack_id = before.stack_id
WHERE n = 1
ORDER BY live_mb DESC
