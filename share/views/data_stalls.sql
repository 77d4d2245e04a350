-- data_stalls: steps that waited for data for more than a fifth of their time
--   timestamp  TIME       when the step ended
--   epoch      INT        passes over the training data that ended before
--   step       INT        training step
--   data_ms    REAL  ms   waiting for data
--   step_ms    REAL  ms   the whole step
--   data_pct   REAL  %    share of the step
--   host       NAME       machine
--   pid        INT        process id
--   rank       INT        rank in its job, if it has one
SELECT timestamp, epoch, step, data_ms, step_ms, 100 * data_ms / step_ms AS data_pct, host, pid,
       rank
FROM python.training_logs
WHERE data_ms > 0.2 * step_ms AND data_ms > 1
