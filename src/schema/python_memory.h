/*
 * python_memory.h - the columns of python.memory.
 *
 * Owns: nothing; a list. Threads: any. Fails: never.
 * Not here: who writes it (agent/collectors/).
 */
#ifndef PB_SCHEMA_PYTHON_MEMORY_H
#define PB_SCHEMA_PYTHON_MEMORY_H

#define PB_PYTHON_MEMORY_NAME "python.memory"
#define PB_PYTHON_MEMORY_DOC "memory of the process over time, seen from inside"

/* X(column, type, unit, doc) */
#define PB_PYTHON_MEMORY(X)                                                                       \
    X(timestamp, TIME, "", "when the row was made")                                               \
    X(rss_mb, REAL, "MB", "resident memory")                                                      \
    X(vms_mb, REAL, "MB", "address space")                                                        \
    X(shared_mb, REAL, "MB", "resident pages of files and shared memory")                         \
    X(gc_gen0, INT, "", "objects in the youngest generation")                                     \
    X(gc_gen1, INT, "", "objects in the middle generation")                                       \
    X(gc_gen2, INT, "", "objects in the oldest generation")                                       \
    X(gc_collections, INT, "", "collections since the last row")                                  \
    X(gc_ms, REAL, "ms", "time spent collecting since the last row")                              \
    X(gc_max_ms, REAL, "ms", "longest collection since the last row")                             \
    X(blocks, INT, "", "memory blocks that the interpreter has given out")                        \
    X(python_mb, REAL, "MB",                                                                      \
      "memory of Python's own allocator, where objects of up to 512 bytes are; NULL where it is " \
      "not used (free-threaded Python, PYTHONMALLOC=malloc or debug)")                            \
    X(heap_mb, REAL, "MB",                                                                        \
      "memory that malloc has given out: tensors in main memory, arrays, large Python objects, "  \
      "what libraries keep; NULL with a C library before glibc 2.33 or another malloc")           \
    X(cuda_allocated_mb, REAL, "MB", "tensors in GPU memory")                                     \
    X(cuda_reserved_mb, REAL, "MB", "GPU memory held by torch's allocator")                       \
    X(cuda_max_mb, REAL, "MB", "most that was allocated so far")

#endif

#ifdef PB_TABLE /* tables.def is being read */
PB_TABLE(PB_PYTHON_MEMORY)
#endif

#ifdef PB_COLLECTOR /* the agent's list of collectors is being read */
PB_COLLECTOR(memory)
#endif
