/*
 * describe.h - what a thread is and does, by what was captured of it and by the kernel.
 *
 * Owns: nothing; texts go into the caller's arena.
 * Threads: any. Fails: never; what cannot be told stays empty.
 * Not here: its frames (build.h).
 */
#ifndef PB_STACK_DESCRIBE_H
#define PB_STACK_DESCRIBE_H

#include "stack/build.h"
#include "stack/snapshot.h"

/* The process of the threads. */
struct pb_described {
    pid_t pid, ns_pid;
    const struct pb_py_layout *py;
    bool stopped;
};

/* Name, state, what it has and what it waits for. */
void pb_describe_thread(const struct pb_described *of, const struct pb_work *w, struct pb_arena *a,
                        struct pb_thread *ret);
/* Locks and coroutines of work[at], one of n threads that may hold what it waits for. */
void pb_describe_locks(struct pb_py_codes *codes, const struct pb_work *work, size_t n, size_t at,
                       struct pb_arena *a, struct pb_thread *ret);

#endif
