-- training_logs: progress of training, one row a step
--   timestamp      TIME       when the step ended
--   epoch          INT        passes over the data so far
--   step           INT        training step
--   loss           REAL       loss as the loop computed it
--   lr             REAL       learning rate of the first parameter group
--   grad_norm      REAL       norm of the gradients where the loop computes it
--   step_ms        REAL  ms   the whole step
--   data_ms        REAL  ms   waiting for data
--   forward_ms     REAL  ms   forward
--   backward_ms    REAL  ms   backward
--   optimizer_ms   REAL  ms   optimizer
--   comm_ms        REAL  ms   communication
--   batch_size     INT        samples in the batch
--   samples_per_s  REAL       samples in a second
--   host           NAME       machine
--   pid            INT        process id
--   rank           INT        rank in its job, if it has one
SELECT timestamp, epoch, step, loss, lr, grad_norm, step_ms, data_ms, forward_ms, backward_ms,
       optimizer_ms, comm_ms, batch_size, samples_per_s, host, pid, rank
FROM python.training_logs
