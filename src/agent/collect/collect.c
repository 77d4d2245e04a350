#include "agent/collect/collect.h"

#include <string.h>
#include <unistd.h>

#include "agent/arch/symver.h"
#include "agent/chores.h"
#include "agent/collect/internal.h"
#include "agent/pages.h"
#include "agent/py/gil.h"
#include "agent/user/user.h"
#include "base/clock.h"

#define MS 1000000ull
#define LOOK_NS (1000 * MS)
#define BEAT_NS (10000 * MS)
/* A process that ended in good order after a shorter life leaves only tables of the program. */
#define WORTH_NS (60000 * MS)
#define GLANCE_NS (10 * MS)
/* The program is not kept waiting for much longer than this at a time. */
#define SLICE_NS (2 * MS)
#define LOCK_MS 200

#define PB_COLLECTOR(name) extern const struct pb_collector pb_collector_##name;
#include "agent/collect/collectors.def"
#undef PB_COLLECTOR

const struct pb_collector *const pb_collectors[] = {
#define PB_COLLECTOR(name) &pb_collector_##name,
#include "agent/collect/collectors.def"
#undef PB_COLLECTOR
    NULL,
};

_Static_assert(sizeof pb_collectors / sizeof *pb_collectors <= PB_COLLECTORS_MAX, "collectors");

void *pb_collect_state(struct pb_self *self, const struct pb_collector *c)
{
    for (int i = 0; pb_collectors[i]; i++)
        if (pb_collectors[i] == c)
            return self->collect.runs[i].memory;
    return NULL;
}

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
        struct pb_collector_run *run = &self->collect.runs[i];
        bool wanted = is_wanted(self, c), changed = wanted != run->wanted;

        run->wanted = wanted;
        if (changed) {
            run->failed = false;
            /* Off and on again in one go: its hooks are still in. */
            pb_collect_say(self, c->name,
                           !wanted ? "off" : c->enter && !run->entered ? "waiting" : "on", "");
        }
        if (changed || run->due_ns > now + interval(self, c))
            run->due_ns = now + interval(self, c);
        if (c->configure)
            c->configure(self);
    }
    self->collect.look_ns = now;
}

/* Everything that needs pages of its own is made at the first start, and kept. */
static bool make_states(struct pb_self *self)
{
    bool good = true;

    for (int i = 0; pb_collectors[i]; i++) {
        struct pb_collector_run *run = &self->collect.runs[i];

        if (!run->memory && pb_collectors[i]->state_size)
            good &= (run->memory = pb_pages_get(pb_collectors[i]->state_size)) != NULL;
    }
    return good;
}

void pb_collect_start(struct pb_self *self)
{
    struct pb_collect *c = &self->collect;
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
    c->turn++;
    c->on = true;
    read_settings(self, now);
    pthread_mutex_lock(&c->lock);
    c->meta_stale = c->status_stale = false;
    pb_collect_write_meta(self);
    pb_collect_write_status(self, "running");
    pthread_mutex_unlock(&c->lock);
    c->beat_ns = now + BEAT_NS;
}

/* Are hooks to be put in or taken out? */
static bool is_to_change(const struct pb_collector *c, const struct pb_collector_run *run)
{
    return run->entered ? !run->wanted : run->wanted && !run->failed && c->enter;
}

static bool has_business_inside(const struct pb_self *self)
{
    for (int i = 0; pb_collectors[i]; i++) {
        const struct pb_collector *c = pb_collectors[i];
        const struct pb_collector_run *run = &self->collect.runs[i];

        if (is_to_change(c, run) || (run->wanted && c->look))
            return true;
    }
    return false;
}

/* On the main thread, GIL held, between two instructions. */
static int look_inside(void *arg)
{
    struct pb_self *self = pb_self();

    (void)arg;
    self->collect.asked = false;
    if (self->life == PB_LIFE_RUNNING && !self->finalizing)
        pb_collect_inside(self, false);
    return 0;
}

/* Agent's thread. What a call is queued in goes with the interpreter, so its end must be known. */
static void ask_for_a_look(struct pb_self *self)
{
    if (!self->hooks_set && pb_gil_is_made(self))
        return;
    if (atomic_exchange(&self->collect.asked, true))
        pb_chores_add(self, PB_CHORE_COLLECT);
    else if (!pb_gil_add_pending(self, look_inside))
        self->collect.asked = false;
}

static void refresh_files(struct pb_self *self, uint64_t now)
{
    struct pb_collect *c = &self->collect;

    if (!c->meta_stale && !c->status_stale && now < c->beat_ns)
        return;
    pthread_mutex_lock(&c->lock);
    if (c->on) {
        if (atomic_exchange(&c->meta_stale, false))
            pb_collect_write_meta(self);
        if (atomic_exchange(&c->status_stale, false))
            pb_collect_write_status(self, "running");
        else if (now >= c->beat_ns)
            pb_collect_beat(self);
    }
    pthread_mutex_unlock(&c->lock);
    c->beat_ns = now + BEAT_NS;
}

/* Under lock: nothing is written from now on. */
static void let_go(struct pb_self *self)
{
    for (int i = 0; pb_collectors[i]; i++) {
        self->collect.runs[i].state = "off";
        self->collect.runs[i].reason[0] = '\0';
    }
    pb_user_forget_rings(self);
    pb_collect_retire(self);
}

/* The switch for all of them: rings stay as they are, hooks are taken out. */
static void turn_off(struct pb_self *self)
{
    struct pb_collect *c = &self->collect;

    c->on = false;
    pthread_mutex_lock(&c->lock);
    let_go(self);
    pb_collect_write_status(self, "running");
    pthread_mutex_unlock(&c->lock);
    pb_chores_add(self, PB_CHORE_COLLECT);
}

static void follow_settings(struct pb_self *self, uint64_t now)
{
    bool wanted = pb_self_setting(self, PB_SET_AGENT_COLLECT);

    if (wanted && self->collect.on)
        read_settings(self, now);
    else if (wanted)
        pb_collect_start(self);
    else if (self->collect.on)
        turn_off(self);
}

void pb_collect_tick(struct pb_self *self, uint64_t now)
{
    struct pb_collect *c = &self->collect;

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
    if (now >= c->look_ns && has_business_inside(self)) {
        ask_for_a_look(self);
        c->look_ns = now + LOOK_NS;
    }
    refresh_files(self, now);
}

uint64_t pb_collect_next_ns(struct pb_self *self)
{
    struct pb_collect *c = &self->collect;
    uint64_t next = c->beat_ns;

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
    if (has_business_inside(self) && c->look_ns < next)
        next = c->look_ns;
    return next;
}

void pb_collect_settings(struct pb_self *self)
{
    self->collect.settings_stale = true;
    pb_self_wake(self);
}

/* GIL held. In sys.modules, and not just being imported. */
static bool is_imported(const struct pb_py *py, const char *name)
{
    struct _object *modules = py->PyImport_GetModuleDict();
    struct _object *module = modules ? py->PyDict_GetItemString(modules, name) : NULL;
    struct _object *spec, *busy;
    bool done;

    if (!module)
        return false;
    spec = py->PyObject_GetAttrString(module, "__spec__");
    busy = spec ? py->PyObject_GetAttrString(spec, "_initializing") : NULL;
    done = !busy || py->PyObject_IsTrue(busy) == 0;
    py->PyErr_Clear();
    py->Py_DecRef(busy);
    py->Py_DecRef(spec);
    return done;
}

static void enter(struct pb_self *self, const struct pb_collector *c, struct pb_collector_run *run)
{
    struct pb_err err = {0};
    int rc = 1;

    if (!c->awaits || is_imported(&self->py, c->awaits))
        rc = c->enter(self, &err);
    self->py.PyErr_Clear();
    if (rc > 0) {
        pb_collect_say(self, c->name, "waiting", c->awaits ? c->awaits : "the interpreter");
        return;
    }
    run->entered = rc == 0;
    run->failed = rc < 0;
    pb_collect_say(self, c->name, rc == 0 ? "on" : "off", rc == 0 ? "" : err.msg);
}

struct _object *pb_collect_module(struct pb_self *self, const char *name)
{
    const struct pb_py *py = &self->py;
    struct _object *modules = py->PyImport_GetModuleDict();
    struct _object *module = modules ? py->PyDict_GetItemString(modules, name) : NULL;

    if (module)
        py->Py_IncRef(module);
    else if (self->collect.may_import)
        module = py->PyImport_ImportModule(name);
    py->PyErr_Clear();
    return module;
}

/* What puts hooks in or takes them out. */
static void change_hooks(struct pb_self *self, const struct pb_collector *c,
                         struct pb_collector_run *run)
{
    if (run->entered && !run->wanted) {
        run->entered = false;
        c->leave(self);
    } else if (run->wanted && !run->entered && !run->failed && c->enter) {
        enter(self, c, run);
    }
}

/* Hooks in and out. True when there is more to do, by the helper and at another time. */
static bool change_all(struct pb_self *self, bool helper)
{
    struct pb_collect *c = &self->collect;
    uint64_t began = pb_clock_ns();

    for (; pb_collectors[c->change_at]; c->change_at++) {
        const struct pb_collector *one = pb_collectors[c->change_at];
        struct pb_collector_run *run = &c->runs[c->change_at];

        if (!is_to_change(one, run))
            continue;
        if (helper || !pb_gil_is_made(self))
            change_hooks(self, one, run);
        else if (!one->awaits || is_imported(&self->py, one->awaits))
            return true;
        if (helper && pb_clock_ns() - began > SLICE_NS) {
            c->change_at++;
            return true;
        }
    }
    c->change_at = 0;
    return false;
}

void pb_collect_inside(struct pb_self *self, bool helper)
{
    struct pb_collect *c = &self->collect;
    bool left;

    if (!c->on && helper)
        pb_collect_leave(self);
    if (!c->on || atomic_exchange(&c->inside, true))
        return;
    c->may_import = helper;
    pb_user_attach(self);
    left = change_all(self, helper);
    for (int i = 0; pb_collectors[i] && !(left && helper); i++) {
        const struct pb_collector *one = pb_collectors[i];
        struct pb_collector_run *run = &c->runs[i];

        if (one->look && run->wanted && (run->entered || !one->enter))
            one->look(self, pb_clock_ns());
    }
    if (c->rank < 0)
        pb_collect_read_ranks(self, true);
    c->inside = false;
    if (left)
        pb_chores_add(self, PB_CHORE_COLLECT);
}

void pb_collect_glance(struct pb_self *self, uint64_t now)
{
    struct pb_collect *c = &self->collect;

    if (!c->on || now < c->glance_ns || c->inside)
        return;
    c->glance_ns = now + GLANCE_NS;
    for (int i = 0; pb_collectors[i]; i++) {
        const struct pb_collector *one = pb_collectors[i];

        if (one->awaits && !c->runs[i].entered && is_to_change(one, &c->runs[i]) &&
            is_imported(&self->py, one->awaits)) {
            pb_chores_add(self, PB_CHORE_COLLECT);
            return;
        }
    }
}

void pb_collect_leave(struct pb_self *self)
{
    pb_user_detach(self);
    for (int i = 0; pb_collectors[i]; i++)
        if (atomic_exchange(&self->collect.runs[i].entered, false))
            pb_collectors[i]->leave(self);
    self->py.PyErr_Clear();
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
    struct pb_collect *c = &self->collect;
    bool kept = false;
    int folder;

    if (!atomic_exchange(&c->on, false) || !lock_in_time(c))
        return;
    let_go(self);
    folder = pb_collect_folder(c);
    if (folder >= 0) {
        kept = pb_collect_ring_bytes(folder) > 0 &&
               (pb_clock_ns() - c->started_ns > WORTH_NS || pb_collect_is_kept(folder));
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
    struct pb_collect *c = &self->collect;

    if (!c->follows)
        return;
    c->on = c->follows = false;
    pthread_mutex_lock(&c->lock);
    let_go(self);
    c->home[0] = '\0';
    pthread_mutex_unlock(&c->lock);
}

void pb_collect_forked(struct pb_self *self)
{
    struct pb_collect *c = &self->collect;

    pthread_mutex_init(&c->lock, NULL);
    c->on = c->follows = false;
    for (size_t i = 0; i < c->nrings; i++)
        pb_ring_abandon(c->rings[i].ring);
    c->nrings = c->nold = 0;
    pb_user_forked(self);
    for (int i = 0; pb_collectors[i]; i++) {
        if (pb_collectors[i]->forked && c->runs[i].memory)
            pb_collectors[i]->forked(self);
        c->runs[i].entered = false;
    }
    c->change_at = 0;
    c->asked = c->inside = c->settings_stale = c->status_stale = c->meta_stale = false;
    c->home[0] = '\0';
}
