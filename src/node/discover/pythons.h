/*
 * pythons.h - the Python processes of this machine, found quickly.
 *
 * Owns: what it learnt about each process.
 * Threads: any.
 * Fails: never; a process that ends meanwhile is left out.
 * Not here: what they do, how they are shown (host/python/processes.h).
 */
#ifndef PB_NODE_PYTHONS_H
#define PB_NODE_PYTHONS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "host/text/arena.h"

struct pb_pythons;

struct pb_python {
    pid_t pid;
    uint64_t start;
    char version[24]; /* "" when unknown */
};

struct pb_pythons *pb_pythons_create(void);
void pb_pythons_destroy(struct pb_pythons *p);
/* Lists this user's Python processes, as root everybody's; by pid, in the arena. */
size_t pb_pythons_list(struct pb_pythons *p, struct pb_arena *a, struct pb_python **ret);

#endif
