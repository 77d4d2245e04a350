-- collective_order: all ranks wait in collectives, but not in the same one
-- Whoever is in another one than most is named; of two, the one that is further on in the program,
-- since it left out what the other waits in. A send or receive that nobody answers comes first.
WITH calls AS (
    SELECT *, format('{} {}:{}', what, file, line) AS spot FROM subjects
    WHERE rank IS NOT NULL AND kind = 'collective'
),
sizes AS (
    SELECT family, host, spot, count(*) AS n, max(line) AS line FROM calls GROUP BY ALL
),
jobs AS (
    SELECT s.family, s.host, count(DISTINCT s.spot) AS places, any_value(a.n) AS ranks,
           min(a.stuck_ms) AS stuck_ms
    FROM sizes AS s
    JOIN (SELECT family, host, count(*) AS n, min(stuck_ms) AS stuck_ms, min(looks) AS looks
          FROM subjects WHERE rank IS NOT NULL GROUP BY ALL
          HAVING bool_and(kind = 'collective')) AS a ON a.family = s.family AND a.host = s.host
    GROUP BY s.family, s.host HAVING places > 1
),
odd AS (
    SELECT family, host, arg_min(spot, n * 1000000 - line
               - CASE WHEN regexp_matches(spot, '^(i?send|i?recv) ') THEN 1e9 ELSE 0 END) AS spot
    FROM sizes GROUP BY family, host
),
everyone AS (
    SELECT family, host,
           string_agg(format('rank {} in {} at {}', rank, what, place), '; ' ORDER BY rank) AS text
    FROM calls GROUP BY family, host
)
SELECT 'hang' AS kind,
       CASE WHEN any_value(c.what) IN ('send', 'recv', 'isend', 'irecv') THEN 'send without receive'
            ELSE 'collectives in another order' END AS class,
       'established' AS confidence, c.family, min(c.rank) AS rank, c.host, arg_min(c.pid, c.rank) AS pid,
       arg_min(c.tid, c.rank) AS tid, any_value(c.file) AS file, any_value(c.line) AS line,
       any_value(c.func) AS func, any_value(j.stuck_ms) AS stuck_ms,
       format('rank(s) {} wait in {}, the others in another operation',
              string_agg(c.rank::VARCHAR, ',' ORDER BY c.rank), any_value(c.what)) AS what,
       any_value(e.text) AS why,
       'look for a branch on which a rank leaves out a collective that the others make' AS next
FROM calls AS c JOIN jobs AS j ON j.family = c.family AND j.host = c.host
JOIN odd AS o ON o.family = c.family AND o.host = c.host AND o.spot = c.spot
JOIN everyone AS e ON e.family = c.family AND e.host = c.host
WHERE j.stuck_ms > 4000
GROUP BY c.family, c.host
