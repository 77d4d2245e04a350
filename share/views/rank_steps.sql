-- rank_steps: steps of a job side by side: the same number is the same step on every rank
--   step          INT        number of the step on the lowest rank that was seen in it
--   rank          INT        rank in its job
--   step_ms       REAL  ms   the whole step
--   data_ms       REAL  ms   waiting for data
--   forward_ms    REAL  ms   forward
--   backward_ms   REAL  ms   backward
--   optimizer_ms  REAL  ms   optimizer
--   comm_ms       REAL  ms   communication, also during the other parts
--   other_ms      REAL  ms   the rest: the loop's own code, evaluation
--   loss          REAL       sum of what backward was called on, on this rank
--   own_step      INT        the rank's own number of the step, in its other tables
--   comm_seq      INT        collectives so far, by which the ranks are matched
--   ranks         INT        ranks that were seen in this step
--   timestamp     TIME       when the step ended
--   job           NAME       job that the ranks belong to: its master's address
--   host          NAME       machine
--   pid           INT        process id
WITH jobs AS (
    SELECT host, pid, any_value(job) AS job FROM python.comm WHERE job IS NOT NULL
    GROUP BY host, pid
),
-- Numbers that are counted from injection begin on each rank where the agent came to it.
steps AS (
    SELECT l.*, j.job FROM python.training_logs AS l
    JOIN jobs AS j ON j.host = l.host AND j.pid = l.pid
    WHERE l.comm_seq IS NOT NULL
)
SELECT arg_min(step, coalesce(rank, pid)) OVER same AS step, rank, step_ms, data_ms, forward_ms,
       backward_ms, optimizer_ms, comm_ms, other_ms, loss, step AS own_step, comm_seq,
       count(*) OVER same AS ranks, timestamp, job, host, pid
FROM steps
WINDOW same AS (PARTITION BY job, comm_seq)
