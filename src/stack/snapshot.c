#include "stack/snapshot.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "host/process/mempages.h"
#include "stack/build.h"
#include "stack/choose.h"
#include "stack/describe.h"
#include "stack/pause.h"
#include "stack/python/threads.h"
#include "stack/source.h"
#include "stack/values.h"

/* A thread whose code objects vanish while they are read is captured again. */
#define RECAPTURES 3
/* So is one that has moved on when its variables have been read, before it is held for that. */
#define REREADS 3
/* Instants tried before a stack across all threads is called torn, and the time between them. */
#define PAUSES 8
#define PAUSE_NAP_NS 200000
/* A child that was forked a moment ago has yet to take its parent's threads out of the list. */
#define EMPTY_TRIES 20
#define EMPTY_NAP_NS 1000000
/* Types and code are known by address, and an address may come to hold another. */
#define FORGET_AFTER 1000

struct pb_target {
    pid_t pid;
    struct pb_proc_status status;
    struct pb_mem mem;
    struct pb_maps maps;  /* what the native tables were made from */
    struct pb_maps fresh; /* maps of a later native snapshot: stacks come and go */
    struct pb_native *native;
    struct pb_arena arena;
    struct pb_py_location loc;
    struct pb_py_codes codes;
    uint64_t active; /* threading._active, 0 until it was found */
    unsigned long snapshots;
};

int pb_target_open(struct pb_target **ret, pid_t pid, const char *hint, struct pb_err *err)
{
    struct pb_target *t;

    if (pb_proc_check_access(pid, hint, err) < 0)
        return -1;
    t = calloc(1, sizeof *t);
    if (!t)
        return pb_err_set(err, PB_FAIL, "out of memory");
    t->pid = pid;
    pb_mem_init_process(&t->mem, pid);
    if (pb_proc_status(&t->status, pid, err) < 0 || pb_maps_read(&t->maps, pid, err) < 0 ||
        pb_py_locate(&t->loc, pid, &t->maps, &t->mem, &t->arena, err) < 0)
        goto close;
    pb_py_codes_init(&t->codes, &t->mem, &t->loc.layout);
    *ret = t;
    return 0;
close:
    pb_target_close(t);
    return pb_err_prefix(err, "%d", (int)pid);
}

void pb_target_close(struct pb_target *t)
{
    if (!t)
        return;
    pb_py_codes_finish(&t->codes);
    pb_native_destroy(t->native);
    pb_maps_finish(&t->fresh);
    pb_maps_finish(&t->maps);
    pb_arena_finish(&t->arena);
    free(t);
}

/* The first time, the maps were read a moment ago, when the target was opened. */
static int refresh_native(struct pb_target *t, struct pb_err *err)
{
    if (t->native) {
        pb_maps_finish(&t->fresh);
        if (pb_maps_read(&t->fresh, t->pid, err) < 0)
            return -1;
        if (pb_maps_same_code(&t->maps, &t->fresh))
            return 0;
        pb_native_destroy(t->native);
        t->native = NULL;
        pb_maps_finish(&t->maps);
        t->maps = t->fresh;
        memset(&t->fresh, 0, sizeof t->fresh);
    }
    return pb_native_create(&t->native, t->pid, &t->maps, &t->mem, err);
}

int pb_target_view(struct pb_target *t, struct pb_arena *a, struct pb_target_view *ret,
                   struct pb_err *err)
{
    pid_t *tids;
    int n;

    pb_maps_finish(&t->fresh);
    if (pb_maps_read(&t->fresh, t->pid, err) < 0 ||
        (n = pb_proc_threads(t->pid, a, &tids, err)) < 0)
        return -1;
    *ret = (struct pb_target_view){t->pid, &t->mem,   &t->fresh, &t->loc,
                                   &t->codes, tids, (size_t)n, 0};
    return 0;
}

/* What is read of threads while they are held. */
struct holding {
    struct pb_target *t;
    const struct pb_capture_opts *o;
    struct pb_arena *a;
};

static void read_held(void *ctx, struct pb_capture *c)
{
    struct holding *h = ctx;
    struct pb_work *w = (struct pb_work *)(void *)((char *)c - offsetof(struct pb_work, capture));

    if (pb_build_codes(&h->t->codes, h->o, w, h->a))
        pb_values_read(&h->t->codes, h->o, w, h->a);
}

/* Captures one thread and reads its code objects, again if they changed meanwhile. */
static void capture_once(struct pb_target *t, const struct pb_capture_opts *o, struct pb_work *w,
                         struct pb_arena *a)
{
    for (int i = 0; i < RECAPTURES; i++) {
        w->values = NULL; /* those of an earlier copy */
        pb_capture_thread(o, w->tid, pb_work_tstates(w), a, &w->capture);
        if (w->capture.gone || pb_build_codes(&t->codes, o, w, a))
            return;
    }
    w->capture.torn = true;
}

static void capture(struct pb_target *t, const struct pb_capture_opts *o, bool values,
                    struct pb_work *w, struct pb_arena *a)
{
    struct pb_capture_opts holding_it = *o;
    struct holding h = {t, &holding_it, a};

    for (int i = 0; i < (values ? REREADS : 1); i++) {
        capture_once(t, o, w, a);
        if (w->capture.gone || !values)
            return;
        pb_values_read(&t->codes, o, w, a);
        if (pb_values_check(&t->codes, o, w, a))
            return;
    }
    if (o->pause == PB_PAUSE_NEVER)
        return;
    holding_it.held = read_held;
    holding_it.held_ctx = &h;
    capture_once(t, &holding_it, w, a);
    if (w->capture.gone || (w->capture.stopped && w->values))
        return;
    pb_values_read(&t->codes, o, w, a);
    pb_values_check(&t->codes, o, w, a);
}

static void add_sources(const struct pb_target *t, struct pb_arena *a, struct pb_thread *th)
{
    for (size_t i = 0; i < th->nframes; i++) {
        struct pb_frame *f = &th->frames[i];

        if (!f->native)
            f->source =
                pb_source_line(t->pid, t->status.euid, f->file, f->lineno, a, &f->indentation);
    }
}

static void read_python_threads(struct pb_target *t, const pid_t *tids, size_t ntids,
                                struct pb_arena *a, struct pb_py_threads *ret)
{
    struct pb_py_reader reader = t->codes.reader;

    reader.arena = a;
    pb_py_threads_read(&t->loc, &t->mem, t->pid, tids, ntids, a, ret);
    pb_py_threads_name(&reader, ret, &t->active);
}

static bool has_any_tid(const struct pb_py_threads *threads)
{
    for (size_t i = 0; i < threads->n; i++)
        if (threads->v[i].tid)
            return true;
    return false;
}

static size_t find_threads(struct pb_target *t, const struct pb_snapshot_opts *o,
                           const pid_t *tids, size_t ntids, struct pb_arena *a,
                           struct pb_py_threads *threads, struct pb_work **ret)
{
    const struct timespec nap = {0, EMPTY_NAP_NS};
    size_t n = 0;

    for (int tries = 0; tries < EMPTY_TRIES; tries++) {
        if (tries)
            nanosleep(&nap, NULL);
        read_python_threads(t, tids, ntids, a, threads);
        n = pb_choose(t->pid, o, threads, tids, ntids, a, ret);
        if (threads->complete && has_any_tid(threads))
            break;
    }
    return n;
}

/*
 * The stacks are known by now. Values are read once, however many variables lead to them:
 * no read here finds out whether something changed since an earlier one.
 */
static void finish_threads(struct pb_target *t, const struct pb_snapshot_opts *o,
                           struct pb_work *work, size_t n, bool process_stopped,
                           struct pb_arena *a, struct pb_snapshot *ret)
{
    const struct pb_described of = {t->pid, t->status.ns_pid, &t->loc.layout, process_stopped};
    struct pb_mem_pages pages;

    pb_mem_pages_init(&pages, &t->mem);
    t->codes.reader.mem = &pages.mem;
    ret->threads = PB_NEW_N(a, struct pb_thread, n + 1);
    if (o->native)
        pb_build_native(t->native, work, n, a);
    for (size_t i = 0; i < n; i++) {
        struct pb_thread *th = &ret->threads[ret->nthreads];

        if (work[i].capture.gone)
            continue;
        pb_describe_thread(&of, &work[i], a, th);
        pb_build_frames(&t->codes, o, &work[i], a, th);
        if (o->source)
            add_sources(t, a, th);
        if (o->locks)
            pb_describe_locks(&t->codes, work, n, i, a, th);
        ret->nthreads++;
    }
    t->codes.reader.mem = &t->mem;
    pb_mem_pages_finish(&pages);
}

/* -1: there is nothing left to read. */
static int check_lives(const struct pb_target *t, struct pb_proc_stat *ret, struct pb_err *err)
{
    if (pb_proc_stat(ret, t->pid, t->pid, err) < 0)
        return -1;
    if (ret->state == 'Z' || ret->state == 'X')
        return pb_err_set(err, PB_NO_TARGET, "%d: the process has ended", (int)t->pid);
    return 0;
}

/* No thread was found, perhaps because the process has ended meanwhile. */
static int fail_thread(const struct pb_target *t, const struct pb_snapshot_opts *o,
                       const pid_t *tids, size_t ntids, struct pb_err *err)
{
    struct pb_proc_stat st;

    if (check_lives(t, &st, err) < 0)
        return -1;
    for (size_t i = 0; o->tid && i < ntids; i++)
        if (tids[i] == o->tid)
            return pb_err_set(err, PB_FAIL,
                              "thread %d runs no Python; see its C stack with -n", (int)o->tid);
    if (o->tid)
        return pb_err_set(err, PB_NO_TARGET, "%d: no thread %d; list them with -a", (int)t->pid,
                          (int)o->tid);
    return pb_err_set(err, PB_FAIL, "%d: no Python thread", (int)t->pid);
}

/* Every thread was gone when it was looked at: did the process end, or call exec? */
static int fail_empty(const struct pb_target *t, struct pb_err *err)
{
    struct pb_proc_stat st;

    if (check_lives(t, &st, err) < 0)
        return -1;
    return pb_err_set(err, PB_FAIL,
                      "%d: the Python interpreter is starting or ending; try again in a moment",
                      (int)t->pid);
}

static bool any_torn(const struct pb_work *work, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (work[i].capture.torn)
            return true;
    return false;
}

/*
 * One instant across all threads. One of them may be in the midst of a call just then: that instant
 * is no use, and another is taken. Returns how long the process was held altogether.
 */
static double capture_paused(struct pb_target *t, const struct pb_capture_opts *co,
                             struct pb_work *work, size_t n, const pid_t *tids, size_t ntids,
                             struct pb_arena *a)
{
    const struct timespec nap = {0, PAUSE_NAP_NS};
    double us = 0;

    for (int tries = 0; tries < PAUSES; tries++) {
        if (tries)
            nanosleep(&nap, NULL);
        for (size_t i = 0; i < n; i++)
            work[i].values = NULL;
        us += pb_pause_capture(co, work, n, tids, ntids, a);
        for (size_t i = 0; i < n; i++)
            if (work[i].capture.stopped)
                work[i].capture.torn |= !pb_build_codes(&t->codes, co, &work[i], a);
        if (!any_torn(work, n))
            break;
    }
    return us;
}

int pb_target_snapshot(struct pb_target *t, const struct pb_snapshot_opts *o, struct pb_arena *a,
                       struct pb_snapshot *ret, struct pb_err *err)
{
    struct pb_tracer own = {.nlate = 0};
    struct pb_capture_opts co = {.pid = t->pid,
                                 .mem = &t->mem,
                                 .py = &t->loc.layout,
                                 .pause = o->pause,
                                 .native = o->native,
                                 .locals = o->locals || o->locks,
                                 .at = o->at,
                                 .tracer = o->tracer ? o->tracer : &own};
    struct holding holding = {t, &co, a};
    uint64_t start = pb_clock_ns();
    struct pb_py_threads threads;
    struct pb_proc_stat st;
    struct pb_work *work;
    pid_t *tids;
    int ntids;
    size_t n;

    memset(ret, 0, sizeof *ret);
    if (++t->snapshots % FORGET_AFTER == 0 || pb_py_codes_are_full(&t->codes)) {
        pb_py_codes_finish(&t->codes);
        pb_py_codes_init(&t->codes, &t->mem, &t->loc.layout);
    }
    pb_build_limits(o->max_frames, &co.head, &co.tail);
    if (check_lives(t, &st, err) < 0)
        return -1;
    if ((o->native && refresh_native(t, err) < 0) ||
        (ntids = pb_proc_threads(t->pid, a, &tids, err)) < 0)
        return -1;
    co.maps = t->fresh.n ? &t->fresh : &t->maps;
    n = find_threads(t, o, tids, (size_t)ntids, a, &threads, &work);
    if (!n)
        return fail_thread(t, o, tids, (size_t)ntids, err);
    if (o->pause == PB_PAUSE_ALL && o->locals) {
        co.held = read_held;
        co.held_ctx = &holding;
    }
    if (o->pause == PB_PAUSE_ALL)
        ret->pause_us = capture_paused(t, &co, work, n, tids, (size_t)ntids, a);
    for (size_t i = 0; i < n; i++)
        if (o->pause != PB_PAUSE_ALL || !work[i].capture.stopped)
            capture(t, &co, o->locals, &work[i], a);
    finish_threads(t, o, work, n, st.state == 'T' || st.state == 't', a, ret);
    if (!ret->nthreads)
        return fail_empty(t, err);
    ret->pid = t->pid;
    ret->ns_pid = t->status.ns_pid;
    ret->python = t->loc.version;
    ret->how = t->loc.how;
    ret->module = t->loc.module;
    ret->free_threaded = t->loc.layout.free_threaded;
    ret->shutting_down = threads.shutting_down;
    ret->total_us = (double)(pb_clock_ns() - start) / 1000.0;
    return 0;
}
