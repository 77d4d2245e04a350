/*
 * internal.h - between the files of this folder: one look in the making.
 *
 * Owns: nothing. Threads: one look, one thread.
 * Fails: never.
 * Not here: what others may use (waits.h).
 */
#ifndef PB_NODE_WAITS_INTERNAL_H
#define PB_NODE_WAITS_INTERNAL_H

#include <sys/stat.h>

#include "node/waits/waits.h"

struct pb_endpoints; /* who has which pipe and socket open; made when first needed */

struct pb_wait_look {
    struct pb_arena *arena;
    struct pb_endpoints *ends;
};

/* classify.c: kind, what, peers, frames. */
void pb_wait_classify(struct pb_wait_look *l, struct pb_wait *w);

/* frames.c: top and user. */
void pb_wait_find_frames(struct pb_wait *w);
/* Kind and what, by Python frames or by native ones; false: these say nothing. */
bool pb_wait_by_frames(struct pb_wait *w);
bool pb_wait_by_native(struct pb_wait *w);
bool pb_wait_is_watcher(const struct pb_wait *w);
bool pb_wait_in_asyncio(const struct pb_wait *w);
/* The line of a suspended coroutine says more than that of the loop. */
void pb_wait_find_await(struct pb_wait_look *l, struct pb_wait *w);

/* calls.c: of a thread that is in a system call. */
void pb_wait_by_call(struct pb_wait_look *l, struct pb_wait *w);
void pb_wait_for_gil(struct pb_wait *w);
void pb_wait_add_peer(struct pb_wait *w, pid_t pid, pid_t tid);

/* descriptors.c: a wait for one descriptor, for reading or for writing. */
void pb_wait_descriptor(struct pb_wait_look *l, struct pb_wait *w, int fd, bool writes,
                        const char *verb);
/* The same for those of poll, select or epoll. */
void pb_wait_descriptors(struct pb_wait_look *l, struct pb_wait *w);
/* flock or fcntl: who has the file locked, by /proc/locks. */
void pb_wait_file_lock(struct pb_wait_look *l, struct pb_wait *w, int fd);

/* endpoints.c */
/* Processes that have the other end of a pipe or socket; 0: nobody else. */
size_t pb_endpoints_pipe(struct pb_wait_look *l, uint64_t inode, bool writers, pid_t except,
                         pid_t *ret, size_t max);
size_t pb_endpoints_socket(struct pb_wait_look *l, uint64_t inode, pid_t *ret, size_t max);
/* Type and inode of what a link leads to; asks nobody who may not answer. */
bool pb_wait_stat(int dir, const char *name, struct statx *ret);

/* sockets.c */
struct pb_socket {
    uint64_t peer;   /* inode at the other end, or of who listens there; 0: not on this machine */
    bool listens;
    bool unaccepted; /* nobody has accepted the connection yet */
    bool spoke;      /* by TCP, and something was said already */
    bool asked;      /* … by it, at last: the other end owes an answer */
    char where[64];  /* address of the other end; "": none */
};

void pb_socket_look(struct pb_arena *a, pid_t pid, uint64_t inode, struct pb_socket *ret);

/* graph.c: edges between the threads of one look, roots and cycles. */
void pb_wait_graph(struct pb_wait *v, size_t n);

/* stalls.c: stalled_ms, and on_idle_ms of whom it waits for. */
void pb_wait_find_stall(struct pb_wait *w);
void pb_wait_find_idle_peer(struct pb_wait *w);

/* looks.c: compares with the looks before. */
void pb_looks_compare(struct pb_looks *l, struct pb_stack_cache *stacks, struct pb_wait *v,
                      size_t n);

#endif
