/*
 * core_stacks.h - the stacks in a core file.
 *
 * Owns: what is learnt of the interpreter and its code; a snapshot lives in the caller's arena, and
 * its texts as long as this object.
 * Threads: one user per core file.
 * Fails: no interpreter in it, or no thread of Python. A stack whose memory the core does not have
 * is marked torn.
 * Not here: reading core files (host/process/core.h), living processes (snapshot.h).
 */
#ifndef PB_STACK_CORE_STACKS_H
#define PB_STACK_CORE_STACKS_H

#include "host/process/core.h"
#include "stack/python/code.h"
#include "stack/python/locate.h"
#include "stack/snapshot.h"

struct pb_core_stacks {
    struct pb_core *core; /* the caller's */
    struct pb_py_location loc;
    struct pb_py_codes codes;
};

/* On failure there is nothing to close. */
int pb_core_stacks_open(struct pb_core_stacks *s, struct pb_core *core, struct pb_err *err);
void pb_core_stacks_close(struct pb_core_stacks *s);
/* Options about pauses, locks and source have no meaning here. */
int pb_core_stacks_read(struct pb_core_stacks *s, const struct pb_snapshot_opts *o,
                        struct pb_arena *a, struct pb_snapshot *ret, struct pb_err *err);

#endif
