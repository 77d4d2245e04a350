-- device: a GPU that does not finish what it was given
-- The thread has been inside the driver's library at one line for eight seconds, its variables
-- unchanged: a kernel that never ends, or a device that no longer answers. Ranks that wait for each
-- other also wait for their devices, so that this speaks of a program of one rank alone.
SELECT 'hang' AS kind, 'device does not finish' AS class, 'supported' AS confidence, family,
       family_rank AS rank, host, pid, tid, file, line, func, same_ms AS stuck_ms,
       format('{} waits for its GPU at {}', who, place) AS what,
       format('in the driver at the same line in {} looks, its variables unchanged', looks) AS why,
       format('what was started last: probing {} backtrace -l -n; errors of the device: nvidia-smi, dmesg',
              pid) AS next
FROM threads
WHERE is_main AND line IS NOT NULL AND (kind = 'gpu' OR (kind = 'running' AND states = 1))
  AND regexp_matches(coalesce(module, ''), 'libcuda\.so|libcudart') AND looks >= 3 AND same_ms > 8000
  AND family IN (SELECT family FROM subjects GROUP BY family HAVING count(*) = 1)
