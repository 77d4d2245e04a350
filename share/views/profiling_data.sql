-- profiling_data: operations with the time they took, one row a call
--   timestamp       TIME       when it began
--   operation_name  NAME       module and stage in one word
--   duration_ms     REAL  ms   time on the host
--   gpu_ms          REAL  ms   time on the GPU, for steps where it is measured
--   step            INT        training step
--   module          NAME       dotted name of the module
--   module_type     NAME       class of the module
--   stage           NAME       forward, backward, optimizer
--   host            NAME       machine
--   pid             INT        process id
--   rank            INT        rank in its job, if it has one
SELECT timestamp, operation_name, duration_ms, gpu_ms, step, module, module_type, stage, host, pid,
       rank
FROM python.torch_trace
