-- step_breakdown: what each training step spent its time on
--   timestamp     TIME       when the step ended
--   step          INT        training step
--   step_ms       REAL  ms   the whole step
--   data_ms       REAL  ms   waiting for data
--   forward_ms    REAL  ms   forward
--   backward_ms   REAL  ms   backward
--   optimizer_ms  REAL  ms   optimizer
--   comm_ms       REAL  ms   communication, also during the others
--   other_ms      REAL  ms   the rest: the loop's own code, evaluation
--   host          NAME       machine
--   pid           INT        process id
--   rank          INT        rank in its job, if it has one
SELECT timestamp, step, step_ms, data_ms, forward_ms, backward_ms, optimizer_ms, comm_ms, other_ms,
       host, pid, rank
FROM python.training_logs
WHERE step_ms IS NOT NULL
