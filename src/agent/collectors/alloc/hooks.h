/*
 * hooks.h - Python's allocators with a counter of bytes in front of them.
 *
 * Owns: functions in the interpreter's tables of allocators (PyMem_SetAllocator); they are made
 * once and work as long as the process lives, whether somebody still points to them or not.
 * Threads: hooks run on any thread; install and remove with the GIL.
 * Fails: pb_hooks_install says why, and nothing was changed.
 * Not here: what is kept of a sample (live.h).
 *
 * Only functions are replaced, the context pointer stays: a thread that calls an allocator while
 * the table is being written finds a pair that fits, whichever of the two it gets.
 *
 * pymalloc (the default) hands every block over 512 bytes to the raw allocator and knows at free
 * whose a block is. So a small block that is to be sampled is asked for with 513 bytes: it comes
 * from the raw allocator, the hook there keeps the sample, and its free passes the raw hook again.
 * The free of small blocks, the most frequent call of all, needs no hook. Other allocators
 * (mimalloc in free-threaded builds, PYTHONMALLOC=malloc) have theirs hooked as well. Which of the
 * two it is, a trial at installation tells.
 */
#ifndef PB_AGENT_COLLECTORS_ALLOC_HOOKS_H
#define PB_AGENT_COLLECTORS_ALLOC_HOOKS_H

#include <stdbool.h>

#include "agent/collectors/alloc/live.h"
#include "agent/py/api.h"
#include "base/err.h"

/* GIL held. Samples go to l, with stacks by w; both live as long as the process. */
int pb_hooks_install(const struct pb_py *py, struct pb_live *l, const struct pb_walker *w,
                     struct pb_err *err);
/* GIL held: puts back what was there, unless somebody has put himself in front of it. */
void pb_hooks_remove(const struct pb_py *py);
/* GIL held: are they in the way of an allocation? Another tool may have taken them out. */
bool pb_hooks_are_called(const struct pb_py *py);
/* Any thread: samples are taken, or not. Async-signal-safe. */
void pb_hooks_switch(bool on);
/* The distance between samples has changed. */
void pb_hooks_restart(void);

#endif
