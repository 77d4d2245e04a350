#include "agent/collectors/collect.h"

#include <string.h>
#include <unistd.h>

#include "agent/arch/symver.h"
#include "agent/collectors/internal.h"
#include "agent/core/gil_tasks.h"
#include "base/pages.h"
#include "agent/core/gil.h"
#include "base/clock.h"

#define MS 1000000ull
#define POLL_NS (1000 * MS)
#define HEARTBEAT_NS (10000 * MS)
/* A process that ended in good order after a shorter life leaves only rings with PB_RING_KEEP. */
#define KEEP_NS (60000 * MS)
#define LOCK_MS 200

#define PB_COLLECTOR(name) extern const struct pb_collector pb_collector_##name;
#include "agent/collectors/collectors.def"
#undef PB_COLLECTOR

const struct pb_collector *const pb_collectors[] = {
#define PB_COLLECTOR(name) &pb_collector_##name,
#include "agent/collectors/collectors.def"
#undef PB_COLLECTOR
    NULL,
};

_Static_assert((int)PB_COLLECTOR_IDS <= (int)PB_COLLECTORS_MAX, "collectors");

static bool is_wanted(const struct pb_self *self, const struct pb_collector *c)
{
    return c->on == PB_SETTING_COUNT || pb_self_setting(self, c->on);
}

static uint64_t interval(const struct pb_self *self, const struct pb_collector *c)
{
    return MS * (c->interval_ms ? c->interval_ms(self) : c->every_ms);
}

/* Reads the switches; a collector that failed gets another chance when it is switched. */
static void read_settings(struct pb_self *self, uint64_t now)
{
    for (int i = 0; pb_collectors[i]; i++) {
        const struct pb_collector *c = pb_collectors[i];
        struct pb_collector_run *run = &self->collect->runs[i];
        bool wanted = is_wanted(self, c), changed = wanted != run->wanted;

        run->wanted = wanted;
        if (changed) {
            run->failed = false;
            /* Off and on again in one go: its hooks are still in. */
            pb_collect_set_state(self, (enum pb_collector_id)i,
                           !wanted ? "off" : c->enter && !run->entered ? "waiting" : "on", "");
        }
        if (changed || run->due_ns > now + interval(self, c))
            run->due_ns = now + interval(self, c);
        if (c->configure)
            c->configure(self);
    }
    self->collect->poll_ns = now;
    self->collect->status_stale = true; /* the node reads settings of its own there */
}

/* Everything that needs pages of its own is made at the first start, and kept. */
static bool make_states(struct pb_self *self)
{
    bool good = pb_progress_prepare(self);

    for (int i = 0; pb_collectors[i]; i++) {
        struct pb_collector_run *run = &self->collect->runs[i];

        if (!run->memory && pb_collectors[i]->state_size)
            good &= (run->memory = pb_pages_get(pb_collectors[i]->state_size)) != NULL;
    }
    return good;
}

void pb_collect_start(struct pb_self *self)
{
    struct pb_collect *c = self->collect;
    uint64_t now = pb_clock_ns();

    if (!pb_self_setting(self, PB_SET_AGENT_COLLECT) || !self->home[0] || !make_states(self))
        return;
    pb_collect_unfollow(self);
    pthread_mutex_lock(&c->lock);
    memcpy(c->home, self->home, sizeof c->home);
    c->budget = pb_self_setting(self, PB_SET_STORE_BUDGET) << 20;
    c->note[0] = '\0';
    c->started_ns = now;
    c->started_wall_ns = pb_clock_wall_ns();
    c->rank = c->world_size = c->local_rank = -1;
    for (int i = 0; pb_collectors[i]; i++)
        c->runs[i].wanted = c->runs[i].failed = false;
    pb_collect_make_room(self);
    pthread_mutex_unlock(&c->lock);
    pb_collect_read_ranks(self, false);
    c->pid = getpid();
    c->follows = false;
    c->generation++;
    c->on = true;
    read_settings(self, now);
    pthread_mutex_lock(&c->lock);
    c->meta_stale = c->status_stale = false;
    pb_collect_write_meta(self);
    pb_collect_write_status(self, "running");
    pthread_mutex_unlock(&c->lock);
    c->heartbeat_ns = now + HEARTBEAT_NS;
}

bool pb_collect_must_change(const struct pb_collector *c, const struct pb_collector_run *run)
{
    return run->entered ? !run->wanted : run->wanted && !run->failed && c->enter;
}

/* Whether a collector has something to do in the interpreter. */
static bool must_poll(const struct pb_self *self)
{
    for (int i = 0; pb_collectors[i]; i++) {
        const struct pb_collector *c = pb_collectors[i];
        const struct pb_collector_run *run = &self->collect->runs[i];

        if (pb_collect_must_change(c, run) || (run->wanted && c->poll))
            return true;
    }
    return false;
}

/* On the main thread, GIL held, between two instructions. */
static int poll_inside(void *arg)
{
    struct pb_self *self = pb_self();

    (void)arg;
    self->collect->poll_queued = false;
    if (self->life == PB_LIFE_RUNNING && !self->finalizing)
        pb_collect_run_inside(self, false);
    return 0;
}

/* The queue of pending calls goes with the interpreter, so its end must be known. */
static void queue_poll(struct pb_self *self)
{
    if (!self->hooks_set && pb_gil_is_made(self))
        return;
    if (atomic_exchange(&self->collect->poll_queued, true))
        pb_gil_task_add(self, PB_GIL_TASK_COLLECT);
    else if (!pb_gil_add_pending(self, poll_inside))
        self->collect->poll_queued = false;
}

static void refresh_files(struct pb_self *self, uint64_t now)
{
    struct pb_collect *c = self->collect;

    if (!c->meta_stale && !c->status_stale && now < c->heartbeat_ns)
        return;
    pthread_mutex_lock(&c->lock);
    if (c->on) {
        if (atomic_exchange(&c->meta_stale, false))
            pb_collect_write_meta(self);
        if (atomic_exchange(&c->status_stale, false))
            pb_collect_write_status(self, "running");
        else if (now >= c->heartbeat_ns)
            pb_collect_heartbeat(self);
    }
    pthread_mutex_unlock(&c->lock);
    c->heartbeat_ns = now + HEARTBEAT_NS;
}

/* Nothing is written from now on. keep: the process ends. Called with lock held. */
static void stop_writing(struct pb_self *self, bool keep)
{
    for (int i = 0; pb_collectors[i]; i++) {
        self->collect->runs[i].state = "off";
        self->collect->runs[i].reason[0] = '\0';
    }
    self->collect->client->forget_rings(self);
    pb_collect_retire_rings(self);
    pb_progress_retire(self, keep);
}

/* The switch for all of them: rings stay as they are, hooks are taken out. */
static void turn_off(struct pb_self *self)
{
    struct pb_collect *c = self->collect;

    c->on = false;
    pthread_mutex_lock(&c->lock);
    stop_writing(self, false);
    pb_collect_write_status(self, "running");
    pthread_mutex_unlock(&c->lock);
    pb_gil_task_add(self, PB_GIL_TASK_COLLECT);
}

static void follow_settings(struct pb_self *self, uint64_t now)
{
    bool wanted = pb_self_setting(self, PB_SET_AGENT_COLLECT);

    if (wanted && self->collect->on)
        read_settings(self, now);
    else if (wanted)
        pb_collect_start(self);
    else if (self->collect->on)
        turn_off(self);
}

void pb_collect_tick(struct pb_self *self, uint64_t now)
{
    struct pb_collect *c = self->collect;

    if (atomic_exchange(&c->settings_stale, false))
        follow_settings(self, now);
    if (!c->on)
        return;
    for (int i = 0; pb_collectors[i]; i++) {
        const struct pb_collector *one = pb_collectors[i];
        struct pb_collector_run *run = &c->runs[i];

        if (!run->wanted || run->failed || !one->tick || now < run->due_ns)
            continue;
        run->due_ns += interval(self, one);
        if (run->due_ns < now) /* the machine slept: one row, not many */
            run->due_ns = now + interval(self, one);
        one->tick(self, now);
    }
    if (now >= c->poll_ns && must_poll(self)) {
        queue_poll(self);
        c->poll_ns = now + POLL_NS;
    }
    refresh_files(self, now);
}

uint64_t pb_collect_next_ns(struct pb_self *self)
{
    struct pb_collect *c = self->collect;
    uint64_t next = c->heartbeat_ns;

    if (c->settings_stale)
        return 0;
    if (!c->on)
        return UINT64_MAX;
    if (c->status_stale || c->meta_stale)
        return 0;
    for (int i = 0; pb_collectors[i]; i++) {
        const struct pb_collector_run *run = &c->runs[i];

        if (run->wanted && !run->failed && pb_collectors[i]->tick && run->due_ns < next)
            next = run->due_ns;
    }
    if (must_poll(self) && c->poll_ns < next)
        next = c->poll_ns;
    return next;
}

void pb_collect_settings_changed(struct pb_self *self)
{
    self->collect->settings_stale = true;
    pb_self_wake(self);
}

/* At exit the thread that has the lock may be the very one that a signal handler ends. */
static bool lock_in_time(struct pb_collect *c)
{
    for (int i = 0; i < LOCK_MS; i++) {
        if (pthread_mutex_trylock(&c->lock) == 0)
            return true;
        usleep(1000);
    }
    return false;
}

void pb_collect_stop(struct pb_self *self, const char *state)
{
    struct pb_collect *c = self->collect;
    bool kept = false;
    int folder;

    if (!atomic_exchange(&c->on, false) || !lock_in_time(c))
        return;
    stop_writing(self, strcmp(state, "ended") == 0);
    folder = pb_collect_folder(c);
    if (folder >= 0) {
        kept = pb_collect_ring_bytes(folder) > 0 &&
               (pb_clock_ns() - c->started_ns > KEEP_NS || pb_collect_is_kept(folder));
        close(folder);
    }
    if (kept)
        pb_collect_write_status(self, state);
    else
        pb_home_erase(c->home);
    c->home[0] = '\0';
    pthread_mutex_unlock(&c->lock);
}

void pb_collect_unfollow(struct pb_self *self)
{
    struct pb_collect *c = self->collect;

    if (!c->follows)
        return;
    c->on = c->follows = false;
    pthread_mutex_lock(&c->lock);
    stop_writing(self, true);
    c->home[0] = '\0';
    pthread_mutex_unlock(&c->lock);
}

void pb_collect_forked(struct pb_self *self)
{
    struct pb_collect *c = self->collect;

    pthread_mutex_init(&c->lock, NULL);
    c->on = c->follows = false;
    for (size_t i = 0; i < c->nrings; i++)
        pb_ring_abandon(c->rings[i].ring);
    c->nrings = c->nold = 0;
    pb_progress_forked(self);
    c->client->forked(self);
    for (int i = 0; pb_collectors[i]; i++) {
        if (pb_collectors[i]->forked && c->runs[i].memory)
            pb_collectors[i]->forked(self);
        c->runs[i].entered = false;
    }
    c->change_at = 0;
    c->poll_queued = c->inside = c->settings_stale = c->status_stale = c->meta_stale = false;
    c->home[0] = '\0';
}
