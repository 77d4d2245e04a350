-- step_breakdown: what each training step spent its time on
--   timestamp     TIME       when the step ended
--   step          INT        training step
--   step_ms       REAL  ms   the whole step
--   data_ms       REAL  ms   waiting for data
--   forward_ms    REAL  ms   forward
--   backward_ms   REAL  ms   backward
--   optimizer_ms  REAL  ms   optimizer
--   comm_ms       REAL  ms   communication; DistributedDataParallel's is during backward
--   other_ms      REAL  ms   the rest: the loop's own code
--   host          NAME       machine
--   pid           INT        process id
--   rank          INT        rank in its job, if it has one
SELECT timestamp, step, step_ms, data_ms, forward_ms, backward_ms, optimizer_ms, comm_ms,
       -- What torch sends by itself, as DistributedDataParallel does, goes on during backward.
       greatest(0, step_ms - data_ms - forward_ms - backward_ms - optimizer_ms -
                   CASE WHEN pid IN (SELECT pid FROM python.comm WHERE dtype IS NULL
                                     AND op <> 'barrier') THEN 0 ELSE comm_ms END) AS other_ms,
       host, pid, rank
FROM python.training_logs
WHERE step_ms IS NOT NULL
