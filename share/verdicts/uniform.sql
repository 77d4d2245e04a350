-- uniform: all ranks wait at the same place: device or network, no line to blame
-- All ranks of the job that are on this machine are in the same operation at the same line and have
-- not moved for ten seconds. What keeps it from ending is below Python; but where all receive, or
-- all send, nobody is left for the other half, and that line is to blame.
WITH jobs AS (
    SELECT family, host, count(*) AS n, arg_min(rank, pid) AS rank, min(pid) AS pid,
           arg_min(tid, pid) AS tid, any_value(file) AS file, any_value(line) AS line,
           any_value(func) AS func, min(stuck_ms) AS stuck_ms, any_value(what) AS op,
           any_value(place) AS place,
           any_value(what) IN ('send', 'recv', 'isend', 'irecv') AND n > 1 AS halves
    FROM subjects WHERE rank IS NOT NULL
    GROUP BY family, host
    HAVING n > 1 AND bool_and(kind = 'collective') AND count(DISTINCT (what, file, line)) = 1
       AND min(stuck_ms) > 7000 AND n >= max(coalesce(local_world, world, 1))
)
SELECT 'hang' AS kind,
       CASE WHEN halves THEN 'send without receive'
            ELSE 'all ranks wait at the same place' END AS class,
       'supported' AS confidence, family, CASE WHEN halves THEN rank END AS rank, host, pid, tid,
       CASE WHEN halves THEN file END AS file, CASE WHEN halves THEN line END AS line,
       CASE WHEN halves THEN func END AS func, stuck_ms,
       CASE WHEN halves THEN format('all {} ranks wait in {}, and none is in the other half', n, op)
            ELSE format('all {} ranks wait at the same place: device or network, no line to blame', n)
            END AS what,
       format('all are in {} at {}', op, place) AS why,
       CASE WHEN halves THEN 'let some ranks send first and the others receive first'
            ELSE 'compare the sizes of what they send; look at links, devices and ranks on other '
                 'machines' END AS next
FROM jobs
