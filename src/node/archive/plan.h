/*
 * plan.h - which rows of a ring the next part of history holds.
 *
 * Owns: nothing; a job and its plan are the caller's.
 * Threads: the archive's one.
 * Fails: never; a plan may be empty.
 * Not here: writing the part (seal.c).
 */
#ifndef PB_NODE_ARCHIVE_PLAN_H
#define PB_NODE_ARCHIVE_PLAN_H

#include "node/archive/internal.h"

/* One look at one ring. */
struct pb_seal_job {
    struct pb_archive *a;
    struct pb_store_ring *ring;
    struct pb_series *series;
    bool alive, final;
    bool late; /* others have waited long enough: only what cannot wait */
    uint64_t now_ns;
    int64_t wall_ns;
    uint64_t next;
    size_t column; /* the time of a row; SIZE_MAX: it has none */
};

/* A part in the making. */
struct pb_seal_plan {
    struct pb_part part;
    uint64_t whole;   /* rows in it */
    uint64_t skipped; /* rows passed over */
    uint64_t end;     /* behind the last row looked at */
};

/* Has the ring had its share of this look? Whatever it holds, others get their turn. */
bool pb_seal_is_over_budget(const struct pb_seal_job *j);
/* What the next part holds, from row `first` on. Nothing when whole is 0. */
void pb_seal_plan_part(struct pb_seal_job *j, uint64_t first, struct pb_seal_plan *p);

#endif
