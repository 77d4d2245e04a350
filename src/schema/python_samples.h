/*
 * python_samples.h - the columns of python.samples.
 *
 * Owns: nothing; a list. Threads: any. Fails: never.
 * Not here: who writes it (node/profile/).
 */
#ifndef PB_SCHEMA_PYTHON_SAMPLES_H
#define PB_SCHEMA_PYTHON_SAMPLES_H

#define PB_PYTHON_SAMPLES_NAME "python.samples"
#define PB_PYTHON_SAMPLES_DOC                                                                     \
    "where threads spend their time, sampled all the time from outside: what a thread did for "   \
    "about a second is one row for each stack"

/* X(column, type, unit, doc) */
#define PB_PYTHON_SAMPLES(X)                                                                      \
    X(timestamp, TIME, "", "when the first sample of the row was taken, to a second")             \
    X(tid, INT, "", "thread id")                                                                  \
    X(thread, NAME, "", "the thread's name")                                                      \
    X(stack_id, INT, "", "stack of the thread: python.stack_frames has its frames")               \
    X(state, NAME, "", "running, idle (at rest), waiting, stopped")                               \
    X(holds_gil, BOOL, "", "the thread has the GIL")                                              \
    X(waits_gil, BOOL, "", "the thread waits for the GIL")                                        \
    X(on_cpu, BOOL, "", "the thread has a processor, or is ready for one")                        \
    X(weight_ms, REAL, "ms", "wall time that the row stands for")                                 \
    X(samples, INT, "", "how often it was seen there")                                            \
    X(step, INT, "", "training step in which the row began")                                      \
    X(phase, NAME, "", "part of the step: data, forward, backward, optimizer, …")                 \
    X(module, NAME, "", "innermost module of the model that ran")                                 \
    X(torn, BOOL, "", "the stack changed at every look and is not known")                         \
    X(pid, INT, "", "process id")                                                                 \
    X(rank, INT, "", "rank in its job, if it has one")

#endif

#ifdef PB_TABLE /* tables.def is being read */
PB_TABLE(PB_PYTHON_SAMPLES)
#endif
