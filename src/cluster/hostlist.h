/*
 * hostlist.h - lists of hosts: Slurm's short form "gpu[01-03,07]-ib,login1", and files of names.
 *
 * Owns: nothing; names go into the caller's arena.
 * Threads: any.
 * Fails: a list that makes no sense, or names more than PB_HOSTS_MAX, is refused.
 * Not here: what their addresses are.
 */
#ifndef PB_CLUSTER_HOSTLIST_H
#define PB_CLUSTER_HOSTLIST_H

#include <stddef.h>

#include "base/err.h"
#include "host/text/arena.h"

enum { PB_HOSTS_MAX = 16384, PB_HOST_NAME_MAX = 256 };

struct pb_hosts {
    const char **v;
    size_t n, cap;
};

/* Adds one, unless it is there. */
int pb_hosts_add(struct pb_hosts *h, const char *name, struct pb_arena *a, struct pb_err *err);
/* Adds all that the short form stands for; several brackets in a name multiply. */
int pb_hosts_expand(struct pb_hosts *h, const char *list, struct pb_arena *a, struct pb_err *err);
/*
 * Adds those of a file: one a line, the first word of it ("node1 slots=8" of MPI), with # for
 * comments; each may be a short form.
 */
int pb_hosts_read(struct pb_hosts *h, const char *path, struct pb_arena *a, struct pb_err *err);

#endif
