-- memory_usage: memory of processes over time, from inside where there is an agent
--   timestamp          TIME       when it was measured
--   memory_mb          REAL  MB   resident memory
--   vms_mb             REAL  MB   address space
--   cuda_allocated_mb  REAL  MB   tensors in GPU memory
--   cuda_reserved_mb   REAL  MB   GPU memory held by torch's allocator
--   source             NAME       agent or node: who measured
--   host               NAME       machine
--   pid                INT        process id
--   rank               INT        rank in its job, if it has one
SELECT timestamp, rss_mb AS memory_mb, vms_mb, cuda_allocated_mb, cuda_reserved_mb,
       'agent' AS source, host, pid, rank
FROM python.memory
UNION ALL
SELECT timestamp, rss_mb, vms_mb, NULL, NULL, 'node', host, pid, rank
FROM system.cpu
WHERE rss_mb IS NOT NULL AND pid NOT IN (SELECT pid FROM python.memory)
