-- line_times: time by line and minute, out of python.samples; for windows of time
--   timestamp    TIME       the minute
--   thread       NAME       the thread's name
--   tid          INT        thread id
--   func         NAME       function
--   file         NAME       source file; of a C function its library
--   lineno       INT        line
--   phase        NAME       part of the training step
--   module       NAME       module of the model
--   self_ms      REAL  ms   time in the line itself
--   total_ms     REAL  ms   time in the line and what it calls
--   running_ms   REAL  ms   part of self_ms on a processor or ready for one
--   gil_wait_ms  REAL  ms   part of self_ms waiting for the GIL
--   idle_ms      REAL  ms   part of self_ms at rest
--   samples      INT        samples behind self_ms
--   host         NAME       machine
--   pid          INT        process id
--   rank         INT        rank in its job, if it has one
WITH frames AS (
    -- A stack is written anew each day, with the same number.
    SELECT stack_id, func, file, lineno, min(depth) AS depth
    FROM python.stack_frames GROUP BY stack_id, func, file, lineno
),
times AS (
    SELECT host, pid, rank, tid, thread, stack_id, phase, module,
           time_bucket(INTERVAL 1 MINUTE, timestamp) AS timestamp,
           sum(weight_ms) AS ms, sum(samples) AS samples,
           coalesce(sum(weight_ms) FILTER (on_cpu), 0) AS running_ms,
           coalesce(sum(weight_ms) FILTER (waits_gil), 0) AS gil_wait_ms,
           coalesce(sum(weight_ms) FILTER (state = 'idle'), 0) AS idle_ms
    FROM python.samples
    GROUP BY ALL
)
SELECT t.timestamp, t.thread, t.tid, f.func, f.file, f.lineno, t.phase, t.module,
       coalesce(sum(t.ms) FILTER (f.depth = 0), 0) AS self_ms, sum(t.ms) AS total_ms,
       coalesce(sum(t.running_ms) FILTER (f.depth = 0), 0) AS running_ms,
       coalesce(sum(t.gil_wait_ms) FILTER (f.depth = 0), 0) AS gil_wait_ms,
       coalesce(sum(t.idle_ms) FILTER (f.depth = 0), 0) AS idle_ms,
       coalesce(sum(t.samples) FILTER (f.depth = 0), 0)::BIGINT AS samples,
       t.host, t.pid, t.rank
FROM times AS t JOIN frames AS f ON f.stack_id = t.stack_id
GROUP BY ALL
