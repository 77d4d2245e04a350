/*
 * flame.h - where the time of processes went, out of the node's own samples.
 *
 * Owns: nothing; the recording is the caller's.
 * Threads: any.
 * Fails: PB_USAGE for a window that makes no sense, PB_FAIL when there are no samples in it.
 * Not here: who asks (http/routes/route_flame.c), what is made of it (recording/page.h).
 */
#ifndef PB_NODE_QUERY_FLAME_H
#define PB_NODE_QUERY_FLAME_H

#include <stdatomic.h>

#include "node/discover/scope.h"
#include "node/node.h"
#include "recording/recording.h"

/* When: from and to in milliseconds since 1970, or the last so many seconds of what there is. */
struct pb_flame_window {
    int64_t from_ms, to_ms; /* 0: open */
    double last_s;          /* 0: not said */
};

struct pb_flame_question {
    const struct pb_scope *scope;
    struct pb_flame_window window;
    const char *where; /* another condition on python.samples, or "" */
    bool by_function;
    bool by_process; /* a frame at the root also for one process alone */
    const _Atomic bool *cancelled; /* or NULL */
};

/* ret is initialised on success only. */
int pb_flame_load(struct pb_node *n, const struct pb_flame_question *q, struct pb_recording *ret,
                  struct pb_err *err);

#endif
