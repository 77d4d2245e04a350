/*
 * continuous.h - stacks of every probed process, sampled all the time at a low rate.
 *
 * Owns: a thread, what is open of the processes, and the rings of python.samples and
 * python.stack_frames in the node's own folder.
 * Threads: its own; pb_continuous_status from any.
 * Fails: a process that cannot be read is left out, with a reason in probing.agents.
 * Not here: recordings that somebody asks for (cli/commands/flamegraph.c), SQL.
 *
 * The rate is the setting profile.rate of each process, which its agent says in `status`. All
 * sampling together keeps to profile.budget: after a look that took long the next one waits. A
 * sample has the weight of the time since the last, so that shares stay true.
 */
#ifndef PB_NODE_PROFILE_CONTINUOUS_H
#define PB_NODE_PROFILE_CONTINUOUS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "node/discover/scope.h"

struct pb_continuous;
struct pb_discover;

struct pb_continuous_opts {
    int dir; /* the node's own folder, which outlives it */
    struct pb_discover *discover;
    const _Atomic int64_t *budget; /* the setting profile.budget; read at each look */
};
struct pb_continuous *pb_continuous_start(const struct pb_continuous_opts *o);
void pb_continuous_stop(struct pb_continuous *c); /* NULL is fine */

struct pb_continuous_status {
    char process[PB_PROCESS_ID_MAX];
    int pid;
    int64_t rank;
    const char *state;   /* "on", "off", "failed", "waiting" */
    char reason[160];    /* why it is in this state, or the rate it reaches if less than asked */
    uint64_t samples, torn;
    double cpu_ms;
};
/* One for each probed process; returns how many there are, of which at most cap are filled in. */
size_t pb_continuous_status(struct pb_continuous *c, struct pb_continuous_status *ret, size_t cap);

#endif
