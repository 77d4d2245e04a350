/*
 * python_training_logs.h - the columns of python.training_logs.
 *
 * Owns: nothing; a list. Threads: any. Fails: never.
 * Not here: who writes it (agent/collect/).
 */
#ifndef PB_STORE_TABLES_PYTHON_TRAINING_LOGS_H
#define PB_STORE_TABLES_PYTHON_TRAINING_LOGS_H

#define PB_PYTHON_TRAINING_LOGS_NAME "python.training_logs"
#define PB_PYTHON_TRAINING_LOGS_DOC "progress of training, one row a step"

/* X(column, type, unit, doc) */
#define PB_PYTHON_TRAINING_LOGS(X)                                                                \
    X(timestamp, TIME, "", "when the step ended")                                                 \
    X(epoch, INT, "", "passes over the data so far")                                              \
    X(step, INT, "", "training step")                                                             \
    X(loss, REAL, "", "loss as the loop computed it")                                             \
    X(lr, REAL, "", "learning rate of the first parameter group")                                 \
    X(grad_norm, REAL, "", "norm of the gradients where the loop computes it")                    \
    X(step_ms, REAL, "ms", "the whole step")                                                      \
    X(data_ms, REAL, "ms", "waiting for data")                                                    \
    X(forward_ms, REAL, "ms", "forward")                                                          \
    X(backward_ms, REAL, "ms", "backward")                                                        \
    X(optimizer_ms, REAL, "ms", "optimizer")                                                      \
    X(comm_ms, REAL, "ms", "communication")                                                       \
    X(batch_size, INT, "", "samples in the batch")                                                \
    X(samples_per_s, REAL, "", "samples in a second")

#endif
