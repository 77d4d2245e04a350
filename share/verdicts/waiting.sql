-- waiting: a program waits for something that does not come
-- Followed from the main thread to the end of the chain: a lock whose owner sleeps, a pipe that
-- nobody writes to, a process that does not answer or end. No verdict where somebody outside may
-- still act (a client, a terminal, another machine), where whoever is waited for is at work, or
-- where it merely takes a short sleep.
SELECT 'hang' AS kind,
       CASE WHEN kind = 'process lock' THEN 'lock between processes'
            WHEN kind = 'file lock' THEN 'file lock' WHEN kind = 'lock' THEN 'lock'
            WHEN alone THEN 'nobody at the other end' WHEN kind = 'sleep' THEN 'asleep'
            WHEN kind = 'child' THEN 'child does not end'
            ELSE format('{} does not answer',
                        CASE WHEN kind IN ('listen', 'await') THEN first_kind ELSE kind END)
       END AS class,
       CASE WHEN alone AND NOT timed THEN 'established' ELSE 'supported' END AS confidence,
       family, root_rank AS rank, host, blame_pid AS pid, blame_tid AS tid, file, line, func,
       least(stuck_ms, waits_ms) AS stuck_ms,
       CASE WHEN far THEN format('{} waits for {} at {}', first_who, who, place)
            ELSE format('{} waits for {}', first_who, coalesce(what, kind)) END AS what,
       CASE WHEN far THEN format('{} waits for {}; {} at {} waits for {}', first_place,
                                 coalesce(first_what, first_kind), who, place,
                                 coalesce(what, kind))
            ELSE format('{} has not moved for {:.0f} s', place, stuck_ms / 1000) END AS why,
       format('probing {} backtrace -a -l', blame_pid) AS next
FROM chains
WHERE line IS NOT NULL AND waits_ms > 4500 AND stuck_ms > 4500 AND NOT cycle
  AND NOT first_outside AND (NOT outside OR (far AND first_asked))
  AND (NOT timed OR kind IN ('sleep', 'file lock', 'disk'))
  AND CASE kind
          WHEN 'sleep' THEN far AND first_kind <> 'sleep'
               AND coalesce(left_ms, 0) > CASE WHEN first_kind IN ('lock', 'file lock') THEN 3000
                                               WHEN first_kind IN ('thread', 'child') THEN 600000
                                               ELSE 60000 END
          WHEN 'pipe' THEN alone OR (last_on IS NOT NULL AND coalesce(last_idle_ms, 0) > 4500)
          WHEN 'poll' THEN alone OR (last_on IS NOT NULL AND coalesce(last_idle_ms, 0) > 4500)
          WHEN 'socket' THEN alone OR (last_on IS NOT NULL AND coalesce(last_idle_ms, 0) > 4500)
          WHEN 'listen' THEN coalesce(on_idle_ms, 0) > 4500
          WHEN 'await' THEN far AND first_asked AND coalesce(on_idle_ms, 0) > 4500
          WHEN 'lock' THEN far AND first_asked
          WHEN 'child' THEN last_on IS NOT NULL AND coalesce(last_idle_ms, 0) > 4500
          WHEN 'file lock' THEN coalesce(states, 1) = 1
          WHEN 'process lock' THEN true
          WHEN 'disk' THEN true
          ELSE false END
