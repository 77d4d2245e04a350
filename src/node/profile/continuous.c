#include "node/profile/continuous.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "host/text/alloc.h"
#include "host/os/cond.h"
#include "node/discover/discover.h"
#include "node/profile/watch.h"

#define SECOND 1000000000ull
#define LIST_NS SECOND
/* A process is not opened before it has been seen for so long: many end sooner. */
#define SETTLE_NS (2 * SECOND)
#define RETRY_NS (30 * SECOND)
#define PROCESSES_MAX 256
/* What is achieved is judged after this many seconds. */
#define SETTLED_S 10
/* After opening a process, so many times of what it took. */
#define REST_AFTER_OPEN 20

/* A probed process. Only the thread changes it, what the status shows with the lock held. */
struct one {
    struct pb_scope_process id;
    int64_t rank;
    int64_t rate; /* samples a second that its agent asks for; 0: not wanted */
    struct pb_watch *watch;
    uint64_t seen_ns, retry_ns, opened_ns;
    bool listed;
    struct pb_watch_counts counts; /* since it was opened */
    uint64_t cpu_ns;
    char why[160]; /* it cannot be read */
};

struct pb_continuous {
    struct pb_continuous_opts opts;
    struct pb_profile_rings rings;
    pthread_t thread;
    bool started;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stop;
    struct one *v; /* processes; these, n and what the status shows are guarded by lock */
    size_t n;
    char no_rings[160]; /* why nothing can be written, or "" */
    uint64_t list_ns;
    uint64_t rest_ns; /* not before then: the budget */
};

static int64_t rate_of(const struct pb_store *s)
{
    struct pb_arena a = PB_ARENA_INIT;
    const char *text = pb_store_value(s->status, "profile.rate", &a);
    const char *state = pb_store_value(s->status, "agent.state", &a);
    long long rate = text ? strtoll(text, NULL, 10) : 0;

    if (pb_store_value(s->meta, "role", &a) || (state && strcmp(state, "running") != 0))
        rate = 0;
    pb_arena_finish(&a);
    return rate < 0 ? 0 : rate > 1000 ? 1000 : rate;
}

static bool is_agent(const struct pb_store *s)
{
    struct pb_arena a = PB_ARENA_INIT;
    bool yes = s->process.live && !pb_store_value(s->meta, "role", &a);

    pb_arena_finish(&a);
    return yes;
}

static struct one *find(struct pb_continuous *c, const char *id)
{
    for (size_t i = 0; i < c->n; i++)
        if (strcmp(c->v[i].id.id, id) == 0)
            return &c->v[i];
    return NULL;
}

static void close_watch(struct pb_continuous *c, struct one *o)
{
    struct pb_watch *w = o->watch;

    pthread_mutex_lock(&c->lock);
    o->watch = NULL;
    pthread_mutex_unlock(&c->lock);
    pb_watch_close(w, &c->rings);
}

static void add_process(struct pb_continuous *c, const struct pb_store *s, uint64_t now)
{
    struct one *o = find(c, s->process.id);
    int64_t rate = rate_of(s);

    if (!o && c->n >= PROCESSES_MAX)
        return;
    if (!o) {
        struct one *v = pb_alloc_resize(NULL, (c->n + 1) * sizeof *v);

        if (c->n)
            memcpy(v, c->v, c->n * sizeof *v);
        pthread_mutex_lock(&c->lock);
        free(c->v);
        c->v = v;
        o = &v[c->n++];
        *o = (struct one){.id = s->process, .rank = s->rank, .rate = rate, .seen_ns = now};
        pthread_mutex_unlock(&c->lock);
    }
    /* A program may learn its rank after it was first seen; rows carry it. */
    if (o->rate != rate || o->rank != s->rank) {
        close_watch(c, o);
        pthread_mutex_lock(&c->lock);
        o->rate = rate;
        o->rank = s->rank;
        pthread_mutex_unlock(&c->lock);
    }
    o->listed = true;
}

static void drop_gone(struct pb_continuous *c)
{
    size_t n = 0;

    for (size_t i = 0; i < c->n; i++)
        if (!c->v[i].listed)
            close_watch(c, &c->v[i]);
    pthread_mutex_lock(&c->lock);
    for (size_t i = 0; i < c->n; i++)
        if (c->v[i].listed)
            c->v[n++] = c->v[i];
    c->n = n;
    pthread_mutex_unlock(&c->lock);
}

static void list_processes(struct pb_continuous *c, uint64_t now)
{
    struct pb_stores *stores = pb_discover_snapshot(c->opts.discover, 500);

    for (size_t i = 0; i < c->n; i++)
        c->v[i].listed = false;
    for (size_t i = 0; i < stores->nstores; i++)
        if (is_agent(stores->stores[i]))
            add_process(c, stores->stores[i], now);
    pb_stores_unref(stores);
    drop_gone(c);
    c->list_ns = now + LIST_NS;
}

static bool find_store(const struct pb_stores *stores, const struct one *o,
                       const struct pb_store **ret)
{
    for (size_t i = 0; i < stores->nstores; i++)
        if (strcmp(stores->stores[i]->process.id, o->id.id) == 0) {
            *ret = stores->stores[i];
            return true;
        }
    return false;
}

static void open_watch(struct pb_continuous *c, struct one *o, uint64_t now)
{
    struct pb_stores *stores = pb_discover_snapshot(c->opts.discover, 2000);
    uint64_t before = pb_clock_work_ns(), cost;
    const struct pb_store *store;
    struct pb_err err = {0};
    struct pb_watch *w = NULL;
    bool ok;

    ok = find_store(stores, o, &store) && pb_watch_open(&w, store, (double)o->rate, &err) == 0;
    pb_stores_unref(stores);
    cost = pb_clock_work_ns() - before;
    pthread_mutex_lock(&c->lock);
    o->watch = w;
    o->opened_ns = now;
    o->cpu_ns = 0;
    o->counts = (struct pb_watch_counts){0};
    o->retry_ns = ok ? 0 : now + RETRY_NS;
    snprintf(o->why, sizeof o->why, "%.150s", ok ? "" : err.msg);
    pthread_mutex_unlock(&c->lock);
    c->rest_ns = now + cost * REST_AFTER_OPEN;
}

/* One that should be opened and has waited long enough. */
static struct one *next_to_open(struct pb_continuous *c, uint64_t now)
{
    for (size_t i = 0; i < c->n; i++) {
        struct one *o = &c->v[i];

        if (o->rate && !o->watch && now >= o->retry_ns && now - o->seen_ns >= SETTLE_NS)
            return o;
    }
    return NULL;
}

static struct one *next_due(struct pb_continuous *c)
{
    struct one *first = NULL;

    for (size_t i = 0; i < c->n; i++)
        if (c->v[i].watch &&
            (!first || pb_watch_due(c->v[i].watch) < pb_watch_due(first->watch)))
            first = &c->v[i];
    return first;
}

static void tick(struct pb_continuous *c, struct one *o, int64_t budget)
{
    uint64_t before = pb_clock_work_ns(), cost;
    bool living = pb_watch_tick(o->watch, &c->rings);

    cost = pb_clock_work_ns() - before;
    pthread_mutex_lock(&c->lock);
    o->cpu_ns += cost;
    o->counts = pb_watch_counts(o->watch);
    memcpy(c->no_rings, c->rings.reason, sizeof c->no_rings);
    pthread_mutex_unlock(&c->lock);
    /* budget: thousandths of a per cent of a core */
    c->rest_ns = pb_clock_ns() + cost * (uint64_t)(100000 - budget) / (uint64_t)budget;
    if (!living || pb_watch_is_old(o->watch)) {
        close_watch(c, o);
        o->retry_ns = living ? 0 : UINT64_MAX;
    }
}

/* Until then, at most; false: it is time to end. */
static bool sleep_until(struct pb_continuous *c, uint64_t until)
{
    struct timespec ts = {(time_t)(until / SECOND), (long)(until % SECOND)};
    bool go;

    pthread_mutex_lock(&c->lock);
    while (!c->stop && pb_clock_ns() < until &&
           pthread_cond_timedwait(&c->wake, &c->lock, &ts) == 0)
        ;
    go = !c->stop;
    pthread_mutex_unlock(&c->lock);
    return go;
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void *run(void *arg)
{
    struct pb_continuous *c = arg;
    uint64_t until = 0;

    while (sleep_until(c, until)) {
        int64_t budget = atomic_load(c->opts.budget);
        uint64_t now = pb_clock_ns();
        struct one *o;

        if (now >= c->list_ns)
            list_processes(c, now);
        for (size_t i = 0; !budget && i < c->n; i++)
            close_watch(c, &c->v[i]);
        o = budget && now >= c->rest_ns ? next_to_open(c, now) : NULL;
        if (o)
            open_watch(c, o, now);
        o = next_due(c);
        now = pb_clock_ns();
        if (o && now >= later(pb_watch_due(o->watch), c->rest_ns))
            tick(c, o, budget);
        o = next_due(c);
        until = o ? later(pb_watch_due(o->watch), c->rest_ns) : c->list_ns;
        until = until < c->list_ns ? until : c->list_ns;
    }
    for (size_t i = 0; i < c->n; i++)
        close_watch(c, &c->v[i]);
    return NULL;
}

struct pb_continuous *pb_continuous_start(const struct pb_continuous_opts *o)
{
    struct pb_continuous *c = pb_alloc_resize(NULL, sizeof *c);

    memset(c, 0, sizeof *c);
    c->opts = *o;
    pb_profile_rings_init(&c->rings, o->dir);
    pthread_mutex_init(&c->lock, NULL);
    pb_cond_init(&c->wake);
    c->started = pthread_create(&c->thread, NULL, run, c) == 0;
    return c;
}

void pb_continuous_stop(struct pb_continuous *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    c->stop = true;
    pthread_cond_broadcast(&c->wake);
    pthread_mutex_unlock(&c->lock);
    if (c->started)
        pthread_join(c->thread, NULL);
    pb_profile_rings_finish(&c->rings);
    pthread_cond_destroy(&c->wake);
    pthread_mutex_destroy(&c->lock);
    free(c->v);
    free(c);
}

/* Lock held. */
static void describe(const struct pb_continuous *c, const struct one *o,
                     struct pb_continuous_status *ret)
{
    int64_t budget = atomic_load(c->opts.budget);
    double secs = (double)(pb_clock_ns() - o->opened_ns) / 1e9;

    *ret = (struct pb_continuous_status){.pid = o->id.pid, .rank = o->rank, .state = "waiting",
                                         .cpu_ms = (double)o->cpu_ns / 1e6};
    snprintf(ret->process, sizeof ret->process, "%s", o->id.id);
    if (!o->rate || !budget) {
        ret->state = "off";
        snprintf(ret->reason, sizeof ret->reason, "%s is 0",
                 o->rate ? "profile.budget" : "profile.rate");
    } else if (o->why[0] || c->no_rings[0]) {
        ret->state = "failed";
        snprintf(ret->reason, sizeof ret->reason, "%s", o->why[0] ? o->why : c->no_rings);
    } else if (o->watch) {
        ret->state = "on";
        ret->samples = o->counts.samples;
        ret->torn = o->counts.torn;
        if (secs > SETTLED_S && (double)o->counts.ticks < 0.8 * secs * (double)o->rate)
            snprintf(ret->reason, sizeof ret->reason, "%.1f of %lld samples a second",
                     (double)o->counts.ticks / secs, (long long)o->rate);
    }
}

size_t pb_continuous_status(struct pb_continuous *c, struct pb_continuous_status *ret, size_t cap)
{
    size_t n;

    if (!c)
        return 0;
    pthread_mutex_lock(&c->lock);
    n = c->n;
    for (size_t i = 0; i < n && i < cap; i++)
        describe(c, &c->v[i], &ret[i]);
    pthread_mutex_unlock(&c->lock);
    return n;
}
