/*
 * processes.h - the Python processes of this machine that the user may see.
 *
 * Owns: nothing; everything goes into the caller's arena.
 * Threads: one.
 * Fails: when /proc cannot be read. A process that ends meanwhile is left out.
 * Not here: how they are shown (list.c), what they do.
 */
#ifndef PB_HOST_PYTHON_PROCESSES_H
#define PB_HOST_PYTHON_PROCESSES_H

#include <sys/types.h>

#include "base/err.h"
#include "host/text/arena.h"
#include "host/python/detect.h"

struct pb_process {
    pid_t pid, ns_pid, parent; /* parent: the nearest Python ancestor, 0 for none */
    uid_t uid;
    const char *user;
    struct pb_py_found python;
    long rank, world_size; /* -1 when the environment does not tell */
    long threads;
    const char *state;   /* running, waiting, disk, stopped, traced, ended */
    const char *command; /* the whole command line, on one line */
    const char *argv;    /* NUL-separated, argv_len bytes */
    size_t argv_len;
};

/* In ascending order of pid; returns the count, or -1. */
int pb_processes_read(struct pb_arena *a, struct pb_process **ret, struct pb_err *err);

/* The command without the interpreter in front: "train.py --bs 8". */
const char *pb_process_short_command(const struct pb_process *p);

#endif
