/*
 * malloc.h - malloc and its relatives with a counter of bytes in front of them, for C and C++ code.
 *
 * Owns: addresses in the import tables of loaded libraries (native/imports.h). The functions work
 * as long as the process lives, whether somebody still points to them or not.
 * Threads: the functions run on any thread; install, follow and remove with the GIL.
 * Fails: pb_malloc_install says why, and nothing was changed.
 * Not here: Python's own allocators (hooks.h). The file with the interpreter keeps its malloc, so
 * that what Python asks malloc for is not counted twice.
 *
 * The C library and the loader keep theirs, too: what they allocate for themselves is not seen.
 */
#ifndef PB_AGENT_COLLECTORS_ALLOC_MALLOC_H
#define PB_AGENT_COLLECTORS_ALLOC_MALLOC_H

#include <stdbool.h>

#include "agent/collectors/alloc/live.h"
#include "agent/py/api.h"
#include "base/err.h"

/* Samples go to l, with stacks by w; both live as long as the process. */
int pb_malloc_install(const struct pb_py *py, struct pb_live *l, const struct pb_walker *w,
                      struct pb_err *err);
/* Also in libraries that have been loaded since. */
void pb_malloc_follow(void);
void pb_malloc_remove(void);
/* Any thread: samples are taken, or not. Async-signal-safe. */
void pb_malloc_switch(bool on);
/* The distance between samples has changed. */
void pb_malloc_restart(void);

#endif
