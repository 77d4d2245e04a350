/*
 * fold.h - samples of one process on their way to a table: few rows that say the same.
 *
 * Owns: the rows that are not finished.
 * Threads: one.
 * Fails: never.
 * Not here: rings and names (node/profile/), where samples come from (sampler.h).
 *
 * Within a bucket of a second, samples of one thread that agree in all but their time are one row.
 * A bucket lasts longer where a process does so many different things that it would make more than
 * PB_FOLD_ROWS_A_SECOND. A thread that goes on doing one thing has rows of one, two, four, … up to
 * 60 seconds: one that waits for an hour costs 65 rows, and soon after it has begun there is one.
 *
 * A row covers the time from begin_ns on, weight_ns long where the thread did nothing else.
 */
#ifndef PB_RECORDING_FOLD_H
#define PB_RECORDING_FOLD_H

#include "recording/recording.h"

enum { PB_FOLD_ROWS_A_SECOND = 64 };

/* What the program said about itself when a sample was taken. */
struct pb_fold_mark {
    int64_t step;           /* -1: unknown */
    uint32_t phase, module; /* numbers of the caller's, 0: unknown */
};

struct pb_fold_row {
    uint64_t begin_ns, weight_ns; /* since the start of the recording */
    uint32_t thread, node;        /* numbers in the recording */
    uint32_t count;               /* samples */
    uint32_t phase, module;
    int64_t step; /* in which it began */
    uint8_t state;
    bool on_cpu, holds_gil, waits_gil, torn;
};

struct pb_fold {
    struct pb_fold_row *rows;
    size_t nrows, cap;
    struct pb_prof_index index; /* index of rows, by what they say */
    uint64_t *runs_ns; /* by thread: how long its row may grow if it is the only one; 0: a bucket */
    size_t nruns;
    uint64_t bucket_ns;         /* when the bucket began; 0: none has */
    int64_t step;               /* the last one that was told, -1 before */
    uint64_t step_ns;           /* when it began */
    bool step_ended;            /* one that lasted longer than a bucket has */
};

typedef void pb_fold_emit(void *arg, const struct pb_fold_row *row);

void pb_fold_init(struct pb_fold *f);
void pb_fold_finish(struct pb_fold *f);

void pb_fold_add(struct pb_fold *f, const struct pb_rec_sample *s, const struct pb_fold_mark *mark);
/* Hands out what is finished at now_ns, everything if `all`, in the order in which it began. */
void pb_fold_flush(struct pb_fold *f, uint64_t now_ns, bool all, pb_fold_emit *emit, void *arg);

#endif
