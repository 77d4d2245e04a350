/*
 * python_stack_frames.h - the columns of python.stack_frames.
 *
 * Owns: nothing; a list. Threads: any. Fails: never.
 * Not here: who writes it (node/profile/).
 */
#ifndef PB_SCHEMA_PYTHON_STACK_FRAMES_H
#define PB_SCHEMA_PYTHON_STACK_FRAMES_H

#define PB_PYTHON_STACK_FRAMES_NAME "python.stack_frames"
#define PB_PYTHON_STACK_FRAMES_DOC                                                                \
    "frames of the stacks in python.samples, once a day for each process"

/* X(column, type, unit, doc) */
#define PB_PYTHON_STACK_FRAMES(X)                                                                 \
    X(timestamp, TIME, "", "when the stack was first seen that day")                              \
    X(stack_id, INT, "", "number of the stack: a hash of its frames, the same everywhere")        \
    X(depth, INT, "", "0 = innermost")                                                            \
    X(func, NAME, "", "function")                                                                 \
    X(file, NAME, "", "source file; of a C function its library")                                 \
    X(lineno, INT, "", "line that is being executed")                                             \
    X(frame_type, NAME, "", "python, native; other: what stands for frames that are not known")   \
    X(pid, INT, "", "process id")                                                                 \
    X(rank, INT, "", "rank in its job, if it has one")

#endif

#ifdef PB_TABLE /* tables.def is being read */
PB_TABLE(PB_PYTHON_STACK_FRAMES)
#endif
