/*
 * tree.h - a process with all its descendants.
 *
 * Owns: nothing; everything goes into the caller's arena.
 * Threads: any.
 * Fails: when /proc cannot be read, or the first process has ended.
 * Not here: their stacks (stack/snapshot.h), all Python processes of the machine (processes.h).
 */
#ifndef PB_HOST_PYTHON_TREE_H
#define PB_HOST_PYTHON_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"
#include "host/text/arena.h"

struct pb_tree_process {
    pid_t pid, parent;
    size_t depth; /* 0: the first one */
    bool is_last; /* the last child of its parent */
    bool is_python;
    const char *command;   /* without the interpreter in front, and without secrets */
    long rank, world_size; /* -1 when the environment does not tell */
};

/*
 * Each process in front of its children. Those that are no Python and have no Python below them
 * are left out, and those that are not within, if that is asked. Returns the count, or -1.
 */
int pb_tree_read(pid_t pid, bool (*within)(pid_t pid, void *arg), void *arg, struct pb_arena *a,
                 struct pb_tree_process **ret, struct pb_err *err);

#endif
