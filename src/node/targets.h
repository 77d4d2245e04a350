/*
 * targets.h - processes opened for the stack reader, kept between queries.
 *
 * Owns: the opened targets; the least recently used go when there are too many.
 * Threads: any. One process is read by one thread at a time, several processes in parallel.
 * Fails: a process that cannot be read, or not in time, has no snapshot; the reason stands in
 * its result.
 * Not here: rows (tables/).
 */
#ifndef PB_NODE_TARGETS_H
#define PB_NODE_TARGETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "unwind/snapshot.h"

struct pb_targets;

struct pb_targets *pb_targets_create(void);
void pb_targets_destroy(struct pb_targets *t);

/* One process of a reading; the first two are asked for, the rest is the answer. */
struct pb_target_read {
    pid_t pid;
    uint64_t start;
    bool done;
    struct pb_snapshot snapshot; /* in the arena; valid when done and no err.code */
    struct pb_arena arena;
    struct pb_err err;
};

struct pb_target_batch;

/*
 * Reads all of them, at most timeout_ms long. What is not done by then stays out and is finished
 * behind the scenes. The batch must be dropped.
 */
struct pb_target_batch *pb_targets_read(struct pb_targets *t, const struct pb_target_read *wanted,
                                        size_t n, const struct pb_snapshot_opts *o,
                                        int timeout_ms);
/* The i-th result; NULL when it was not done in time. */
const struct pb_target_read *pb_target_batch_get(const struct pb_target_batch *b, size_t i);
void pb_target_batch_drop(struct pb_target_batch *b);

/* The last reason why a process could not be read, for probing.agents; "" when it could. */
void pb_targets_trouble(struct pb_targets *t, pid_t pid, char *buf, size_t cap);

#endif
