#include "node/stacks/cache.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/home.h"
#include "host/text/alloc.h"
#include "host/os/cond.h"

/* An opened process costs what its code objects do: a megabyte or so. */
#define KEEP 32
#define WORKERS_MAX 8
#define TROUBLES 64
#define GOODBYE_MS 2000

struct entry {
    pid_t pid;
    uint64_t start;
    struct pb_target *target;
    bool busy;
    uint64_t used; /* counts uses: the lowest is the oldest */
};

struct trouble {
    pid_t pid;
    char why[160];
};

struct pb_stack_cache {
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t freed;
    struct entry v[KEEP];
    uint64_t uses;
    struct trouble troubles[TROUBLES];
    size_t next_trouble;
    size_t workers; /* workers that are at it */
};

struct pb_stack_batch {
    struct pb_stack_cache *cache;
    struct pb_snapshot_opts opts;
    uint64_t deadline;
    pthread_mutex_t lock; /* guards next, left and each done */
    pthread_cond_t ended;
    size_t n, next, left;
    _Atomic int refs; /* the asking thread, and each worker */
    struct pb_stack_read v[];
};

struct pb_stack_cache *pb_stack_cache_create(void)
{
    struct pb_stack_cache *t = pb_alloc_resize(NULL, sizeof *t);

    memset(t, 0, sizeof *t);
    pthread_mutex_init(&t->lock, NULL);
    pb_cond_init(&t->freed);
    return t;
}

void pb_stack_cache_destroy(struct pb_stack_cache *t)
{
    uint64_t deadline = pb_clock_ns() + GOODBYE_MS * 1000000ull;
    bool alone;

    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    while (t->workers && pb_cond_wait_until(&t->freed, &t->lock, deadline))
        ;
    alone = t->workers == 0;
    pthread_mutex_unlock(&t->lock);
    if (!alone)
        return; /* a worker hangs in the kernel: what it uses stays */
    for (size_t i = 0; i < KEEP; i++)
        pb_target_close(t->v[i].target);
    pthread_cond_destroy(&t->freed);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

static struct entry *find(struct pb_stack_cache *t, pid_t pid, uint64_t start)
{
    for (size_t i = 0; i < KEEP; i++)
        if (t->v[i].pid == pid && t->v[i].start == start)
            return &t->v[i];
    return NULL;
}

/* A free place, or that of the target which was not used for longest; NULL: all are busy. */
static struct entry *make_room(struct pb_stack_cache *t)
{
    struct entry *oldest = NULL;

    for (size_t i = 0; i < KEEP; i++) {
        struct entry *e = &t->v[i];

        if (!e->busy && (!e->pid || !oldest || (oldest->pid && e->used < oldest->used)))
            oldest = e;
        if (oldest && !oldest->pid)
            break;
    }
    return oldest;
}

/* Marked busy on return; its target is NULL when it must be opened. */
static struct entry *acquire(struct pb_stack_cache *t, pid_t pid, uint64_t start, uint64_t deadline)
{
    struct entry *e;

    pthread_mutex_lock(&t->lock);
    for (;;) {
        e = find(t, pid, start);
        if (!e && (e = make_room(t))) {
            pb_target_close(e->target);
            *e = (struct entry){.pid = pid, .start = start};
        }
        if (e && !e->busy)
            break;
        if (!pb_cond_wait_until(&t->freed, &t->lock, deadline)) {
            pthread_mutex_unlock(&t->lock);
            return NULL;
        }
    }
    e->busy = true;
    e->used = ++t->uses;
    pthread_mutex_unlock(&t->lock);
    return e;
}

static void note_trouble(struct pb_stack_cache *t, pid_t pid, const char *why)
{
    struct trouble *at = NULL;

    for (size_t i = 0; i < TROUBLES && !at; i++)
        if (t->troubles[i].pid == pid)
            at = &t->troubles[i];
    if (!at && *why)
        at = &t->troubles[t->next_trouble++ % TROUBLES];
    if (!at)
        return;
    at->pid = *why ? pid : 0;
    snprintf(at->why, sizeof at->why, "%s", why);
}

static void release(struct pb_stack_cache *t, struct entry *e, const struct pb_err *err)
{
    pthread_mutex_lock(&t->lock);
    note_trouble(t, e->pid, err->code == PB_OK ? "" : err->msg);
    /* After a failure it is opened anew: the process may have called exec. */
    if (err->code != PB_OK) {
        pb_target_close(e->target);
        *e = (struct entry){0};
    }
    e->busy = false;
    pthread_cond_broadcast(&t->freed);
    pthread_mutex_unlock(&t->lock);
}

static const char *copy(struct pb_stack_read *r, const char *text)
{
    return text ? pb_arena_strdup(&r->arena, text) : NULL;
}

/* Names of functions, files and variables are the target's, which others use in a moment. */
static void copy_texts(struct pb_stack_read *r)
{
    struct pb_snapshot *s = &r->snapshot;

    s->python = copy(r, s->python);
    s->how = copy(r, s->how);
    s->module = copy(r, s->module);
    for (size_t t = 0; t < s->nthreads; t++) {
        s->threads[t].name = copy(r, s->threads[t].name);
        s->threads[t].lock.name = copy(r, s->threads[t].lock.name);
        for (size_t i = 0; i < s->threads[t].nawaits; i++) {
            s->threads[t].awaits[i].func = copy(r, s->threads[t].awaits[i].func);
            s->threads[t].awaits[i].file = copy(r, s->threads[t].awaits[i].file);
        }
        for (size_t i = 0; i < s->threads[t].nframes; i++) {
            struct pb_frame *f = &s->threads[t].frames[i];

            f->func = copy(r, f->func);
            f->file = copy(r, f->file);
            f->module = copy(r, f->module);
            for (size_t k = 0; k < f->nlocals; k++) {
                f->locals[k].name = copy(r, f->locals[k].name);
                f->locals[k].value = copy(r, f->locals[k].value);
            }
        }
    }
}

static void read_once(struct entry *e, const struct pb_snapshot_opts *o, struct pb_stack_read *r)
{
    r->err = (struct pb_err){0};
    if (pb_home_start_time(r->pid) != r->start)
        pb_err_set(&r->err, PB_NO_TARGET, "%d: the process has ended", (int)r->pid);
    else if ((e->target || pb_target_open(&e->target, r->pid, NULL, &r->err) == 0) &&
             pb_target_snapshot(e->target, o, &r->arena, &r->snapshot, &r->err) == 0)
        copy_texts(r);
}

static void read_target(struct pb_stack_cache *t, const struct pb_stack_batch *b,
                        struct pb_tracer *tracer, struct pb_stack_read *r)
{
    struct pb_snapshot_opts o = b->opts;
    struct entry *e = acquire(t, r->pid, r->start, b->deadline);
    bool kept;

    if (!e) {
        pb_err_set(&r->err, PB_TIMEOUT, "%d: not read in time", (int)r->pid);
        return;
    }
    o.tracer = tracer;
    kept = e->target;
    read_once(e, &o, r);
    /* What was learnt about the interpreter before an exec is no longer true. */
    if (r->err.code == PB_FAIL && kept) {
        pb_target_close(e->target);
        e->target = NULL;
        read_once(e, &o, r);
    }
    release(t, e, &r->err);
}

void pb_stack_batch_drop(struct pb_stack_batch *b)
{
    if (!b || atomic_fetch_sub(&b->refs, 1) > 1)
        return;
    for (size_t i = 0; i < b->n; i++)
        pb_arena_finish(&b->v[i].arena);
    pthread_cond_destroy(&b->ended);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

/* Takes one process after the other until none is left. */
static void *work(void *arg)
{
    struct pb_stack_batch *b = arg;
    struct pb_stack_cache *t = b->cache;
    struct pb_tracer tracer = {.nlate = 0};

    pthread_mutex_lock(&b->lock);
    while (b->next < b->n && pb_clock_ns() < b->deadline) {
        struct pb_stack_read *r = &b->v[b->next++];

        pthread_mutex_unlock(&b->lock);
        if (r->pid)
            read_target(t, b, &tracer, r);
        pthread_mutex_lock(&b->lock);
        r->done = true;
        b->left--;
    }
    pthread_cond_signal(&b->ended);
    pthread_mutex_unlock(&b->lock);
    pb_stack_batch_drop(b);
    pthread_mutex_lock(&t->lock);
    t->workers--;
    pthread_cond_broadcast(&t->freed);
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

static void start_worker(struct pb_stack_batch *b)
{
    pthread_attr_t attr;
    pthread_t thread;

    atomic_fetch_add(&b->refs, 1);
    pthread_mutex_lock(&b->cache->lock);
    b->cache->workers++;
    pthread_mutex_unlock(&b->cache->lock);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attr, work, b) != 0)
        work(b); /* then it is done here, which may take longer */
    pthread_attr_destroy(&attr);
}

struct pb_stack_batch *pb_stack_cache_read(struct pb_stack_cache *t,
                                           const struct pb_stack_read *wanted, size_t n,
                                           const struct pb_snapshot_opts *o, int timeout_ms)
{
    struct pb_stack_batch *b = pb_alloc_resize(NULL, sizeof *b + n * sizeof *b->v);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    memset(b, 0, sizeof *b);
    b->cache = t;
    b->opts = *o;
    b->deadline = pb_clock_ns() + (uint64_t)timeout_ms * 1000000u;
    b->n = b->left = n;
    atomic_init(&b->refs, 1);
    pthread_mutex_init(&b->lock, NULL);
    pb_cond_init(&b->ended);
    memcpy(b->v, wanted, n * sizeof *b->v);
    for (size_t i = 0; i < n && i < WORKERS_MAX && (long)i < (cores > 0 ? cores : 1); i++)
        start_worker(b);
    pthread_mutex_lock(&b->lock);
    while (b->left && pb_cond_wait_until(&b->ended, &b->lock, b->deadline))
        ;
    pthread_mutex_unlock(&b->lock);
    return b;
}

struct pb_stack_read *pb_stack_batch_get(struct pb_stack_batch *b, size_t i)
{
    bool done;

    pthread_mutex_lock(&b->lock);
    done = b->v[i].done;
    pthread_mutex_unlock(&b->lock);
    return done ? &b->v[i] : NULL;
}

void pb_stack_cache_trouble(struct pb_stack_cache *t, pid_t pid, char *buf, size_t cap)
{
    buf[0] = '\0';
    pthread_mutex_lock(&t->lock);
    for (size_t i = 0; i < TROUBLES; i++)
        if (t->troubles[i].pid == pid)
            snprintf(buf, cap, "%s", t->troubles[i].why);
    pthread_mutex_unlock(&t->lock);
}
