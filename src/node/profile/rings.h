/*
 * rings.h - python.samples and python.stack_frames, as the profiler writes them.
 *
 * Owns: the two rings, which it makes when the first row comes.
 * Threads: one.
 * Fails: without room there are no rows, and `reason` says so; tried again a minute later.
 * Not here: which rows (watch.h).
 *
 * Frames of a stack are written once a UTC day for each process, since history is kept by days, and
 * again in each new ring: `period` tells when what was written before does not count any more.
 */
#ifndef PB_NODE_PROFILE_RINGS_H
#define PB_NODE_PROFILE_RINGS_H

#include "recording/fold.h"
#include "store/writer.h"

struct pb_profile_rings {
    int dir; /* the node's own folder; the samplers' */
    struct pb_ring *samples, *frames;
    uint64_t period;   /* number of the period, counted from 1 */
    int32_t day;       /* days since 1970 at which the period began */
    uint64_t retry_ns; /* monotonic time of the next attempt after a lack of room */
    char reason[160];
};

/* Whose rows they are. */
struct pb_profile_owner {
    pid_t pid;
    int64_t rank; /* -1: unknown */
};

void pb_profile_rings_init(struct pb_profile_rings *r, int dir);
void pb_profile_rings_finish(struct pb_profile_rings *r);

/* To be called before rows of this time are written; false: there are no rings. */
bool pb_profile_rings_ready(struct pb_profile_rings *r, int64_t wall_ns);
/* All frames of a stack; false: they did not fit, and a new period has begun. */
bool pb_profile_write_stack(struct pb_profile_rings *r, const struct pb_profile_owner *o,
                            const struct pb_stacks *s, uint32_t node, int64_t wall_ns);

struct pb_profile_row {
    int64_t wall_ns;
    double weight_ms;
    uint64_t stack_id;
    pid_t tid;
    const char *thread, *phase, *module; /* NULL: unknown */
    const struct pb_fold_row *fold;      /* other columns of the row */
};
void pb_profile_write_row(struct pb_profile_rings *r, const struct pb_profile_owner *o,
                          const struct pb_profile_row *row);

#endif
