#include "stack/core_stacks.h"

#include <string.h>

#include "base/clock.h"
#include "host/os/signals.h"
#include "stack/build.h"
#include "stack/choose.h"
#include "stack/python/threads.h"
#include "stack/values.h"

/* One look at it. */
struct look {
    struct pb_core_stacks *s;
    struct pb_core *core;
    const struct pb_snapshot_opts *o;
    struct pb_arena *a;
    struct pb_py_threads threads;
    struct pb_work *work;
    size_t n;
};

static const struct pb_core_thread *thread_of(const struct pb_core *core, pid_t tid)
{
    for (size_t i = 0; i < core->ntids; i++)
        if (core->tids[i] == tid)
            return &core->threads[i];
    return NULL;
}

/* Nothing moves in a core file: each thread is where its registers say. */
static void capture(struct look *l, struct pb_capture_opts *co, struct pb_work *w)
{
    const struct pb_core_thread *t = thread_of(l->core, w->tid);
    struct pb_tstates tstates = pb_work_tstates(w);
    struct pb_capture_at at = {.tid = w->tid};

    co->native = l->o->native && t && pb_regs_from_prstatus(&at.regs, t->registers, t->len);
    co->at = &at;
    pb_capture_thread(co, w->tid, tstates, l->a, &w->capture);
    co->at = NULL;
    if (l->o->native && !co->native)
        w->capture.native_note = "its registers are not in the core file";
    if (!pb_build_codes(&l->s->codes, co, w, l->a))
        w->capture.torn = true;
    if (l->o->locals)
        pb_values_read(&l->s->codes, co, w, l->a);
}

static void describe(const struct look *l, const struct pb_work *w, struct pb_thread *ret)
{
    const struct pb_core *core = l->core;

    ret->tid = ret->ns_tid = w->tid;
    ret->python = w->npy > 0;
    ret->is_main = w->tid == core->pid;
    for (size_t i = 0; i < w->npy; i++) {
        ret->holds_gil = ret->holds_gil || w->py[i]->holds_gil;
        ret->collecting = ret->collecting || w->py[i]->collecting;
        ret->name = ret->name ? ret->name : w->py[i]->name;
    }
    if (!ret->name && ret->is_main && w->npy)
        ret->name = "MainThread";
    if (w->npy)
        ret->interpreter = w->py[w->capture.python.n ? w->capture.python.v[0].part : 0]->interp_id;
    ret->state = PB_DUMPED;
    if (core->signal && w->tid == core->first)
        ret->wait = pb_signal_name(core->signal, l->a);
    ret->torn = w->capture.torn;
}

/* The thread that ended the process first, then the others as they were made. */
static void put_first(struct look *l)
{
    for (size_t i = 1; l->core->signal && i < l->n; i++) {
        struct pb_work w = l->work[i];

        if (w.tid != l->core->first)
            continue;
        memmove(l->work + 1, l->work, i * sizeof *l->work);
        l->work[0] = w;
        return;
    }
}

static int find_threads(struct look *l, const struct pb_snapshot_opts *o, struct pb_err *err)
{
    const struct pb_core *core = l->core;
    struct pb_py_reader reader = l->s->codes.reader;
    uint64_t active = 0;

    reader.arena = l->a;
    pb_py_threads_read(&l->s->loc, &l->core->mem, 0, core->tids, core->ntids, l->a, &l->threads);
    pb_py_threads_name(&reader, &l->threads, &active);
    l->n = pb_choose(core->pid, o, &l->threads, core->tids, core->ntids, l->a, &l->work);
    put_first(l);
    if (l->n)
        return 0;
    if (o->tid)
        return pb_err_set(err, PB_NO_TARGET, "no thread %d in it%s", (int)o->tid,
                          thread_of(core, o->tid) ? " that runs Python; see its C stack with -n"
                                                  : "; list them with -a");
    return pb_err_set(err, PB_FAIL, "no Python thread in it");
}

static int read_stacks(struct look *l, struct pb_snapshot *ret, struct pb_err *err)
{
    struct pb_core *core = l->core;
    struct pb_capture_opts co = {.pid = 0,
                                 .mem = &core->mem,
                                 .maps = &core->maps,
                                 .py = &l->s->loc.layout,
                                 .pause = PB_PAUSE_NEVER,
                                 .locals = l->o->locals};
    struct pb_native *native = NULL;

    pb_build_limits(l->o->max_frames, &co.head, &co.tail);
    if (l->o->native && pb_native_create(&native, 0, &core->maps, &core->mem, err) < 0)
        return -1;
    for (size_t i = 0; i < l->n; i++)
        capture(l, &co, &l->work[i]);
    if (native)
        pb_build_native(native, l->work, l->n, l->a);
    ret->threads = PB_NEW_N(l->a, struct pb_thread, l->n + 1);
    ret->nthreads = l->n;
    for (size_t i = 0; i < l->n; i++) {
        describe(l, &l->work[i], &ret->threads[i]);
        pb_build_frames(&l->s->codes, l->o, &l->work[i], l->a, &ret->threads[i]);
    }
    pb_native_destroy(native);
    return 0;
}

int pb_core_stacks_open(struct pb_core_stacks *s, struct pb_core *core, struct pb_err *err)
{
    *s = (struct pb_core_stacks){.core = core};
    if (pb_py_locate(&s->loc, 0, &core->maps, &core->mem, &core->arena, err) < 0)
        return -1;
    pb_py_codes_init(&s->codes, &core->mem, &s->loc.layout);
    return 0;
}

void pb_core_stacks_close(struct pb_core_stacks *s)
{
    pb_py_codes_finish(&s->codes);
}

int pb_core_stacks_read(struct pb_core_stacks *s, const struct pb_snapshot_opts *o,
                        struct pb_arena *a, struct pb_snapshot *ret, struct pb_err *err)
{
    struct pb_snapshot_opts wanted = *o;
    struct look l = {.s = s, .core = s->core, .o = &wanted, .a = a};
    uint64_t start = pb_clock_ns();

    memset(ret, 0, sizeof *ret);
    if (!wanted.all && !wanted.tid && s->core->signal)
        wanted.tid = s->core->first;
    if (find_threads(&l, &wanted, err) < 0 || read_stacks(&l, ret, err) < 0)
        return -1;
    ret->pid = ret->ns_pid = s->core->pid;
    ret->python = s->loc.version;
    ret->how = s->loc.how;
    ret->module = s->loc.module;
    ret->free_threaded = s->loc.layout.free_threaded;
    ret->shutting_down = l.threads.shutting_down;
    ret->total_us = (double)(pb_clock_ns() - start) / 1000.0;
    return 0;
}
