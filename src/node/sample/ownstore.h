/*
 * ownstore.h - the node's own folder in shared memory, next to those of the targets.
 *
 * Owns: the folder's descriptor.
 * Threads: one; pb_own_store_say any, one at a time.
 * Fails: with a reason; without a folder there are no samplers.
 * Not here: rings (store/writer.h), reading folders (discover.h).
 *
 * It is a folder like any other, `<pid>-<start>` with meta and status; meta says role=node and, as
 * `data`, whose history it belongs to, since nodes of other histories measure the same machine.
 */
#ifndef PB_NODE_SAMPLE_OWNSTORE_H
#define PB_NODE_SAMPLE_OWNSTORE_H

#include "base/err.h"
#include "base/home.h"
#include "host/text/buf.h"

struct pb_own_store {
    int dir; /* -1: none */
    char path[PB_HOME_MAX];
};

int pb_own_store_open(struct pb_own_store *s, const char *host, const char *data_dir,
                      struct pb_err *err);
void pb_own_store_close(struct pb_own_store *s); /* the folder stays */
/* Replaces the status file by these lines. */
void pb_own_store_say(const struct pb_own_store *s, const struct pb_buf *lines);

#endif
