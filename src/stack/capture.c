#include "stack/capture.h"

#include <string.h>

#include "base/clock.h"
#include "stack/copy.h"
#include "stack/python/join.h"

/* While the thread is held the copy must stay short. */
#define STACK_MAX_HELD (1u << 20)
/* Enough for nearly every stack; memory for more is taken during the stop. */
#define STACK_BUFFER (128u << 10)
/*
 * Equal reads in a row before a running thread is believed. Two reads can be
 * torn in the same way when a short loop repeats itself, the more so to 3.10,
 * where frames are read one by one; four were not enough for that.
 */
#define EQUAL_READS 10
#define EQUAL_READS_NO_PAUSE 16
#define TRIES 3
#define TRIES_NO_PAUSE 50
/* A thread that does little but call is held in the midst of a call one time in five. */
#define TRIES_TORN 16
/* Mapping memory has to wait for our own reading: such sleep is short, and comes again. */
#define TRIES_WOKEN 40
/* Where another tool holds it: it is released in an instant, unless that is a debugger. */
#define TRIES_HELD 20
#define HELD_NS 100000000u
/* For a thread that was held in the midst of a call to move on, on a CPU that others want, too. */
#define MOVE_ON_NS 20000000u
#define MOVE_ON_NAP_NS 100000

/* What the other interpreters have of a thread's stack; they stand still while one of them runs. */
static void add_parts(const struct pb_capture_opts *o, struct pb_arena *a, struct pb_capture *c,
                      const struct pb_py_copy *first)
{
    size_t n = c->tstates.n;
    struct pb_py_part *parts = PB_NEW_N(a, struct pb_py_part, n);

    parts[0] = (struct pb_py_part){c->python, first->cframe};
    for (size_t i = 1; i < n; i++) {
        struct pb_py_copy copy;

        if (!pb_py_copy_thread(o->mem, o->py, c->tstates.v[i], a, &copy))
            continue;
        pb_py_walk(o->mem, o->py, &copy, a, &parts[i].stack);
        parts[i].cframe = copy.cframe;
    }
    pb_py_join(o->py, parts, n, a, &c->python);
}

/* Follows the frames of a copied thread. False: memory made no sense. */
static bool follow(const struct pb_capture_opts *o, struct pb_arena *a, struct pb_capture *c,
                   const struct pb_py_copy *copy)
{
    pb_py_walk(o->mem, o->py, copy, a, &c->python);
    if (c->tstates.n > 1)
        add_parts(o, a, c, copy);
    if (o->locals)
        pb_py_copy_locals(o->mem, o->py, o->head, o->tail, a, &c->python);
    return c->python.complete;
}

/* Copies the Python side once. False: memory made no sense. */
static bool copy_python(const struct pb_capture_opts *o, struct pb_arena *a, struct pb_capture *c,
                        struct pb_py_copy *copy)
{
    memset(&c->python, 0, sizeof c->python);
    if (!c->tstates.n)
        return true;
    return pb_py_copy_thread(o->mem, o->py, c->tstates.v[0], a, copy) && follow(o, a, c, copy);
}

bool pb_capture_python(const struct pb_capture_opts *o, struct pb_tstates tstates,
                       struct pb_arena *a, struct pb_py_raw_stack *ret)
{
    struct pb_capture c = {.tstates = tstates};
    struct pb_py_copy copy = {0};
    bool ok = copy_python(o, a, &c, &copy);

    *ret = c.python;
    return ok;
}

static bool same_wait(const struct pb_proc_wait *x, const struct pb_proc_wait *y)
{
    return x->blocked == y->blocked && x->nr == y->nr && x->sp == y->sp && x->pc == y->pc;
}

/* How often the thread was given a CPU; 0: not known. */
static uint64_t runs_of(const struct pb_capture_opts *o, pid_t tid)
{
    uint64_t runs, ns;

    return pb_proc_schedstat(o->pid, tid, &runs, &ns) ? runs : 0;
}

/*
 * Reads a sleeping thread; true when it slept all the while. To wake up it must be put on a
 * processor, which is counted; only without that count its system call is looked at again.
 */
static bool try_blocked(const struct pb_capture_opts *o, struct pb_arena *a, struct pb_capture *c)
{
    struct pb_proc_wait again;
    struct pb_py_copy copy = {0};
    uint64_t runs = runs_of(o, c->tid);
    bool ok;

    pb_proc_wait(&c->wait, o->pid, c->tid);
    if (!c->wait.readable || !c->wait.blocked)
        return false;
    ok = copy_python(o, a, c, &copy);
    if (o->native) {
        c->has_regs = false;
        pb_regs_from_sp_pc(&c->regs, c->wait.sp, c->wait.pc);
        pb_copy_stack(o, PB_STACK_MAX, NULL, a, c);
    }
    if (runs)
        return runs_of(o, c->tid) == runs && ok;
    pb_proc_wait(&again, o->pid, c->tid);
    return ok && same_wait(&c->wait, &again);
}

static bool same_frames(const struct pb_py_raw_stack *x, const struct pb_py_raw_stack *y,
                        size_t fixed)
{
    if (x->n != y->n || !x->complete || !y->complete)
        return false;
    for (size_t i = 0; i < x->n; i++) {
        const struct pb_py_raw_frame *f = &x->v[i], *g = &y->v[i];
        size_t len = f->len < g->len ? f->len : g->len;

        /* Frames in the chunk share its bytes, compared as a whole elsewhere. */
        if (f->addr != g->addr || memcmp(f->bytes, g->bytes, len < fixed ? len : fixed) != 0)
            return false;
    }
    return true;
}

static bool same_copy(const struct pb_py_copy *x, const struct pb_py_copy *y)
{
    return x->frame == y->frame && x->cframe == y->cframe && x->chunk == y->chunk &&
           x->chunk_len == y->chunk_len &&
           (!x->chunk_len || memcmp(x->chunk_bytes, y->chunk_bytes, x->chunk_len) == 0);
}

/*
 * Waits for a time that varies, up to four microseconds: reads at a steady pace
 * can meet a loop of the same pace at the same place each time.
 */
static void jitter(uint64_t *state)
{
    uint64_t until;

    *state = *state * 6364136223846793005u + 1442695040888963407u;
    until = pb_clock_ns() + (*state >> 52);
    while (pb_clock_ns() < until)
        ;
}

/*
 * Reads a running thread without holding it. A thread that executes bytecode
 * writes to its frame and value stack all the time, so reads that agree in
 * every byte several times in a row saw one state.
 */
static bool try_running(const struct pb_capture_opts *o, int reads, struct pb_arena *a,
                        struct pb_capture *c)
{
    struct pb_py_copy first = {0}, copy = {0};
    struct pb_py_raw_stack stack;
    uint64_t seed = pb_clock_ns();

    if (!copy_python(o, a, c, &first) || pb_py_just_begun(o->py, &c->python))
        return false;
    stack = c->python;
    for (int i = 1; i < reads; i++) {
        jitter(&seed);
        if (!copy_python(o, a, c, &copy) || !same_copy(&first, &copy) ||
            !same_frames(&stack, &c->python, (size_t)o->py->frame_size))
            return false;
    }
    return true;
}

void pb_capture_prepare(const struct pb_capture_opts *o, struct pb_tstates tstates,
                        struct pb_arena *a, struct pb_capture_buffers *ret)
{
    memset(ret, 0, sizeof *ret);
    ret->tstates = tstates;
    if (tstates.n) {
        pb_py_copy_thread(o->mem, o->py, tstates.v[0], a, &ret->python);
        ret->python.tstate = tstates.v[0];
    }
    if (o->native) {
        ret->stack_len = STACK_BUFFER;
        ret->stack = pb_arena_alloc(a, STACK_BUFFER);
        memset(ret->stack, 1, STACK_BUFFER);
    }
}

void pb_capture_held(const struct pb_capture_opts *o, const struct pb_stop *stop,
                     struct pb_capture_buffers *buffers, struct pb_arena *a, struct pb_capture *c)
{
    uint64_t gpr[64];

    memset(c, 0, sizeof *c);
    c->tid = stop->tid;
    c->tstates = buffers->tstates;
    c->stopped = true;
    if (c->tstates.n)
        c->torn = !pb_py_copy_again(o->mem, o->py, a, &buffers->python) ||
                  !follow(o, a, c, &buffers->python);
    if (o->native) {
        size_t size = pb_stop_registers(stop, gpr, sizeof gpr);

        if (pb_regs_from_prstatus(&c->regs, gpr, size))
            pb_copy_stack(o, STACK_MAX_HELD, buffers, a, c);
        else
            c->native_note = "its registers cannot be read";
    }
}

/* ret_runs: how often it had been given a CPU when it was held, if its stack was torn. */
static enum pb_stop_result capture_stopped(const struct pb_capture_opts *o, struct pb_arena *a,
                                           struct pb_capture *c, uint64_t *ret_runs)
{
    struct pb_proc_wait wait = c->wait;
    double before_us = c->pause_us; /* in tries that came to nothing */
    struct pb_capture_buffers buffers;
    struct pb_stop stop;
    enum pb_stop_result rc;

    pb_capture_prepare(o, c->tstates, a, &buffers);
    pb_priority_raise(&o->tracer->priority);
    rc = pb_stop_begin(&stop, o->tracer, o->pid, c->tid, false);
    if (rc == PB_STOP_OK) {
        pb_capture_held(o, &stop, &buffers, a, c);
        c->torn = c->torn || pb_py_just_begun(o->py, &c->python);
        if (c->torn)
            *ret_runs = runs_of(o, c->tid);
        else if (o->held)
            o->held(o->held_ctx, c);
        c->pause_us = before_us + pb_stop_end(&stop);
        c->wait = wait;
        c->wait.blocked = false;
    }
    pb_priority_restore(&o->tracer->priority);
    return rc;
}

/* Held again at once it might be found where it was: a stop needs no instruction of its own. */
static void await_progress(const struct pb_capture_opts *o, pid_t tid, uint64_t runs)
{
    const struct timespec nap = {0, MOVE_ON_NAP_NS};
    uint64_t end = pb_clock_ns() + MOVE_ON_NS;

    do {
        nanosleep(&nap, NULL);
    } while (runs && runs_of(o, tid) == runs && pb_clock_ns() < end);
}

/*
 * Another tool holds it for an instant. False: it does not release it, and then is not waited for
 * at other threads either.
 */
static bool wait_for_other_tracer(struct pb_tracer *self, pid_t tid, int *tries)
{
    const struct timespec nap = {0, MOVE_ON_NAP_NS};
    uint64_t end = pb_clock_ns() + HELD_NS;
    struct pb_proc_status st = {0};

    while (pb_proc_status(&st, tid, NULL) == 0 && st.tracer && st.tracer != self->rival) {
        if (pb_clock_ns() > end)
            self->rival = st.tracer;
        else
            nanosleep(&nap, NULL);
    }
    return !st.tracer && ++*tries < TRIES_HELD;
}

static bool running_is_enough(const struct pb_capture_opts *o, const struct pb_capture *c)
{
    return c->tstates.n && !o->held && (!o->native || o->pause == PB_PAUSE_NEVER);
}

/* It waits in its handler, so nothing moves; its stack is looked at as of the signal. */
static void capture_at(const struct pb_capture_opts *o, struct pb_arena *a, struct pb_capture *c)
{
    struct pb_py_copy copy = {0};

    c->torn = !copy_python(o, a, c, &copy);
    if (!o->native)
        return;
    c->regs = o->at->regs;
    pb_copy_stack(o, PB_STACK_MAX, NULL, a, c);
    if (!c->has_regs)
        pb_copy_overflown(o, a, c);
}

void pb_capture_thread(const struct pb_capture_opts *o, pid_t tid, struct pb_tstates tstates,
                       struct pb_arena *a, struct pb_capture *c)
{
    bool never = o->pause == PB_PAUSE_NEVER;
    int tries = never ? TRIES_NO_PAUSE : TRIES, denied = 0, torn = 0, woken = 0;

    memset(c, 0, sizeof *c);
    c->tid = tid;
    c->tstates = tstates;
    if (o->at && o->at->tid == tid) {
        capture_at(o, a, c);
        return;
    }
    for (int i = 0; i < tries; i++) {
        enum pb_stop_result rc;
        uint64_t runs = 0;

        c->torn = false; /* what a look before this one found */
        if (try_blocked(o, a, c))
            return;
        if (c->wait.readable && c->wait.blocked) {
            /* It slept at first, but woke up: look again. */
            if (++woken < TRIES_WOKEN)
                i--;
            continue;
        }
        if (running_is_enough(o, c) &&
            try_running(o, never ? EQUAL_READS_NO_PAUSE : EQUAL_READS, a, c)) {
            if (o->native)
                c->native_note = "running: needs a pause";
            return;
        }
        if (never)
            continue;
        rc = capture_stopped(o, a, c, &runs);
        if (rc == PB_STOP_OK && !c->torn)
            return;
        c->gone = rc == PB_STOP_GONE;
        if (rc == PB_STOP_DENIED && wait_for_other_tracer(o->tracer, tid, &denied)) {
            i--;
            continue;
        }
        if (c->gone || rc == PB_STOP_DENIED || rc == PB_STOP_TIMEOUT)
            break;
        if (rc == PB_STOP_OK && ++torn < TRIES_TORN) {
            await_progress(o, c->tid, runs);
            i--;
        }
        if (rc == PB_STOP_BLOCKED && ++woken < TRIES_WOKEN)
            i--;
    }
    c->torn = true;
    if (o->native && !c->has_regs && !c->native_note)
        c->native_note = "running: needs a pause";
}
