/*
 * collect.h - what a collector is: one file, one table, inside the target.
 *
 * Owns: rings of this process and their budget (setting store.budget_mb).
 * Threads: as said at each call. No call may wait without a deadline, allocate on a hot path,
 * print, or leave an exception behind.
 * Fails: a collector that fails is off; its reason stands in the store's `status` file and so in
 * probing.agents. The host never notices.
 * Not here: what the node measures from outside (node/sample/), tables that the program itself
 * fills (agent/user/user.h).
 *
 * A collector is one file, collect/<name>.c, that opens with its descriptor
 * `const struct pb_collector pb_collector_<name>`, and the columns of its table, in a header in
 * schema/ with a line in tables.def: so the node knows the table before anybody has written
 * it. Large ones have a folder: torch/ for modules and steps, comm/ for what ranks send each other.
 * docs/adding-a-collector.md is a walk through one.
 *
 * How the interpreter is reached: once a second, if any collector that is on has a `poll` or has
 * not entered yet, the agent queues one pending call, which the main thread makes between two
 * instructions. If it has not done so a second later (it is blocked, or does not notice), a helper
 * thread takes the GIL like any other thread. Hooks are put in and taken out by the helper alone:
 * the main thread may be in the midst of an import, and up to 3.11 another one inside it breaks it.
 * Modules that are awaited are looked for at the same times, and also after each garbage
 * collection, which importing a large module causes by the dozen: no import hook, no audit hook, no
 * polling of its own.
 */
#ifndef PB_AGENT_COLLECTORS_COLLECT_H
#define PB_AGENT_COLLECTORS_COLLECT_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/collectors/state.h"
#include "agent/core/self.h"
#include "base/err.h"
#include "store/writer.h"

struct pb_collector {
    const char *name;
    const char *doc;
    enum pb_setting_id on; /* the switch that turns it on and off, or PB_SETTING_COUNT: always on */
    unsigned every_ms;     /* tick interval; 0: no ticks */
    /* In place of every_ms, where a setting says it. Or NULL. */
    unsigned (*interval_ms)(const struct pb_self *self);
    /* Agent's thread, no GIL, every interval while on. Cheap: no Python, no waiting. */
    void (*tick)(struct pb_self *self, uint64_t now_ns);
    /*
     * GIL held: put hooks into the interpreter. Called when the collector is turned on and once the
     * interpreter can be entered. 0: on; 1: not yet (called again a second later, or when a module
     * named by `awaits` has been imported); -1: off, err says why. NULL: needs no interpreter. In a
     * forked child it is called again, and finds the parent's hooks in place. Modules come from
     * pb_collect_module: a Python 3.6 without threads has no GIL for the helper, and then this runs
     * on the main thread, where importing is not allowed.
     */
    int (*enter)(struct pb_self *self, struct pb_err *err);
    const char *awaits; /* "torch": enter is called when it is (or becomes) imported; or NULL */
    /* GIL held, about once a second while on and entered: a cheap look at the interpreter. */
    void (*poll)(struct pb_self *self, uint64_t now_ns);
    /* GIL held: take the hooks out again, everything as it was. Also at eject. */
    void (*leave)(struct pb_self *self);
    /* Agent's thread: settings changed. Or NULL. */
    void (*configure)(struct pb_self *self);
    /* In a forked child, async-signal-safe: forget the parent's rings and state. */
    void (*forked)(struct pb_self *self);
    size_t state_size; /* bytes of pb_collect_state() */
};

/*
 * A part of the agent that has rings of its own and is no collector: the tables of the program
 * itself (user/user.h). Set once, before the first start.
 */
struct pb_collect_client {
    /* GIL held, at every look: the agent is there. And: it leaves. */
    void (*attach)(struct pb_self *self);
    void (*detach)(struct pb_self *self);
    /* Any thread: rings are not written any more. */
    void (*forget_rings)(struct pb_self *self);
    /* In a forked child, async-signal-safe. */
    void (*forked)(struct pb_self *self);
};

/* Numbers of the collectors: PB_COLLECTOR_ID_torch and so on. */
enum pb_collector_id {
#define PB_COLLECTOR(name) PB_COLLECTOR_ID_##name,
#include "agent/collectors/collectors.def"
#undef PB_COLLECTOR
    PB_COLLECTOR_IDS
};

/* In the order of collectors.def; ends with NULL. */
extern const struct pb_collector *const pb_collectors[];

/*
 * The collector's own memory, zeroed when the library is loaded and never given back, since a hook
 * may be called at any time. NULL before the first start. Any thread.
 */
static inline void *pb_collect_state(struct pb_self *self, enum pb_collector_id id)
{
    return self->collect->runs[id].memory;
}

/*
 * The ring of a table, made at first use in this process's folder within the budget; NULL when it
 * cannot be had (the reason is noted) or nothing is to be written now. Any thread but not in a
 * signal handler. A ring may be written to from any thread until the agent stops, and does nothing
 * from then on; its memory goes at the stop after that one, so nobody keeps it across a `leave`.
 */
struct pb_ring *pb_collect_ring(struct pb_self *self, const struct pb_ring_spec *spec);
/* State of a collector for `status`: "on", "off", "waiting"; reason may be "". Any thread. */
void pb_collect_set_state(struct pb_self *self, enum pb_collector_id id, const char *state,
                          const char *reason);
/* Time of the program's own threads that a collector has spent so far, for `status`. Any thread. */
void pb_collect_set_cost(struct pb_self *self, enum pb_collector_id id, uint64_t ns);
/* What is wrong with the store, for `status`; the first one stays. Any thread. */
void pb_collect_set_note(struct pb_self *self, const char *note);
/* Who this process is in its job, once somebody knows; -1: unknown. Any thread. */
void pb_collect_set_rank(struct pb_self *self, int64_t rank, int64_t world_size,
                         int64_t local_rank);

/* GIL held: a module that is loaded, or can be; a new reference, or NULL without an exception. */
struct _object *pb_collect_module(struct pb_self *self, const char *name);
/* GIL held, after a garbage collection: has a module come that a collector awaits? */
void pb_collect_check_imports(struct pb_self *self, uint64_t now_ns);
/* GIL held: looks, and on the helper's thread enters and leaves, too. */
void pb_collect_run_inside(struct pb_self *self, bool helper);
/* GIL held, at the end: leaves all. */
void pb_collect_leave(struct pb_self *self);

/* Agent's thread. */
void pb_collect_start(struct pb_self *self); /* meta, status; turns on what settings say */
void pb_collect_tick(struct pb_self *self, uint64_t now_ns);
uint64_t pb_collect_next_ns(struct pb_self *self); /* when to tick next; UINT64_MAX never */
/* Any thread: settings changed; the agent's thread sees to it at its next tick. */
void pb_collect_settings_changed(struct pb_self *self);
/*
 * Closes the rings, at an eject or at the end of the process, and removes the folder unless it is
 * worth keeping: rows in a ring with PB_RING_KEEP, or a life of more than a minute.
 */
void pb_collect_stop(struct pb_self *self, const char *state);
/* Where another copy of the library was followed (user/user.h): nothing is written any more. */
void pb_collect_unfollow(struct pb_self *self);
/* In a forked child, async-signal-safe. */
void pb_collect_forked(struct pb_self *self);

#endif
