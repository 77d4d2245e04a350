/*
 * python_alloc.h - the columns of python.alloc.
 *
 * Owns: nothing; a list. Threads: any. Fails: never.
 * Not here: who writes it (agent/collectors/alloc/).
 */
#ifndef PB_SCHEMA_PYTHON_ALLOC_H
#define PB_SCHEMA_PYTHON_ALLOC_H

#define PB_PYTHON_ALLOC_NAME "python.alloc"
#define PB_PYTHON_ALLOC_DOC                                                                       \
    "memory by the stack that allocated it, since memory.sites was turned on, estimated from a "  \
    "sample of blocks: a row for a stack when its numbers change, and every ten minutes"

/* X(column, type, unit, doc) */
#define PB_PYTHON_ALLOC(X)                                                                        \
    X(timestamp, TIME, "", "when the row was made")                                               \
    X(stack_id, INT, "", "the stack: python.alloc_frames has its frames")                         \
    X(func, NAME, "", "innermost Python function of the stack")                                   \
    X(file, NAME, "", "source file of func")                                                      \
    X(lineno, INT, "", "line of func")                                                            \
    X(live_bytes, REAL, "bytes", "memory that was allocated there and is not freed")              \
    X(live_error, REAL, "bytes", "standard error of live_bytes")                                  \
    X(live_blocks, REAL, "", "blocks that were allocated there and are not freed")                \
    X(samples, INT, "", "sampled blocks behind live_bytes")                                       \
    X(alloc_bytes, REAL, "bytes", "all memory that was allocated there, freed or not")            \
    X(alloc_blocks, REAL, "", "all blocks that were allocated there, freed or not")               \
    X(since, TIME, "", "when sampling began; rows with another time say nothing about now")       \
    X(every_bytes, REAL, "bytes", "allocated bytes between two samples, on average")

#endif

#ifdef PB_TABLE /* tables.def is being read */
PB_TABLE(PB_PYTHON_ALLOC)
#endif

#ifdef PB_COLLECTOR /* the agent's list of collectors is being read */
PB_COLLECTOR(alloc)
#endif
