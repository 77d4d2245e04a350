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
--   other_line    NAME       hottest line of that rest in the last ten minutes, where it is sampled
--   host          NAME       machine
--   pid           INT        process id
--   rank          INT        rank in its job, if it has one
SELECT l.timestamp, l.step, l.step_ms, l.data_ms, l.forward_ms, l.backward_ms, l.optimizer_ms,
       l.comm_ms, l.other_ms, p.func || ' ' || p.file || ':' || p.lineno AS other_line,
       l.host, l.pid, l.rank
FROM python.training_logs AS l
LEFT JOIN phase_lines AS p
  ON p.phase = 'other' AND p.place = 1 AND p.host = l.host AND p.pid = l.pid
WHERE l.step_ms IS NOT NULL
