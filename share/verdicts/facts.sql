-- What all rules stand on: one look at python.waits, with whom each thread belongs to.
--   threads     every Python thread, its root as root_…; stuck_ms: how long it has not moved;
--               moving: it is at work; who, place: in words
--   subjects    threads that a program's progress hangs on: the main thread of each process that no
--               other process of the look has started
now_waits AS MATERIALIZED (
    SELECT * FROM python.waits
),
parents AS (
    SELECT DISTINCT host, pid, ppid, job, rank FROM now_waits
),
-- The process at the top: ranks of a job are a family, and so is a process with what it started.
families AS (
    SELECT p.host, p.pid, coalesce(d.pid, c.pid, b.pid, p.pid) AS top,
           coalesce(p.job, b.job, c.job, d.job, coalesce(d.pid, c.pid, b.pid, p.pid)::VARCHAR)
               AS family,
           coalesce(p.rank, b.rank, c.rank, d.rank) AS family_rank
    FROM parents AS p
    LEFT JOIN parents AS b ON b.host = p.host AND b.pid = p.ppid
    LEFT JOIN parents AS c ON c.host = b.host AND c.pid = b.ppid
    LEFT JOIN parents AS d ON d.host = c.host AND d.pid = c.ppid
),
threads AS MATERIALIZED (
    SELECT w.*, f.top, f.family, f.family_rank,
           CASE WHEN w.kind = 'running' THEN 0 ELSE greatest(w.stalled_ms, w.same_ms) END
               AS stuck_ms,
           w.kind = 'running' AND NOT (w.looks > 2 AND w.shape_ms > 2500) AS moving,
           CASE WHEN w.rank IS NOT NULL THEN format('rank {} (pid {})', w.rank, w.pid)
                ELSE format('pid {}', w.pid) END
               || CASE WHEN w.is_main THEN '' ELSE format(', thread {}', w.thread) END AS who,
           CASE WHEN w.line IS NULL THEN coalesce(w.top_func, '?')
                ELSE format('{} {}:{}', w.func, regexp_extract(w.file, '[^/]*$'), w.line) END
               AS place,
           -- Of an idle worker the program's own frames are those that its fork has copied.
           w.line IS NOT NULL AND NOT (coalesce(w.forked, false) AND w.func = '<module>'
                                       AND w.top_file LIKE '%/multiprocessing/%') AS own
    FROM now_waits AS w JOIN families AS f ON f.host = w.host AND f.pid = w.pid
),
subjects AS (
    SELECT * FROM threads
    WHERE is_main AND (pid = top OR rank IS NOT NULL)
      AND NOT coalesce(rank IS NULL
                       AND family IN (SELECT job FROM parents WHERE rank IS NOT NULL), false)
),
-- The chain of waits of each subject, to its root, with the last place in the program's own code.
chains AS (
    SELECT s.host, s.pid, s.tid, r.pid AS root_pid, r.tid AS root_tid, s.family, s.rank,
           s.stuck_ms AS waits_ms, s.kind AS first_kind, s.what AS first_what, s.who AS first_who,
           s.place AS first_place, s.on_pid, s.on_idle_ms, s.alone AS first_alone,
           s.outside AS first_outside, s.timed AS first_timed, s.inferred AS first_inferred,
           s.asked AS first_asked,
           CASE WHEN r.blamed THEN r.pid ELSE s.pid END AS blame_pid,
           CASE WHEN r.blamed THEN r.tid ELSE s.tid END AS blame_tid,
           CASE WHEN r.blamed THEN r.file ELSE s.file END AS file,
           CASE WHEN r.blamed THEN r.line ELSE s.line END AS line,
           CASE WHEN r.blamed THEN r.func ELSE s.func END AS func,
           r.kind AS kind, r.what, r.stuck_ms, r.moving, r.alone, r.outside, r.timed, r.left_ms,
           r.who, r.place, r.cycle, r.cpu_pct, r.shape_ms, r.states, r.samples, r.on_pid AS last_on,
           r.on_idle_ms AS last_idle_ms, r.holds_gil, r.family_rank AS root_rank, r.forked,
           r.same_ms, r.looks, r.native, r.module, r.collecting_garbage, r.top_file,
           (r.pid, r.tid) <> (s.pid, s.tid) AS far
    FROM subjects AS s
    -- A process that waits for clients has no line to blame for an answer that it owes.
    JOIN (SELECT *, own AND NOT outside AS blamed FROM threads) AS r
      ON r.host = s.host AND r.pid = s.root_pid AND r.tid = s.root_tid
)
