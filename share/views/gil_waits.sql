-- gil_waits: who waits for the GIL, and who has it: the last ten minutes of each process's samples
--   thread       NAME       the thread's name
--   tid          INT        thread id
--   wait_pct     REAL  %    share of the thread's time that it waited for the GIL
--   hold_pct     REAL  %    share of the thread's time that it had the GIL
--   wait_ms      REAL  ms   waiting for the GIL
--   hold_ms      REAL  ms   having the GIL
--   run_ms       REAL  ms   on a processor or ready for one, with or without the GIL
--   waits_in     NAME       function where it waited for the GIL most
--   waits_line   INT        line of waits_in
--   waits_file   NAME       source file of waits_in
--   holds_in     NAME       function where it had the GIL most
--   holds_line   INT        line of holds_in
--   holds_file   NAME       source file of holds_in
--   host         NAME       machine
--   pid          INT        process id
--   rank         INT        rank in its job, if it has one
WITH latest AS (
    SELECT host, pid, max(timestamp) AS until FROM python.samples GROUP BY host, pid
),
recent AS (
    SELECT s.*
    FROM python.samples AS s JOIN latest AS l ON s.host = l.host AND s.pid = l.pid
    WHERE s.timestamp > l.until - INTERVAL 10 MINUTE
),
times AS (
    SELECT host, pid, rank, tid, any_value(thread) AS thread, stack_id, sum(weight_ms) AS ms,
           coalesce(sum(weight_ms) FILTER (on_cpu), 0) AS run_ms,
           coalesce(sum(weight_ms) FILTER (waits_gil), 0) AS wait_ms,
           coalesce(sum(weight_ms) FILTER (holds_gil), 0) AS hold_ms
    FROM recent GROUP BY host, pid, rank, tid, stack_id
),
innermost AS (
    SELECT stack_id, any_value(func) AS func, any_value(lineno) AS lineno, any_value(file) AS file
    FROM python.stack_frames WHERE depth = 0 AND stack_id IN (SELECT stack_id FROM times)
    GROUP BY stack_id
)
SELECT any_value(t.thread) AS thread, t.tid, 100 * sum(t.wait_ms) / sum(t.ms) AS wait_pct,
       100 * sum(t.hold_ms) / sum(t.ms) AS hold_pct, sum(t.wait_ms) AS wait_ms,
       sum(t.hold_ms) AS hold_ms, sum(t.run_ms) AS run_ms,
       arg_max(f.func, t.wait_ms) FILTER (t.wait_ms > 0) AS waits_in,
       arg_max(f.lineno, t.wait_ms) FILTER (t.wait_ms > 0) AS waits_line,
       arg_max(f.file, t.wait_ms) FILTER (t.wait_ms > 0) AS waits_file,
       arg_max(f.func, t.hold_ms) FILTER (t.hold_ms > 0) AS holds_in,
       arg_max(f.lineno, t.hold_ms) FILTER (t.hold_ms > 0) AS holds_line,
       arg_max(f.file, t.hold_ms) FILTER (t.hold_ms > 0) AS holds_file,
       t.host, t.pid, t.rank
FROM times AS t LEFT JOIN innermost AS f ON f.stack_id = t.stack_id
GROUP BY t.host, t.pid, t.rank, t.tid
HAVING sum(t.wait_ms) > 0 OR sum(t.hold_ms) > 0
ORDER BY wait_ms DESC, hold_ms DESC
