-- memory_growth: memory that grows from step to step, by module
--   module       NAME       dotted name of the module
--   module_type  NAME       its class
--   stage        NAME       forward, backward, optimizer
--   mb_per_step  REAL  MB   growth of allocated memory at its calls, from one step to the next
--   growth_mb    REAL  MB   from the first traced step to the last
--   last_mb      REAL  MB   allocated at its last call
--   call_mb      REAL  MB   what one call leaves allocated, on average
--   steps        INT        steps that were traced
--   host         NAME       machine
--   pid          INT        process id
--   rank         INT        rank in its job, if it has one
SELECT module, module_type, stage, regr_slope(allocated, step) AS mb_per_step,
       arg_max(allocated, step) - arg_min(allocated, step) AS growth_mb,
       arg_max(allocated, step) AS last_mb, avg(allocated_delta) AS call_mb,
       count(DISTINCT step) AS steps, host, pid, rank
FROM python.torch_trace
WHERE allocated IS NOT NULL
GROUP BY module, module_type, stage, host, pid, rank
HAVING count(DISTINCT step) > 2
ORDER BY mb_per_step DESC
