-- rank_gone: a rank has ended, and the others wait for it in a collective
-- By the number of ranks that the launcher put into the environment.
WITH ranks AS (
    SELECT family, host, any_value(coalesce(local_world, world)) AS n,
           list(DISTINCT rank) AS here, min(rank) FILTER (kind = 'collective') AS first,
           min(rank) AS lowest, count(DISTINCT rank) AS living,
           count(*) FILTER (kind = 'collective' AND stuck_ms > 3000) AS waiting,
           arg_min(pid, rank) AS pid, arg_min(tid, rank) AS tid, arg_min(file, rank) AS file,
           arg_min(line, rank) AS line, arg_min(func, rank) AS func, min(stuck_ms) AS stuck_ms,
           mode(what) AS op, arg_min(place, rank) AS place
    FROM subjects WHERE rank IS NOT NULL AND (local_world IS NOT NULL OR world IS NOT NULL)
    GROUP BY family, host
)
SELECT 'hang' AS kind, 'rank gone' AS class, 'established' AS confidence, family,
       list_min(list_filter(range(n), lambda r: NOT list_contains(here, r))) AS rank, host, pid, tid,
       file, line, func, stuck_ms,
       format('{} of {} ranks have ended: {}', n - living, n,
              list_filter(range(n), lambda r: NOT list_contains(here, r))) AS what,
       format('the others wait for it in {} at {}', op, place) AS why,
       'see what that rank printed last, and how it ended: probing crashes' AS next
FROM ranks
WHERE living < n AND waiting = living AND waiting > 0 AND lowest < n
