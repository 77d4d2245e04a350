-- gil_held: C code keeps the GIL, and other threads want it
-- The holder has been at one line in every look, and those that wait were there each time, too. A
-- thread that runs Python gives the GIL away every few milliseconds and moves.
SELECT 'hang' AS kind, 'gil held in C' AS class,
       CASE WHEN h.kind = 'running' THEN 'supported' ELSE 'established' END AS confidence,
       h.family, h.family_rank AS rank, h.host, h.pid, h.tid, h.file, h.line, h.func,
       least(h.same_ms, w.same_ms) AS stuck_ms,
       format('{} holds the GIL at one line and does not let go', h.who) AS what,
       format('{} is in {}{}, and {} thread(s) wait for the GIL', h.place,
              coalesce(h.native, 'C code'),
              CASE WHEN h.kind = 'running' THEN '' ELSE format(', waiting for {}', h.what) END,
              w.n) AS why,
       format('probing {} backtrace -a -n', h.pid) AS next
FROM threads AS h
JOIN (SELECT host, pid, on_tid, count(*) AS n, max(same_ms) AS same_ms FROM threads
      WHERE kind = 'gil' GROUP BY host, pid, on_tid) AS w
  ON w.host = h.host AND w.pid = h.pid AND w.on_tid = h.tid
WHERE h.holds_gil AND h.looks >= 3 AND h.same_ms > 2500 AND w.same_ms > 2000 AND h.line IS NOT NULL
