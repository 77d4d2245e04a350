-- training_logs: progress of training, one row a step of an optimizer
--   timestamp      TIME       when the step ended
--   epoch          INT        passes over the training data that ended before; NULL: no loader
--   step           INT        training step
--   loss           REAL       sum of what backward was called on for this step, not scaled
--   lr             REAL       learning rate of the first parameter group
--   grad_norm      REAL       norm of the gradients where the loop computes it
--   step_ms        REAL  ms   from the end of the step before to the end of this one
--   data_ms        REAL  ms   waiting for data; NULL: no loader is asked for it
--   forward_ms     REAL  ms   forward
--   backward_ms    REAL  ms   backward
--   optimizer_ms   REAL  ms   optimizer
--   comm_ms        REAL  ms   with any operation between ranks under way, also during the others
--   other_ms       REAL  ms   the rest: the loop's own code, evaluation
--   batch_size     INT        samples of the step
--   samples_per_s  REAL       samples in a second
--   profiled       BOOL       torch's profiler ran in it (`probing PID profile`): it is slower
--   model          NAME       outermost module that was trained; a second one of its class has #2
--   optimizer      NAME       class of the optimizer; of a second one with #2; NULL: by hand
--   step_source    NAME       optimizer, sampler, expression; loader (this pass on), injection
--   epoch_source   NAME       who counts epochs: sampler, expression, injection (from 0 on)
--   comm_seq       INT        collectives of all ranks so far: the same for a step on every rank
--   backwards      INT        backward passes that loss is the sum of
--   host           NAME       machine
--   pid            INT        process id
--   rank           INT        rank in its job, if it has one
SELECT timestamp, epoch, step, loss, lr, grad_norm, step_ms, data_ms, forward_ms, backward_ms,
       optimizer_ms, comm_ms, other_ms, batch_size, samples_per_s, profiled, model, optimizer,
       step_source, epoch_source, comm_seq, backwards, host, pid, rank
FROM python.training_logs
