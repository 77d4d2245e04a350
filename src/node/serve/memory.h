/*
 * memory.h - the kernel's limits of a server: on its memory, and how many files it may have open.
 *
 * Owns: nothing; the limits are the kernel's.
 * Threads: one.
 * Fails: never; where there can be no limit there is none.
 * Not here: the engine's own limit (sql/engine.h).
 */
#ifndef PB_NODE_SERVE_MEMORY_H
#define PB_NODE_SERVE_MEMORY_H

#include <stdint.h>

/*
 * The engine's own limit does not count the text that a function such as repeat() makes. What is
 * left beside it is for threads' stacks and our own tables. A process that maps more than that for
 * other ends, as sanitizers do, cannot be held by it.
 */
void pb_serve_limit_memory(int64_t engine_mb);
/* Each ring takes a file: as many as may be had. */
void pb_serve_raise_files(void);

#endif
