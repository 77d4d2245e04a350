/*
 * python_alloc_frames.h - the columns of python.alloc_frames.
 *
 * Owns: nothing; a list. Threads: any. Fails: never.
 * Not here: who writes it (agent/collectors/alloc/).
 */
#ifndef PB_SCHEMA_PYTHON_ALLOC_FRAMES_H
#define PB_SCHEMA_PYTHON_ALLOC_FRAMES_H

#define PB_PYTHON_ALLOC_FRAMES_NAME "python.alloc_frames"
#define PB_PYTHON_ALLOC_FRAMES_DOC                                                                \
    "frames of the stacks in python.alloc, once an hour for each stack that has rows"

/* X(column, type, unit, doc) */
#define PB_PYTHON_ALLOC_FRAMES(X)                                                                 \
    X(timestamp, TIME, "", "when the row was made")                                               \
    X(stack_id, INT, "", "number of the stack: a hash of its frames")                             \
    X(depth, INT, "", "0 = innermost")                                                            \
    X(func, NAME, "", "function")                                                                 \
    X(file, NAME, "", "source file")                                                              \
    X(lineno, INT, "", "line that was being executed")

#endif

#ifdef PB_TABLE /* tables.def is being read */
PB_TABLE(PB_PYTHON_ALLOC_FRAMES)
#endif
