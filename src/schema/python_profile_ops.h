/*
 * python_profile_ops.h - the columns of python.profile_ops.
 *
 * Owns: nothing; a list. Threads: any. Fails: never.
 * Not here: who writes it (agent/profile.c).
 */
#ifndef PB_SCHEMA_PYTHON_PROFILE_OPS_H
#define PB_SCHEMA_PYTHON_PROFILE_OPS_H

#define PB_PYTHON_PROFILE_OPS_NAME "python.profile_ops"
#define PB_PYTHON_PROFILE_OPS_DOC "operations of some steps, as torch's profiler saw them"

/* X(column, type, unit, doc) */
#define PB_PYTHON_PROFILE_OPS(X)                                                                  \
    X(timestamp, TIME, "", "when the profile was taken")                                          \
    X(steps, INT, "", "training steps in it, or calls of a model")                                \
    X(op, NAME, "", "operation or kernel")                                                        \
    X(shapes, TEXT, "", "shapes of its arguments, where they were asked for")                     \
    X(calls, INT, "", "times that it ran")                                                        \
    X(self_cpu_ms, REAL, "ms", "time on the host without what it called")                         \
    X(cpu_ms, REAL, "ms", "time on the host")                                                     \
    X(self_device_ms, REAL, "ms", "time on the GPU without what it called")                       \
    X(device_ms, REAL, "ms", "time on the GPU")

#endif

#ifdef PB_TABLE /* tables.def is being read */
PB_TABLE(PB_PYTHON_PROFILE_OPS)
#endif
