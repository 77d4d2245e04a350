/*
 * tids.h - which thread of the kernel a thread of the interpreter is.
 *
 * Owns: nothing. Threads: one.
 * Fails: a thread that cannot be told has tid 0.
 * Not here: the interpreter's list of threads (threads.h).
 *
 * From 3.11 on the interpreter keeps the kernel's id. A child that C code forked, without a word to
 * the interpreter, still has its parent's there, and 3.10 and earlier know only the pthread_t:
 * then the id comes from the C library's own record of the thread, which fork brings up to date.
 */
#ifndef PB_STACK_PYTHON_TIDS_H
#define PB_STACK_PYTHON_TIDS_H

#include "stack/python/threads.h"

/*
 * Replaces each tid, as the target sees it or 0, by the one seen from here; 0 when it has none.
 * tids: as /proc lists them, ascending.
 */
void pb_py_tids_find(struct pb_mem *mem, pid_t pid, const pid_t *tids, size_t ntids,
                     struct pb_arena *a, struct pb_py_threads *threads);

#endif
