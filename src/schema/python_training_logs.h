/*
 * python_training_logs.h - the columns of python.training_logs.
 *
 * Owns: nothing; a list. Threads: any. Fails: never.
 * Not here: who writes it (agent/collectors/).
 */
#ifndef PB_SCHEMA_PYTHON_TRAINING_LOGS_H
#define PB_SCHEMA_PYTHON_TRAINING_LOGS_H

#define PB_PYTHON_TRAINING_LOGS_NAME "python.training_logs"
#define PB_PYTHON_TRAINING_LOGS_DOC "progress of training, one row a step of an optimizer"

/* X(column, type, unit, doc) */
#define PB_PYTHON_TRAINING_LOGS(X)                                                                \
    X(timestamp, TIME, "", "when the step ended")                                                 \
    X(epoch, INT, "", "passes over the training data that ended before; NULL: no loader")          \
    X(step, INT, "", "training step")                                                             \
    X(loss, REAL, "", "sum of what backward was called on for this step, not scaled")             \
    X(lr, REAL, "", "learning rate of the first parameter group")                                 \
    X(grad_norm, REAL, "", "norm of the gradients where the loop computes it")                    \
    X(step_ms, REAL, "ms", "from the end of the step before to the end of this one")              \
    X(data_ms, REAL, "ms", "waiting for data; NULL: no loader is asked for it")                   \
    X(forward_ms, REAL, "ms", "forward")                                                          \
    X(backward_ms, REAL, "ms", "backward")                                                        \
    X(optimizer_ms, REAL, "ms", "optimizer")                                                      \
    X(comm_ms, REAL, "ms", "with any operation between ranks under way, also during the others")  \
    X(other_ms, REAL, "ms", "the rest: the loop's own code, evaluation")                          \
    X(batch_size, INT, "", "samples of the step")                                                 \
    X(samples_per_s, REAL, "", "samples in a second")                                             \
    X(profiled, BOOL, "", "torch's profiler ran in it (`probing PID profile`): it is slower")     \
    X(model, NAME, "", "outermost module that was trained; a second one of its class has #2")     \
    X(optimizer, NAME, "", "class of the optimizer; of a second one with #2; NULL: by hand")      \
    X(step_source, NAME, "", "optimizer, sampler, expression; loader (this pass on), injection")  \
    X(epoch_source, NAME, "", "who counts epochs: sampler, expression, injection (from 0 on)")    \
    X(comm_seq, INT, "", "collectives of all ranks so far: the same for a step on every rank")     \
    X(backwards, INT, "", "backward passes that loss is the sum of")

#endif

#ifdef PB_TABLE /* tables.def is being read */
PB_TABLE(PB_PYTHON_TRAINING_LOGS)
#endif
