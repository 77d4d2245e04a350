#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "recording/internal.h"

/* Pairs of reads before a thread that never shows the same chain twice is held, or given up. */
#define LIGHT_TRIES 8
#define LIGHT_TRIES_NO_PAUSE 32
/* A thread whose code objects vanish while they are read is read again. */
#define RECAPTURES 3
/* Frames kept of one stack; the middle of a deeper one is left out. */
#define DEPTH_MAX 1000

bool pb_prof_runs(const struct pb_prof_thread *t, uint64_t *ret)
{
    char text[96];
    ssize_t n = pread(t->schedstat, text, sizeof text - 1, 0);
    char *at = text;

    if (n <= 0)
        return false;
    text[n] = '\0';
    for (int i = 0; i < 2; i++) { /* behind the time on a CPU and the time waiting for one */
        at = strchr(at, ' ');
        if (!at)
            return false;
        at++;
    }
    *ret = strtoull(at, NULL, 10);
    return true;
}

/* A caller does not move while its callee lives; only the innermost frame may go on. */
static bool same_chain(const struct pb_py_raw_stack *x, const struct pb_py_raw_stack *y)
{
    if (x->n != y->n)
        return false;
    for (size_t i = 0; i < x->n; i++)
        if (x->v[i].addr != y->v[i].addr || x->v[i].code != y->v[i].code ||
            x->v[i].back != y->v[i].back || (i && x->v[i].instr != y->v[i].instr))
            return false;
    return true;
}

static bool read_chain(const struct pb_capture_opts *o, uint64_t tstate, struct pb_arena *a,
                       struct pb_py_raw_stack *ret)
{
    struct pb_py_copy copy;

    if (!pb_py_copy_thread(o->mem, o->py, tstate, a, &copy))
        return false;
    pb_py_walk(o->mem, o->py, &copy, a, ret);
    return ret->complete && !pb_py_just_begun(o->py, ret);
}

/*
 * Without a stop. What sleeps is exact when it was given no CPU meanwhile. Of a running thread the
 * line may be a moment younger than the chain, which two reads agree on; sampling wants no more.
 */
static bool read_light(const struct pb_capture_opts *o, struct pb_prof_thread *t,
                       struct pb_tstates tstates, struct pb_arena *a, struct pb_capture *c)
{
    int tries = o->pause == PB_PAUSE_NEVER ? LIGHT_TRIES_NO_PAUSE : LIGHT_TRIES;
    struct pb_py_raw_stack first;
    uint64_t runs;

    for (int i = 0; i < tries; i++) {
        memset(c, 0, sizeof *c);
        c->tid = t->tid;
        c->tstates = tstates;
        pb_proc_wait(&c->wait, o->pid, t->tid);
        if (!read_chain(o, tstates.v[0], a, &first))
            continue;
        c->python = first;
        if (c->wait.readable && c->wait.blocked && pb_prof_runs(t, &runs) && runs == t->runs)
            return true;
        if (read_chain(o, tstates.v[0], a, &c->python) && same_chain(&first, &c->python))
            return true;
        if (!pb_prof_runs(t, &t->runs))
            break;
    }
    return false;
}

/*
 * A stack that goes through several interpreters has to be put together: the reader of all does.
 * Of a thread that runs and may not be held, C frames are not known; its Python frames are.
 */
static void capture(const struct pb_capture_opts *o, struct pb_prof_thread *t,
                    struct pb_tstates tstates, struct pb_arena *a, struct pb_capture *c)
{
    bool never = o->pause == PB_PAUSE_NEVER;

    if (!o->native && tstates.n == 1) {
        if (read_light(o, t, tstates, a, c))
            return;
        if (never) {
            c->torn = true;
            return;
        }
    }
    pb_capture_thread(o, t->tid, tstates, a, c);
    if (!c->torn || !o->native || !never || tstates.n != 1)
        return;
    c->torn = !read_light(o, t, tstates, a, c);
    c->native_note = "running: needs a pause";
}

static bool waits_gil(const struct pb_prof_thread *t, const struct pb_proc_wait *wait)
{
    for (size_t i = 0; i < t->npy; i++)
        if (pb_py_wants_gil(&t->py[i], wait))
            return true;
    return false;
}

static bool holds_gil(struct pb_prof_process *p, const struct pb_prof_thread *t)
{
    for (size_t i = 0; i < t->npy; i++)
        if (pb_py_gil_holder(&p->loc, &p->mem, t->py[i].interp) == t->py[i].tstate)
            return true;
    return false;
}

static void note(struct pb_prof_process *p, struct pb_prof_thread *t, const struct pb_capture *c,
                 struct pb_recording *rec)
{
    struct pb_rec_sample *s = &t->last;

    s->state = pb_state_of(&c->wait, p->stopped);
    s->on_cpu = s->state == PB_RUNNING;
    s->holds_gil = holds_gil(p, t);
    s->waits_gil = !s->holds_gil && waits_gil(t, &c->wait);
    s->torn = c->torn;
    rec->reads++;
    rec->stops += c->stopped;
    rec->pause_us += c->pause_us;
    t->blocked = c->wait.readable && c->wait.blocked && !c->torn;
}

/* Frames that were never on a stack together tell nothing: the time is kept, the frames are not. */
static uint32_t torn_node(const struct pb_prof_process *p, struct pb_recording *rec)
{
    static const struct pb_prof_frame torn = {"<torn: changed while it was read>", "", 0, true};

    return pb_stacks_child(&rec->stacks, p->root, &torn);
}

/* Where C frames are not known, or do not reach the thread's start, a frame at the root says so. */
static uint32_t root_of(const struct pb_prof_process *p, const struct pb_thread *thread,
                        struct pb_recording *rec)
{
    struct pb_prof_frame partial = {.file = "", .native = true};
    char text[160];

    if (!thread->note)
        return p->root;
    rec->partial++;
    snprintf(text, sizeof text, "<partial: %s>", thread->note);
    partial.func = text;
    return pb_stacks_child(&rec->stacks, p->root, &partial);
}

static uint32_t node_of_stack(struct pb_prof_process *p, const struct pb_snapshot_opts *so,
                              struct pb_work *w, bool by_function, struct pb_arena *a,
                              struct pb_recording *rec)
{
    struct pb_thread thread = {0};

    if (so->native)
        pb_build_native(p->native, w, 1, a);
    pb_build_frames(&p->codes, so, w, a, &thread);
    return pb_stacks_add(&rec->stacks, root_of(p, &thread, rec), &thread, by_function);
}

bool pb_prof_read(struct pb_prof_process *p, struct pb_prof_thread *t,
                  const struct pb_sampler_opts *o, struct pb_recording *rec)
{
    struct pb_snapshot_opts so = {.all = true, .native = o->native && p->native,
                                  .max_frames = o->max_frames ? o->max_frames : DEPTH_MAX};
    struct pb_capture_opts co = {.pid = p->pid, .mem = &p->mem, .py = &p->loc.layout,
                                 .maps = p->fresh.n ? &p->fresh : &p->maps,
                                 .pause = o->no_pause ? PB_PAUSE_NEVER : PB_PAUSE_ONE,
                                 .native = so.native,
                                 .tracer = p->tracer};
    struct pb_arena arena = PB_ARENA_INIT;
    const struct pb_py_thread *parts[PB_PROF_PARTS];
    uint64_t tstates[PB_PROF_PARTS];
    struct pb_work w = {.tid = t->tid, .py = parts, .tstates = tstates, .npy = t->npy};
    bool whole = false;
    double held_us = 0;

    for (size_t i = 0; i < t->npy; i++) {
        parts[i] = &t->py[i];
        tstates[i] = t->py[i].tstate;
    }
    pb_build_limits(so.max_frames, &co.head, &co.tail);
    for (int i = 0; i < RECAPTURES && !whole && !w.capture.gone; i++) {
        capture(&co, t, pb_work_tstates(&w), &arena, &w.capture);
        held_us += w.capture.pause_us;
        whole = !w.capture.gone && pb_build_codes(&p->codes, &co, &w, &arena);
    }
    w.capture.pause_us = held_us;
    p->held_us = held_us > p->held_us ? held_us : p->held_us;
    if (!w.capture.gone) {
        w.capture.torn |= !whole;
        note(p, t, &w.capture, rec);
        t->last.node = w.capture.torn ? torn_node(p, rec)
                                      : node_of_stack(p, &so, &w, o->by_function, &arena, rec);
    }
    pb_arena_finish(&arena);
    return !w.capture.gone;
}
