#include "unwind/snapshot.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/clock.h"
#include "host/mempages.h"
#include "unwind/build.h"
#include "unwind/choose.h"
#include "unwind/pause.h"
#include "unwind/python/threads.h"
#include "unwind/source.h"

/* A thread whose code objects vanish while they are read is captured again. */
#define RECAPTURES 3
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
    struct pb_maps fresh; /* as of a later native snapshot: stacks come and go */
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

/* Code appeared or went away? Then the native tables must be made anew. */
static bool same_code(const struct pb_maps *x, const struct pb_maps *y)
{
    size_t i = 0, j = 0;

    for (;;) {
        while (i < x->n && !x->v[i].exec)
            i++;
        while (j < y->n && !y->v[j].exec)
            j++;
        if (i == x->n || j == y->n)
            return i == x->n && j == y->n;
        if (x->v[i].start != y->v[j].start || x->v[i].end != y->v[j].end ||
            x->v[i].inode != y->v[j].inode)
            return false;
        i++, j++;
    }
}

/* The first time, the maps were read a moment ago, when the target was opened. */
static int refresh_native(struct pb_target *t, struct pb_err *err)
{
    if (t->native) {
        pb_maps_finish(&t->fresh);
        if (pb_maps_read(&t->fresh, t->pid, err) < 0)
            return -1;
        if (same_code(&t->maps, &t->fresh))
            return 0;
        pb_native_destroy(t->native);
        t->native = NULL;
        pb_maps_finish(&t->maps);
        t->maps = t->fresh;
        memset(&t->fresh, 0, sizeof t->fresh);
    }
    return pb_native_create(&t->native, t->pid, &t->maps, &t->mem, err);
}

/* Waits that are a thread's rest rather than waiting for something in particular. */
static bool is_rest(const struct pb_proc_wait *wait)
{
    switch (wait->nr) {
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
    case SYS_epoll_pwait:
    case SYS_accept:
    case SYS_accept4:
    case SYS_rt_sigtimedwait:
    case SYS_rt_sigsuspend:
        return true;
    case SYS_pselect6: /* without descriptors: a sleep, as time.sleep() makes it to 3.10 */
        return wait->args[0] == 0;
    case SYS_ppoll:
        return wait->args[1] == 0;
#ifdef SYS_epoll_wait /* calls that newer architectures do without */
    case SYS_epoll_wait:
    case SYS_pause:
        return true;
    case SYS_select:
        return wait->args[0] == 0;
    case SYS_poll:
        return wait->args[1] == 0;
#endif
    }
    return false;
}

enum pb_state pb_state_of(const struct pb_proc_wait *wait, bool process_stopped)
{
    if (process_stopped)
        return PB_STOPPED;
    if (!wait->blocked)
        return PB_RUNNING;
    return is_rest(wait) ? PB_IDLE : PB_WAITING;
}

const char *pb_state_name(enum pb_state state)
{
    static const char *const names[] = {
        [PB_RUNNING] = "running",
        [PB_IDLE] = "idle",
        [PB_WAITING] = "waiting",
        [PB_STOPPED] = "stopped",
    };

    return names[state];
}

static bool waits_gil(const struct pb_work *w)
{
    const struct pb_proc_wait *wait = &w->capture.wait;

    for (size_t i = 0; i < w->npy; i++)
        if (w->py[i]->gil && !w->py[i]->holds_gil && wait->blocked && wait->nr == SYS_futex &&
            wait->args[0] >= w->py[i]->gil && wait->args[0] - w->py[i]->gil < PB_PY_GIL_SIZE)
            return true;
    return false;
}

/*
 * From 3.15 on the interpreter tells the frame in which the collection began. Before, a finalizer
 * that gives the GIL away makes the next one that has it look like the collector.
 */
static bool collects(const struct pb_target *t, const struct pb_work *w)
{
    const struct pb_py_raw_stack *s = &w->capture.python;
    bool any = false;

    for (size_t i = 0; i < w->npy; i++) {
        uint64_t frame = w->py[i]->gc_frame;

        any = any || w->py[i]->collecting;
        for (size_t k = 0; frame && k < s->n; k++)
            if (s->v[k].addr == frame)
                return true;
    }
    return any && (t->loc.layout.interp_gc_frame == PB_NONE || !w->py[0]->gc_frame);
}

static const char *wait_name(pid_t pid, pid_t tid, const struct pb_proc_wait *wait,
                             struct pb_arena *a)
{
    const char *name = wait->nr >= 0 ? pb_proc_syscall_name(wait->nr) : NULL;
    char wchan[64];

    if (!wait->blocked)
        return NULL;
    if (name)
        return name;
    pb_proc_wchan(wchan, sizeof wchan, pid, tid);
    return wchan[0] ? pb_arena_strdup(a, wchan) : NULL;
}

/* Captures one thread and reads its code objects, again if they changed meanwhile. */
static void capture(struct pb_target *t, const struct pb_capture_opts *o, struct pb_work *w,
                    struct pb_arena *a)
{
    for (int i = 0; i < RECAPTURES; i++) {
        pb_capture_thread(o, w->tid, pb_work_tstates(w), a, &w->capture);
        if (w->capture.gone || pb_build_codes(&t->codes, o, w, a))
            return;
    }
    w->capture.torn = true;
}

static void describe(struct pb_target *t, const struct pb_work *w, bool process_stopped,
                     struct pb_arena *a, struct pb_thread *ret)
{
    struct pb_proc_stat st;
    struct pb_err ignored = {0};

    ret->tid = ret->ns_tid = w->tid;
    ret->python = w->npy > 0;
    ret->is_main = w->tid == t->pid;
    for (size_t i = 0; i < w->npy; i++) {
        ret->holds_gil = ret->holds_gil || w->py[i]->holds_gil;
        ret->name = ret->name ? ret->name : w->py[i]->name;
    }
    ret->collecting = collects(t, w);
    if (w->npy)
        ret->interpreter = w->py[w->capture.python.n ? w->capture.python.v[0].part : 0]->interp_id;
    ret->waits_gil = waits_gil(w);
    ret->state = pb_state_of(&w->capture.wait, process_stopped);
    ret->wait = process_stopped ? NULL : wait_name(t->pid, w->tid, &w->capture.wait, a);
    ret->torn = w->capture.torn;
    ret->pause_us = w->capture.pause_us;
    if (!ret->name && ret->is_main && w->npy)
        ret->name = "MainThread";
    if (!ret->name && pb_proc_stat(&st, t->pid, w->tid, &ignored) == 0)
        ret->name = pb_arena_strdup(a, st.comm);
    if (t->status.ns_pid != t->pid) {
        struct pb_proc_status status;

        if (pb_proc_status(&status, w->tid, &ignored) == 0)
            ret->ns_tid = status.ns_pid;
    }
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
        describe(t, &work[i], process_stopped, a, th);
        pb_build_frames(&t->codes, o, &work[i], a, th);
        if (o->source)
            add_sources(t, a, th);
        ret->nthreads++;
    }
    t->codes.reader.mem = &t->mem;
    pb_mem_pages_finish(&pages);
}

static int fail_thread(const struct pb_target *t, const struct pb_snapshot_opts *o,
                       const pid_t *tids, size_t ntids, struct pb_err *err)
{
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

    if (pb_proc_stat(&st, t->pid, t->pid, err) < 0)
        return -1;
    if (st.state == 'Z' || st.state == 'X')
        return pb_err_set(err, PB_NO_TARGET, "%d: the process has ended", (int)t->pid);
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
    struct pb_capture_opts co = {t->pid, &t->mem, NULL, &t->loc.layout,
                                 o->pause, o->native, o->locals, 0, 0};
    uint64_t start = pb_clock_ns();
    struct pb_py_threads threads;
    struct pb_proc_stat st;
    struct pb_work *work;
    pid_t *tids;
    int ntids;
    size_t n;

    memset(ret, 0, sizeof *ret);
    if (++t->snapshots % FORGET_AFTER == 0) {
        pb_py_codes_finish(&t->codes);
        pb_py_codes_init(&t->codes, &t->mem, &t->loc.layout);
    }
    pb_build_limits(o->max_frames, &co.head, &co.tail);
    if (pb_proc_stat(&st, t->pid, t->pid, err) < 0)
        return -1;
    if (st.state == 'Z' || st.state == 'X')
        return pb_err_set(err, PB_NO_TARGET, "%d: the process has ended", (int)t->pid);
    if ((o->native && refresh_native(t, err) < 0) ||
        (ntids = pb_proc_threads(t->pid, a, &tids, err)) < 0)
        return -1;
    co.maps = t->fresh.n ? &t->fresh : &t->maps;
    n = find_threads(t, o, tids, (size_t)ntids, a, &threads, &work);
    if (!n)
        return fail_thread(t, o, tids, (size_t)ntids, err);
    if (o->pause == PB_PAUSE_ALL)
        ret->pause_us = capture_paused(t, &co, work, n, tids, (size_t)ntids, a);
    for (size_t i = 0; i < n; i++)
        if (o->pause != PB_PAUSE_ALL || !work[i].capture.stopped)
            capture(t, &co, &work[i], a);
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
