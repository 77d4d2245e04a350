/*
 * cache.h - processes opened for the stack reader, kept between queries.
 *
 * Owns: the opened targets; the least recently used go when there are too many.
 * Threads: any. One process is read by one thread at a time, several processes in parallel.
 * Fails: a process that cannot be read, or not in time, has no snapshot; the reason stands in
 * its result.
 * Not here: rows (tables/).
 */
#ifndef PB_NODE_STACKS_CACHE_H
#define PB_NODE_STACKS_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "stack/snapshot.h"

struct pb_stack_cache;

struct pb_stack_cache *pb_stack_cache_create(void);
void pb_stack_cache_destroy(struct pb_stack_cache *t);

/* One process of a reading; the first two are asked for, the rest is the answer. */
struct pb_stack_read {
    pid_t pid;
    uint64_t start;
    bool done;
    struct pb_snapshot snapshot; /* in the arena; valid when done and no err.code */
    struct pb_arena arena;
    struct pb_err err;
};

struct pb_stack_batch;

/*
 * Reads all of them, at most timeout_ms long. What is not done by then stays out and is finished
 * behind the scenes. The batch must be dropped.
 */
struct pb_stack_batch *pb_stack_cache_read(struct pb_stack_cache *t,
                                           const struct pb_stack_read *wanted, size_t n,
                                           const struct pb_snapshot_opts *o, int timeout_ms);
/* The i-th result; NULL when it was not done in time. One of pid 0 is done at once, empty. */
struct pb_stack_read *pb_stack_batch_get(struct pb_stack_batch *b, size_t i);
void pb_stack_batch_drop(struct pb_stack_batch *b);

/* The last reason why a process could not be read, for probing.agents; "" when it could. */
void pb_stack_cache_trouble(struct pb_stack_cache *t, pid_t pid, char *buf, size_t cap);

#endif
