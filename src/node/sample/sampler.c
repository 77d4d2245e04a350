#include "node/sample/sampler.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "host/text/alloc.h"
#include "host/os/cond.h"
#include "node/sample/ownstore.h"
#include "node/sample/population.h"

#define SECOND 1000000000ull
/* A round that cost c is followed by c times this of rest: 0.8 % of a core, 1.6 % for devices. */
static const uint64_t rest_factor[PB_LANES] = {[PB_LANE_MACHINE] = 125, [PB_LANE_DEVICES] = 62};
#define REST_MAX (60 * SECOND)
/* A driver that does not answer for so long is said to hang. */
#define HANGS_NS (15 * SECOND)
#define JOIN_S 3

#define PB_SAMPLER(name) extern const struct pb_sampler pb_sampler_##name;
#include "node/sample/samplers.def"
#undef PB_SAMPLER

const struct pb_sampler *const pb_sampler_list[] = {
#define PB_SAMPLER(name) &pb_sampler_##name,
#include "node/sample/samplers.def"
#undef PB_SAMPLER
    NULL,
};

enum { NSAMPLERS = sizeof pb_sampler_list / sizeof *pb_sampler_list - 1 };

/* One sampler. Only its lane's thread touches state, ring and countdown. */
struct one {
    const struct pb_sampler *is;
    void *state;
    struct pb_ring *ring;
    unsigned every, countdown;
    uint64_t last_ns;
    _Atomic uint64_t rows, ticks, cpu_ns;
    const char *phase; /* "starting", "on", "off"; phase and reason are guarded by lock */
    char reason[160];
};

struct lane {
    struct pb_samplers *all;
    enum pb_sampler_lane id;
    pthread_t thread;
    bool started;
    _Atomic uint64_t busy_since; /* monotonic; 0 at rest */
};

struct pb_samplers {
    const _Atomic int64_t *interval_ms;
    struct pb_own_store store;
    struct one ones[NSAMPLERS];
    struct lane lanes[PB_LANES];
    struct pb_population *population; /* the machine lane's */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stop;
    /* What the machine lane found, for the devices. */
    struct pb_sampled shared[PB_SAMPLED_MAX];
    size_t nshared, left_out;
    uint64_t rounds; /* rounds of the machine's lane */
    _Atomic uint64_t listing_cpu_ns;
};

/* Lock held. */
static void write_status(struct pb_samplers *s)
{
    struct pb_buf b = PB_BUF_INIT;

    pb_buf_printf(&b, "agent.state=%s\n", s->stop ? "ended" : "running");
    for (size_t i = 0; i < NSAMPLERS; i++) {
        struct one *o = &s->ones[i];

        pb_buf_printf(&b, "collector.%s=%s%s%s\n", o->is->ring.name, o->phase,
                      o->reason[0] ? ": " : "", o->reason);
    }
    pb_own_store_say(&s->store, &b);
    pb_buf_finish(&b);
}

static void set_phase(struct pb_samplers *s, struct one *o, const char *phase, const char *reason)
{
    pthread_mutex_lock(&s->lock);
    o->phase = phase;
    snprintf(o->reason, sizeof o->reason, "%.150s", reason);
    pthread_mutex_unlock(&s->lock);
}

static void start_one(struct pb_samplers *s, struct one *o)
{
    struct pb_err err = {0};
    const char *note = NULL;

    o->state = pb_alloc_resize(NULL, o->is->state_size + 1);
    memset(o->state, 0, o->is->state_size + 1);
    o->every = o->is->every_s < 1 ? 1 : (unsigned)o->is->every_s;
    if (o->is->start && o->is->start(o->state, &err) < 0) {
        set_phase(s, o, "off", err.msg);
        return;
    }
    if (pb_ring_create(&o->ring, s->store.dir, &o->is->ring, &note, &err) < 0) {
        if (o->is->stop)
            o->is->stop(o->state);
        set_phase(s, o, "off", err.msg);
        return;
    }
    set_phase(s, o, "on", note ? note : "");
}

static void stop_one(struct one *o)
{
    if (o->ring && o->is->stop)
        o->is->stop(o->state);
    pb_ring_close(o->ring);
    o->ring = NULL;
    free(o->state);
    o->state = NULL;
}

static void tick_one(struct one *o, struct pb_sample_tick *t)
{
    uint64_t before = pb_clock_work_ns();

    if (o->countdown) {
        o->countdown--;
        return;
    }
    o->countdown = o->every - 1;
    t->seconds = o->last_ns ? (double)(t->mono_ns - o->last_ns) / SECOND : 0;
    o->last_ns = t->mono_ns;
    o->is->tick(o->state, t, o->ring);
    atomic_fetch_add(&o->ticks, 1);
    atomic_fetch_add(&o->cpu_ns, pb_clock_work_ns() - before);
    atomic_store(&o->rows, pb_ring_rows(o->ring));
}

static const struct pb_sampled *read_processes(struct pb_samplers *s, uint64_t mono_ns,
                                               size_t *ret_n)
{
    const struct pb_sampled *found;
    uint64_t before = pb_clock_work_ns();

    pb_population_read(s->population, mono_ns);
    found = pb_population_processes(s->population, ret_n);
    atomic_fetch_add(&s->listing_cpu_ns, pb_clock_work_ns() - before);
    pthread_mutex_lock(&s->lock);
    memcpy(s->shared, found, *ret_n * sizeof *found);
    s->nshared = *ret_n;
    s->left_out = pb_population_omitted(s->population);
    if (!s->rounds++)
        pthread_cond_broadcast(&s->wake);
    pthread_mutex_unlock(&s->lock);
    return found;
}

/* The devices take what the machine's lane found; the first time it comes in a moment. */
static const struct pb_sampled *copy_processes(struct pb_samplers *s, struct pb_sampled *copy,
                                               size_t *ret_n)
{
    pthread_mutex_lock(&s->lock);
    while (!s->rounds && !s->stop)
        pthread_cond_wait(&s->wake, &s->lock);
    *ret_n = s->nshared;
    memcpy(copy, s->shared, s->nshared * sizeof *copy);
    pthread_mutex_unlock(&s->lock);
    for (size_t i = 0; i < *ret_n; i++) {
        copy[i].threads = NULL;
        copy[i].nthreads = 0;
    }
    return copy;
}

/* CPU time that the round took. */
static uint64_t round_of(struct lane *l, struct pb_sampled *copy)
{
    struct pb_samplers *s = l->all;
    struct pb_sample_tick t = {.now_ns = pb_clock_wall_ns(), .mono_ns = pb_clock_ns()};
    uint64_t before = pb_clock_work_ns();

    atomic_store(&l->busy_since, t.mono_ns);
    t.processes = l->id == PB_LANE_MACHINE ? read_processes(s, t.mono_ns, &t.nprocesses)
                                           : copy_processes(s, copy, &t.nprocesses);
    for (size_t i = 0; i < NSAMPLERS; i++) {
        if (s->ones[i].is->lane == l->id && s->ones[i].ring)
            tick_one(&s->ones[i], &t);
    }
    atomic_store(&l->busy_since, 0);
    return pb_clock_work_ns() - before;
}

/*
 * Sleeps until an interval, or `pause` if that is more, has passed since *at, which moves there.
 * Looks up every second, since the interval may be made shorter. False: it is time to end.
 */
static bool sleep_from(struct pb_samplers *s, uint64_t *at, uint64_t pause)
{
    uint64_t from = *at, now, interval, until;
    bool go;

    pthread_mutex_lock(&s->lock);
    for (;;) {
        interval = (uint64_t)atomic_load_explicit(s->interval_ms, memory_order_relaxed) * 1000000;
        *at = from + (interval > pause ? interval : pause);
        now = pb_clock_ns();
        if (s->stop || now >= *at)
            break;
        until = *at < now + SECOND ? *at : now + SECOND;
        pb_cond_wait_until(&s->wake, &s->lock, until);
    }
    /* A machine that slept or was too busy starts a new count instead of catching up. */
    if (now > *at + interval)
        *at = now;
    go = !s->stop;
    pthread_mutex_unlock(&s->lock);
    return go;
}

static bool any_on(struct lane *l)
{
    for (size_t i = 0; i < NSAMPLERS; i++) {
        if (l->all->ones[i].is->lane == l->id && l->all->ones[i].ring)
            return true;
    }
    return false;
}

static void *run_lane(void *arg)
{
    struct lane *l = arg;
    struct pb_samplers *s = l->all;
    struct pb_sampled *copy = pb_alloc_resize(NULL, PB_SAMPLED_MAX * sizeof *copy);
    uint64_t at = pb_clock_ns(), cost, pause = 0;
    bool first = true;

    atomic_store(&l->busy_since, at);
    for (size_t i = 0; i < NSAMPLERS; i++) {
        if (s->ones[i].is->lane == l->id)
            start_one(s, &s->ones[i]);
    }
    pthread_mutex_lock(&s->lock);
    write_status(s);
    pthread_mutex_unlock(&s->lock);
    while (any_on(l)) {
        cost = round_of(l, copy);
        /* The first round meets every process for the first time. */
        pause = first ? 0 : cost * rest_factor[l->id];
        first = false;
        pause = pause > REST_MAX ? REST_MAX : pause;
        if (!sleep_from(s, &at, pause))
            break;
    }
    atomic_store(&l->busy_since, 0);
    for (size_t i = 0; i < NSAMPLERS; i++) {
        if (s->ones[i].is->lane == l->id)
            stop_one(&s->ones[i]);
    }
    free(copy);
    return NULL;
}

static void init_wake(struct pb_samplers *s)
{
    pthread_mutex_init(&s->lock, NULL);
    pb_cond_init(&s->wake);
}

static void destroy(struct pb_samplers *s)
{
    pb_own_store_close(&s->store);
    pb_population_destroy(s->population);
    pthread_cond_destroy(&s->wake);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

int pb_samplers_start(struct pb_samplers **ret, const struct pb_samplers_opts *o,
                      struct pb_err *err)
{
    struct pb_samplers *s = pb_alloc_resize(NULL, sizeof *s);

    memset(s, 0, sizeof *s);
    s->interval_ms = o->interval_ms;
    init_wake(s);
    s->population = pb_population_create();
    for (size_t i = 0; i < NSAMPLERS; i++)
        s->ones[i] = (struct one){.is = pb_sampler_list[i], .phase = "starting"};
    if (pb_own_store_open(&s->store, o->host, o->data_dir, err) < 0) {
        destroy(s);
        return -1;
    }
    for (int i = 0; i < PB_LANES; i++) {
        struct lane *l = &s->lanes[i];

        l->all = s;
        l->id = (enum pb_sampler_lane)i;
        l->started = pthread_create(&l->thread, NULL, run_lane, l) == 0;
    }
    *ret = s;
    return 0;
}

int pb_samplers_folder(const struct pb_samplers *s)
{
    return s->store.dir;
}

void pb_samplers_stop(struct pb_samplers *s)
{
    bool stuck = false;
    struct timespec until;

    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    write_status(s);
    pthread_cond_broadcast(&s->wake);
    pthread_mutex_unlock(&s->lock);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += JOIN_S;
    for (int i = 0; i < PB_LANES; i++) {
        if (s->lanes[i].started && pthread_timedjoin_np(s->lanes[i].thread, NULL, &until) != 0) {
            pthread_detach(s->lanes[i].thread);
            stuck = true;
        }
    }
    /* A thread that hangs in a driver still uses all this; the process is about to end. */
    if (!stuck)
        destroy(s);
}

/* Lock held. */
static void describe(struct pb_samplers *s, struct one *o, struct pb_sampler_status *ret)
{
    uint64_t since = atomic_load(&s->lanes[o->is->lane].busy_since), now = pb_clock_ns();

    *ret = (struct pb_sampler_status){
        .name = o->is->ring.name,
        .state = o->phase,
        .rows = atomic_load(&o->rows),
        .ticks = atomic_load(&o->ticks),
        .cpu_ms = (double)atomic_load(&o->cpu_ns) / 1e6,
    };
    memcpy(ret->reason, o->reason, sizeof ret->reason);
    if (since && now > since + HANGS_NS && strcmp(o->phase, "off") != 0)
        snprintf(ret->reason, sizeof ret->reason, "no answer from the driver for %d s",
                 (int)((now - since) / SECOND));
}

size_t pb_samplers_status(struct pb_samplers *s, struct pb_sampler_status *ret, size_t cap)
{
    size_t n = 0;

    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < NSAMPLERS && n < cap; i++)
        describe(s, &s->ones[i], &ret[n++]);
    if (n < cap) {
        ret[n] = (struct pb_sampler_status){
            .name = "processes",
            .state = "on",
            .ticks = s->rounds,
            .cpu_ms = (double)atomic_load(&s->listing_cpu_ns) / 1e6,
        };
        snprintf(ret[n].reason, sizeof ret[n].reason, "%zu looked at", s->nshared);
        if (s->left_out)
            snprintf(ret[n].reason, sizeof ret[n].reason, "%zu looked at, %zu more are too many",
                     s->nshared, s->left_out);
        n++;
    }
    pthread_mutex_unlock(&s->lock);
    return n;
}
