/*
 * state.h - what the agent keeps about its collectors and rings.
 *
 * Owns: nothing itself; part of struct pb_self.
 * Threads: as said at each field.
 * Fails: never.
 * Not here: what others may call (collect.h).
 */
#ifndef PB_AGENT_COLLECT_STATE_H
#define PB_AGENT_COLLECT_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/home.h"
#include "store/writer.h"

enum { PB_COLLECTORS_MAX = 16, PB_RINGS_MAX = 128, PB_REASON_MAX = 160 };

/* One collector. */
struct pb_collector_run {
    _Atomic bool wanted;  /* by the settings */
    _Atomic bool failed;  /* until the settings change */
    _Atomic bool entered; /* its hooks are in; GIL */
    uint64_t due_ns;      /* agent's thread */
    const char *state;    /* these two under lock */
    char reason[PB_REASON_MAX];
    void *memory;
    _Atomic uint64_t spent_ns; /* of the program's threads, where that is known */
};

struct pb_ring_entry {
    struct pb_ring *ring;
    char name[PB_RING_NAME];
};

struct pb_collect {
    pthread_mutex_t lock;  /* for the fields below up to ranks; held for file work, never longer */
    _Atomic bool on;       /* rings may be made and written */
    _Atomic unsigned turn; /* counts starts: what was found impossible is tried again */
    bool follows;          /* the agent is another copy of the library; ours only writes */
    pid_t pid;
    char home[PB_HOME_MAX];
    int64_t budget; /* bytes */
    struct pb_ring_entry rings[PB_RINGS_MAX];
    size_t nrings;
    struct pb_ring_old {
        struct pb_ring *ring;
        uint64_t retired_ns;
    } old[4 * PB_RINGS_MAX]; /* the oldest first; closed when nobody can be in an append any more */
    size_t nold;
    char note[PB_REASON_MAX];
    int64_t rank, world_size, local_rank;

    struct pb_collector_run runs[PB_COLLECTORS_MAX];
    _Atomic bool status_stale, meta_stale;
    _Atomic bool settings_stale;
    _Atomic bool asked;  /* a pending call is queued */
    _Atomic bool inside; /* a thread is at it, GIL held or given away for a moment */
    bool may_import;     /* by the one that is inside */
    unsigned change_at;  /* by it, too: the collector to go on with */
    _Atomic uint64_t glance_ns;
    uint64_t look_ns, beat_ns; /* agent's thread: when next */
    uint64_t started_ns;
    int64_t started_wall_ns;
};

#endif
