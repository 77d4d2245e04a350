-- gpu_metrics: how busy each GPU is, over time
--   timestamp        TIME       when it was measured
--   device           INT        number of the GPU
--   name             NAME       model
--   gpu_util         REAL  %    share of time with a kernel running
--   mem_util         REAL  %    share of time that memory was being read or written
--   memory_used_mb   REAL  MB   memory in use
--   memory_total_mb  REAL  MB   memory there is
--   power_w          REAL  W    power drawn
--   temperature_c    REAL  C    temperature
--   host             NAME       machine
--   pid              INT        none: the row is about the machine
--   rank             INT        none: the row is about the machine
SELECT timestamp, device, name, gpu_util, mem_util, memory_used_mb, memory_total_mb, power_w,
       temperature_c, host, pid, rank
FROM gpu.utilization
