/*
 * Two moments: what stood where at the look before. Kept for the threads of the last looks, so
 * that asking again some time later tells what has not moved since.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/hash.h"
#include "host/text/alloc.h"
#include "host/process/proc.h"
#include "node/waits/glances.h"
#include "node/waits/internal.h"

/* A thread that is not looked at for so long begins anew. */
#define FORGET_NS (60ull * 1000000000ull)
/* Looks closer together are one. */
#define AGAIN_NS (100ull * 1000000ull)
/* A running thread is looked at a few more times at once: whether it moves at all. */
#define GLANCE_NAP_NS 12000000
/* A wait that is polled wakes up so often at most. */
#define RUNS_MIN 3
#define RUN_EVERY_NS 400000000
/* A thread that sleeps for longer is where it was. */
#define STILL_MS 1500
#define IDLE_WAKES 2
#define STATES 40 /* samples of a thread's variables that are kept */

/* What the program's own code was doing, and with what. */
struct sample {
    uint64_t hash;
    bool on_top; /* that code itself ran, not a library, with variables that are all shown */
};

struct look {
    pid_t pid, tid;
    uint64_t start;
    uint64_t place, shape; /* hashes of what is compared */
    uint64_t place_since, shape_since, news_since;
    uint64_t runs; /* how often it had been given a CPU when it was first seen there */
    uint64_t last_runs; /* … at the last look */
    int64_t wakes;      /* looks since it is in these calls before which it had run again */
    struct sample states[STATES]; /* the last ones */
    int64_t samples;
    struct pb_tallies *tallies; /* NULL until there are any */
    uint64_t last, cpu_ns;
    uint64_t import_at; /* when it was last met in an import; 0: never */
    int64_t looks;
};

struct pb_looks {
    pthread_mutex_t lock; /* guards all below */
    struct look v[PB_LOOKS_MAX];
    size_t n;
};

struct pb_looks *pb_looks_create(void)
{
    struct pb_looks *l = pb_alloc_resize(NULL, sizeof *l);

    memset(l, 0, sizeof *l);
    pthread_mutex_init(&l->lock, NULL);
    return l;
}

void pb_looks_destroy(struct pb_looks *l)
{
    if (!l)
        return;
    for (size_t i = 0; i < l->n; i++)
        free(l->v[i].tallies);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

static struct look *find(struct pb_looks *l, const struct pb_wait *w, uint64_t now)
{
    struct look *oldest = NULL;

    for (size_t i = 0; i < l->n; i++) {
        struct look *k = &l->v[i];

        if (k->pid == w->process->pid && k->tid == w->thread->tid &&
            k->start == w->process->start)
            return k;
        if (!oldest || k->last < oldest->last)
            oldest = k;
    }
    if (l->n < PB_LOOKS_MAX)
        oldest = &l->v[l->n++];
    free(oldest->tallies);
    *oldest = (struct look){.pid = w->process->pid, .tid = w->thread->tid,
                            .start = w->process->start, .last = now};
    return oldest;
}

struct marks {
    uint64_t place, shape;
    bool on_top; /* the innermost Python frame is the program's own */
    struct pb_glance met[PB_GLANCES];
    struct sample samples[PB_GLANCES];
    size_t n;
};

static uint64_t mix(uint64_t h, uint64_t v)
{
    return (h ^ v) * 0x9e3779b97f4a7c15u;
}

static void mark(const struct pb_thread *t, struct marks *m)
{
    bool own = false;

    m->place = m->shape = PB_HASH_SEED;
    for (size_t i = 0, n = 0; i < t->nframes; i++) {
        const struct pb_frame *f = &t->frames[i];

        if (f->native)
            continue;
        own = own || !pb_wait_is_library(f->file);
        m->on_top = n++ ? m->on_top : own;
        m->shape = mix(pb_hash_text(m->shape, f->func ? f->func : ""), f->address);
        m->place = mix(mix(pb_hash_text(m->place, f->func ? f->func : ""), f->address),
                       (uint64_t)f->lineno << 16 | (uint16_t)f->col_offset);
    }
}

/* Arrays and the like whose items are not shown: whether they change is not known. */
static bool is_opaque(const char *value)
{
    static const char *const parts[] = {"numpy.ndarray shape=", "device=cuda", "device=cpu at",
                                        " more] at 0x", "pandas.", "collections.deque at",
                                        "array.array at", "bytearray"};

    for (size_t i = 0; value && i < sizeof parts / sizeof *parts; i++)
        if (strstr(value, parts[i]))
            return true;
    return false;
}

/*
 * The program's own functions that run, with their variables: a loop that comes to nothing has few
 * of these states, even where it calls functions of its own.
 */
static uint64_t mark_values(const struct pb_thread *t, bool *ret_opaque)
{
    uint64_t h = PB_HASH_SEED;
    bool innermost = true;

    *ret_opaque = false;
    for (size_t i = 0; i < t->nframes; i++) {
        const struct pb_frame *f = &t->frames[i];

        if (f->native || pb_wait_is_library(f->file))
            continue;
        h = pb_hash_text(h, f->func ? f->func : "");
        for (size_t k = 0; k < f->nlocals; k++) {
            h = pb_hash_text(pb_hash_text(h, f->locals[k].name), f->locals[k].value);
            *ret_opaque = *ret_opaque || (innermost && is_opaque(f->locals[k].value));
        }
        innermost = false;
    }
    return h;
}

/* Looks at a running thread again and again; whatever differs is taken for moving. */
static void glance(struct pb_stack_cache *stacks, const struct pb_wait *w, struct marks *m,
                   int times)
{
    struct pb_snapshot_opts o = {.tid = w->thread->tid, .locals = true, .max_frames = 60};
    struct pb_stack_read wanted = {.pid = w->process->pid, .start = w->process->start};
    const struct timespec nap = {0, GLANCE_NAP_NS};
    bool first = true, opaque;

    for (int i = 0; i < times; i++) {
        struct pb_stack_batch *b = pb_stack_cache_read(stacks, &wanted, 1, &o, 1000);
        struct pb_stack_read *r = pb_stack_batch_get(b, 0);
        struct marks one = {0};

        if (r && r->err.code == PB_OK && r->snapshot.nthreads) {
            mark(&r->snapshot.threads[0], &one);
            if (first) {
                m->place = one.place;
                m->shape = one.shape;
            }
            first = false;
            m->place = one.place == m->place ? m->place : pb_clock_ns();
            m->shape = one.shape == m->shape ? m->shape : pb_clock_ns();
            m->met[m->n] = pb_glance_of(&r->snapshot.threads[0]);
            m->samples[m->n].hash = mark_values(&r->snapshot.threads[0], &opaque);
            m->samples[m->n++].on_top = one.on_top && !opaque &&
                                        r->snapshot.threads[0].state == PB_RUNNING;
        }
        pb_stack_batch_drop(b);
        if (times > 1)
            nanosleep(&nap, NULL);
    }
}

static void keep(uint64_t *mark, uint64_t *since, uint64_t seen, uint64_t now)
{
    if (*mark != seen || !*since)
        *since = now;
    *mark = seen;
}

static size_t count_samples(const struct look *k)
{
    return k->samples < STATES ? (size_t)k->samples : STATES;
}

static void add_sample(struct look *k, const struct sample *one, uint64_t now)
{
    bool known = false;

    for (size_t i = 0; i < count_samples(k); i++)
        known = known || k->states[i].hash == one->hash;
    k->news_since = known ? k->news_since : now;
    k->states[k->samples++ % STATES] = *one;
}

/* How many different ones there are among the last samples; in what part its own code ran. */
static int64_t count_states(const struct look *k, double *ret_top)
{
    size_t n = count_samples(k), top = 0;
    int64_t different = 0;

    for (size_t i = 0; i < n; i++) {
        bool known = false;

        for (size_t j = 0; j < i; j++)
            known = known || k->states[j].hash == k->states[i].hash;
        different += !known;
        top += k->states[i].on_top;
    }
    *ret_top = n ? (double)top / (double)n : 0;
    return different;
}

static void keep_tallies(struct look *k, struct pb_wait *w, const struct marks *m)
{
    if (!k->tallies && m->n) {
        k->tallies = pb_alloc_resize(NULL, sizeof *k->tallies);
        pb_tallies_init(k->tallies);
    }
    if (!k->tallies)
        return;
    for (size_t i = 0; i < m->n; i++)
        pb_tallies_add(k->tallies, &m->met[i]);
    pb_tallies_tell(k->tallies, w);
}

/* One that sleeps may be asked what it wakes up for. */
static bool may_idle(const struct pb_wait *w)
{
    return w->user && (w->kind == PB_WAIT_SLEEP || (w->timed && w->kind == PB_WAIT_EVENT));
}

static void compare(struct pb_looks *l, struct pb_wait *w, const struct marks *m, uint64_t now)
{
    struct look *k = find(l, w, now);
    uint64_t runs = 0, ns = 0;
    bool late = now - k->last > FORGET_NS;

    pb_proc_schedstat(w->process->pid, w->thread->tid, &runs, &ns);
    if (late) {
        free(k->tallies);
        *k = (struct look){.pid = k->pid, .tid = k->tid, .start = k->start};
    }
    keep(&k->place, &k->place_since, m->place, now);
    /* It comes back to the same place again and again: no standstill. Waits for the GIL and for
       locks of files that are asked for wake up. */
    if (w->kind != PB_WAIT_RUNNING && w->kind != PB_WAIT_GIL && w->kind != PB_WAIT_FILE_LOCK &&
        k->looks &&
        runs - k->runs > RUNS_MIN + (now - k->place_since) / RUN_EVERY_NS)
        k->place_since = now;
    if (k->place_since == now)
        k->runs = runs;
    keep(&k->shape, &k->shape_since, m->shape, now);
    k->wakes = k->shape_since == now ? 0 : k->wakes + (k->last_runs != runs);
    k->last_runs = runs;
    for (size_t i = 0; i < m->n; i++)
        add_sample(k, &m->samples[i], now);
    if (k->looks && now - k->last >= AGAIN_NS)
        w->cpu_pct = 100.0 * (double)(ns - k->cpu_ns) / (double)(now - k->last);
    if (!k->looks || now - k->last >= AGAIN_NS) {
        k->looks++;
        k->last = now;
        k->cpu_ns = ns;
    }
    w->looks = k->looks;
    w->same_ms = (double)(now - k->place_since) / 1e6;
    w->shape_ms = (double)(now - k->shape_since) / 1e6;
    w->news_ms = k->samples ? (double)(now - k->news_since) / 1e6 : 0;
    keep_tallies(k, w, m);
    for (size_t i = 0; i < m->n; i++)
        k->import_at = m->met[i].imports ? now : k->import_at;
    w->import_ms = k->import_at ? (double)(now - k->import_at) / 1e6 : -1;
    w->samples = (int64_t)count_samples(k);
    w->states = count_states(k, &w->top_share);
    w->idles = may_idle(w) && k->wakes >= IDLE_WAKES && w->samples > IDLE_WAKES && w->states == 1;
}

/* Threads that work and wait in turns, and are no ranks: so many are glanced at in one look. */
#define WAKING_MAX 16

static bool is_glanced_at(const struct pb_wait *w, int *waking)
{
    if (!w->user || w->kind == PB_WAIT_STOPPED)
        return false;
    if (w->kind == PB_WAIT_RUNNING)
        return true;
    if (!w->thread->is_main || w->stalled_ms >= STILL_MS)
        return false;
    return w->process->rank >= 0 || (*waking)++ < WAKING_MAX;
}

void pb_looks_compare(struct pb_looks *l, struct pb_stack_cache *stacks, struct pb_wait *v,
                      size_t n)
{
    int waking = 0, idlers = 0;

    for (size_t i = 0; i < n; i++) {
        struct pb_wait *w = &v[i];
        struct marks m = {0};

        mark(w->thread, &m);
        pb_wait_find_stall(w);
        if (is_glanced_at(w, &waking))
            glance(stacks, w, &m, PB_GLANCES);
        else if (may_idle(w) && idlers++ < WAKING_MAX)
            glance(stacks, w, &m, 1);
        pthread_mutex_lock(&l->lock);
        compare(l, w, &m, pb_clock_ns());
        pthread_mutex_unlock(&l->lock);
    }
}
