/*
 * watch.h - one process that is sampled all the time.
 *
 * Owns: the sampler of the process, and its samples that are not rows yet.
 * Threads: one.
 * Fails: opening says why; a process that ends is no failure.
 * Not here: when to sample (continuous.h), rings (rings.h).
 *
 * Nothing is ever held: what changes at every look is torn, and said to be. What was learned of the
 * process is given up every hour and when it has become too much, and then learned anew.
 */
#ifndef PB_NODE_PROFILE_WATCH_H
#define PB_NODE_PROFILE_WATCH_H

#include "node/discover/discover.h"
#include "node/profile/rings.h"
#include "recording/sampler.h"

struct pb_watch;

int pb_watch_open(struct pb_watch **ret, const struct pb_store *store, double rate,
                  struct pb_err *err);
/* Its last samples become rows. NULL is fine. */
void pb_watch_close(struct pb_watch *w, struct pb_profile_rings *r);

/* Monotonic: when it should be looked at next. */
uint64_t pb_watch_due(const struct pb_watch *w);
/* Looks at every thread and writes what is finished; false: the process has ended. */
bool pb_watch_tick(struct pb_watch *w, struct pb_profile_rings *r);
/* Should it be closed and opened again? */
bool pb_watch_is_old(const struct pb_watch *w);

struct pb_watch_counts {
    uint64_t ticks, samples, torn;
};
struct pb_watch_counts pb_watch_counts(const struct pb_watch *w);

#endif
