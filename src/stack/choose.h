/*
 * choose.h - which threads a snapshot looks at.
 *
 * Owns: nothing; the list goes into the caller's arena.
 * Threads: any. Fails: never.
 * Not here: looking at them (capture.h).
 */
#ifndef PB_STACK_CHOOSE_H
#define PB_STACK_CHOOSE_H

#include "stack/build.h"
#include "stack/snapshot.h"

/*
 * Python's own threads, and with all and native the others too; a thread with states in several
 * interpreters once. tids: as /proc lists them, ascending. Returns how many there are.
 */
size_t pb_choose(pid_t pid, const struct pb_snapshot_opts *o, const struct pb_py_threads *py,
                 const pid_t *tids, size_t ntids, struct pb_arena *a, struct pb_work **ret);

#endif
