/*
 * state.h - what the agent keeps about its collectors and rings.
 *
 * Owns: nothing itself; made with struct pb_self.
 * Threads: as said at each field.
 * Fails: never.
 * Not here: what others may call (collect.h).
 */
#ifndef PB_AGENT_COLLECTORS_STATE_H
#define PB_AGENT_COLLECTORS_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/collectors/progress.h"
#include "base/home.h"
#include "store/writer.h"

struct pb_collect_client;

enum { PB_COLLECTORS_MAX = 16, PB_RINGS_MAX = 128, PB_REASON_MAX = 160 };

/* One collector. */
struct pb_collector_run {
    _Atomic bool wanted;  /* the settings want it */
    _Atomic bool failed;  /* it did not work; until the settings change */
    _Atomic bool entered; /* its hooks are in; GIL */
    uint64_t due_ns;      /* agent's thread: next tick */
    const char *state;    /* "on", "off", "waiting"; guarded by lock */
    char reason[PB_REASON_MAX]; /* guarded by lock */
    void *memory;         /* state_size bytes, made at the first start and kept for ever */
    _Atomic uint64_t cost_ns; /* time of the program's threads, where that is known */
};

struct pb_ring_entry {
    struct pb_ring *ring;
    char name[PB_RING_NAME];
};

/* A ring that is not written any more, and may still be in the midst of an append. */
struct pb_ring_old {
    struct pb_ring *ring;
    uint64_t retired_ns;
};

struct pb_collect {
    pthread_mutex_t lock; /* held for file work, never longer */

    /* Guarded by lock, but for what is _Atomic. */
    _Atomic bool on;             /* rings may be made and written */
    _Atomic unsigned generation; /* counts starts: what was found impossible is tried again */
    bool follows;                /* another copy of the library is the agent; ours only writes */
    pid_t pid;
    char home[PB_HOME_MAX];
    int64_t budget;              /* bytes for all rings */
    struct pb_ring_entry rings[PB_RINGS_MAX];
    size_t nrings;
    struct pb_ring_old old[4 * PB_RINGS_MAX]; /* the oldest first */
    size_t nold;
    char note[PB_REASON_MAX];    /* what is wrong with the store */
    int64_t rank, world_size, local_rank; /* -1: not known */

    struct pb_progress_state progress;
    const struct pb_collect_client *client; /* the program's own tables (collect.h) */
    struct pb_collector_run runs[PB_COLLECTORS_MAX];
    _Atomic bool status_stale, meta_stale;  /* those files are to be written again */
    _Atomic bool settings_stale;            /* settings are to be read again */
    _Atomic bool poll_queued;    /* a pending call of the main thread is queued */
    _Atomic bool inside;         /* a thread runs collectors, GIL held or given up for a moment */
    bool may_import;             /* the thread inside is the helper, which may import modules */
    unsigned change_at;          /* collector whose hooks are changed next by the thread inside */
    _Atomic uint64_t check_ns;   /* next check for modules that were imported */
    uint64_t poll_ns, heartbeat_ns; /* agent's thread: next poll inside, next heartbeat */
    uint64_t started_ns;
    int64_t started_wall_ns;
};

#endif
