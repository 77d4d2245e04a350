/* What runs at each call of a module, and rows of python.torch_trace. */
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/arch/symver.h"
#include "agent/arch/ticks.h"
#include "agent/collect/collect.h"
#include "agent/collect/torch/events.h"
#include "agent/collect/torch/grad.h"
#include "agent/collect/torch/torch.h"
#include "base/clock.h"
#include "store/tables/table.h"

/* One call in so many has its own cost taken, with two more looks at the clock. */
#define COST_EVERY 64
/* What the two looks at the clock do not see: the slot's call and return. */
#define AROUND_NS 10.0
/* So long after it began a call gets its row, whether the others of its step are over or not. */
#define NOTES_NS 5000000u

/* The state once more, where it is found at once. */
static struct pb_torch *here;

void pb_torch_calls_enter(struct pb_torch *t)
{
    __atomic_store_n(&here, t, __ATOMIC_RELEASE);
}

static inline struct pb_torch *state(void)
{
    return __atomic_load_n(&here, __ATOMIC_RELAXED);
}

static void give_back(struct pb_torch_thread *th)
{
    th->top = NULL;
    th->depth = th->fetching = 0;
    th->serving = th->tracing = false;
    th->taken = false;
}

/* A thread that ends gives its place back. Its number may be another one's soon. */
static void thread_ends(void *thread)
{
    pthread_t self = pthread_self();

    atomic_compare_exchange_strong(&state()->caller, &self, (pthread_t)0);
    give_back(thread);
}

static struct pb_torch_thread *new_thread(struct pb_torch *t)
{
    if (!t->has_key)
        t->has_key = pthread_key_create(&t->key, thread_ends) == 0;
    for (int i = 0; t->has_key && i < PB_TORCH_THREADS; i++) {
        struct pb_torch_thread *th = &t->threads[i];

        if (atomic_exchange(&th->taken, true))
            continue;
        if (pthread_setspecific(t->key, th) == 0) {
            th->tid = syscall(SYS_gettid);
            return th;
        }
        th->taken = false;
        break;
    }
    return NULL;
}

/* Of one that did not make the last call. */
static __attribute__((noinline)) struct pb_torch_thread *other_thread(struct pb_torch *t)
{
    struct pb_torch_thread *th = t->has_key ? pthread_getspecific(t->key) : NULL;

    if (!th)
        th = new_thread(t);
    if (th) {
        t->caller = pthread_self();
        t->called = th;
    }
    return th;
}

/* Mostly one thread makes all calls. */
static inline struct pb_torch_thread *this_thread(struct pb_torch *t)
{
    pthread_t caller = atomic_load_explicit(&t->caller, memory_order_relaxed);

    return pthread_equal(caller, pthread_self()) ? t->called : other_thread(t);
}

struct pb_torch_thread *pb_torch_thread(struct pb_torch *t)
{
    return this_thread(t);
}

void pb_torch_threads_forked(struct pb_torch *t)
{
    struct pb_torch_thread *own = t->has_key ? pthread_getspecific(t->key) : NULL;

    for (int i = 0; i < PB_TORCH_THREADS; i++)
        if (&t->threads[i] != own)
            give_back(&t->threads[i]);
    t->caller = (pthread_t)0;
}

int pb_torch_span_begins(struct pb_torch *t)
{
    return t->timing ? pb_cuda_span_begin(&t->cuda, &t->self->py) : -1;
}

/* The row waits until the GPU has come that far. */
static bool hold(struct pb_torch *t, struct pb_torch_row *r, int span)
{
    const struct pb_cuda_span *s;

    if (span < 0 || !t->timing)
        return false;
    pb_cuda_span_end(&t->cuda, &t->self->py, span);
    s = &t->cuda.spans[span];
    if (!t->on || (unsigned)span >= t->cuda.nspans || !s->ended)
        return false;
    pb_torch_hold(t, r, s->from, s->to, &t->spans_held);
    return true;
}

static double ms_less(uint64_t ns, uint64_t inside_ns)
{
    return ns > inside_ns ? (double)(ns - inside_ns) / 1e6 : 0;
}

void pb_torch_trace(struct pb_torch *t, const struct pb_torch_module *names, uint32_t stage,
                    uint32_t operation, uint64_t began_ns, uint64_t ended_ns, uint64_t inside_ns,
                    int64_t bytes_before, int span)
{
    const struct pb_torch_thread *th = this_thread(t);
    int64_t bytes = pb_alloc_bytes(&t->alloc);
    struct pb_torch_row r = {
        .name = names->name, .type = names->type, .stage = stage, .operation = operation,
        .began_ns = began_ns, .ended_ns = ended_ns, .gpu_ms = pb_null_real(), .bytes = bytes,
        .delta = pb_torch_delta(bytes_before, bytes),
        .self_ms = inside_ns != UINT64_MAX ? ms_less(ended_ns - began_ns, inside_ns)
                                           : pb_null_real(),
        .root = names->label, .phase = t->phase_train, .tid = th ? th->tid : PB_NULL_INT};

    t->sums.rows++;
    if (!hold(t, &r, span))
        pb_torch_put(t, &r);
}

/* A call begins: what its thread has in tensors. */
static inline void memory_before(const struct pb_torch *t, const struct pb_torch_thread *th,
                                 struct pb_torch_call *c)
{
    c->device = t->alloc.device;
    c->bytes = th->bytes[c->device];
}

/* And at its end, as it goes into the row. */
static inline void memory_after(const struct pb_torch *t, const struct pb_torch_thread *th,
                                const struct pb_torch_call *c, struct pb_torch_note *n)
{
    int64_t bytes = pb_alloc_bytes(&t->alloc), delta = th->bytes[c->device] - c->bytes;
    bool known = bytes != PB_ALLOC_UNKNOWN && c->device == t->alloc.device;

    n->bytes = bytes;
    n->delta = known ? delta : PB_ALLOC_UNKNOWN;
    n->own_mb = known ? (float)((double)(delta - c->inner) / PB_TORCH_MB) : 0;
    if (c->outer)
        c->outer->inner += delta;
}

static struct pb_torch_row row_of(const struct pb_torch *t, const struct pb_torch_note *n)
{
    const struct pb_torch_module *m = n->module;

    return (struct pb_torch_row){
        .name = m->name, .type = m->type, .stage = t->stage_forward, .operation = m->operation,
        .began_ns = n->began, .ended_ns = n->ended, .gpu_ms = pb_null_real(), .bytes = n->bytes,
        .delta = n->delta, .self_ms = ms_less(n->ended - n->began, n->inside),
        .root = n->thread->root, .phase = n->thread->phase, .tid = n->thread->tid,
        .thread = n->thread};
}

/* What the clock said some ticks ago. Counters of two processors may differ by a little. */
static uint64_t clock_then(const struct pb_torch *t, uint64_t now, uint64_t ticks_now,
                           uint64_t ticks)
{
    return ticks < ticks_now ? now - (uint64_t)((double)(ticks_now - ticks) * t->ns_per_tick)
                             : now;
}

static struct pb_torch_row row_of_note(const struct pb_torch *t, const struct pb_torch_note *n,
                                       uint64_t now, uint64_t ticks)
{
    struct pb_torch_row r = row_of(t, n);

    if (t->notes_tick) {
        r.began_ns = clock_then(t, now, ticks, n->began);
        r.ended_ns = clock_then(t, now, ticks, n->ended);
        r.self_ms *= t->ns_per_tick;
    }
    return r;
}

/*
 * A row goes to as many pages as the table has columns. Many at once cost little more than one: the
 * pages are all in the caches after the first.
 */
void pb_torch_notes_write(struct pb_torch *t)
{
    uint64_t now = pb_clock_ns(), ticks = t->notes_tick ? pb_ticks() : 0;
    uint32_t n = t->nnotes;

    t->nnotes = 0;
    t->sums.rows += n;
    for (uint32_t i = 0; i < n; i++) {
        struct pb_torch_row r = row_of_note(t, &t->notes[i], now, ticks);

        t->notes[i].module->own_mb = t->notes[i].own_mb;
        pb_torch_put(t, &r);
    }
    t->sums.own_ns += pb_clock_ns() - now;
}

static void note(struct pb_torch *t, const struct pb_torch_note *n, bool tick)
{
    uint64_t age;

    if (__builtin_expect(t->notes_tick != tick, 0)) {
        if (t->nnotes)
            pb_torch_notes_write(t);
        t->notes_tick = tick;
    }
    t->notes[t->nnotes++] = *n;
    age = n->ended - t->notes[0].began;
    if (t->nnotes == PB_TORCH_NOTES ||
        (tick ? (double)age * t->ns_per_tick : (double)age) > NOTES_NS)
        pb_torch_notes_write(t);
}

static void record(struct pb_torch *t, struct pb_torch_thread *th, const struct pb_torch_call *c,
                   uint64_t now, bool failed)
{
    struct pb_torch_note n = {
        .began = c->began_ns, .ended = now, .module = c->module, .thread = th,
        .inside = c->inside_ns + (uint64_t)((double)c->inside_ticks * t->ns_per_tick)};
    struct pb_torch_row r;

    memory_after(t, th, c, &n);
    if (__builtin_expect(!t->timing || failed, 1)) {
        note(t, &n, false);
        return;
    }
    c->module->own_mb = n.own_mb;
    r = row_of(t, &n);
    t->sums.rows++;
    if (!hold(t, &r, c->span))
        pb_torch_put(t, &r);
}

static int rank_of(const struct pb_torch_module *m)
{
    return m->has_children ? 2 : m->has_parameters ? 1 : 0;
}

/*
 * A backward pass goes by the name of the model: not by that of a loss after it, nor by that of one
 * which has no part in it, being called without gradients.
 */
static void name_pass(struct pb_torch *t, struct pb_torch_module *m, bool training)
{
    if (t->last_root && !t->root_is_old &&
        (!training || rank_of(m) < rank_of(t->last_root)))
        return;
    t->last_root = m;
    t->root_is_old = !training;
}

/* The outermost call of its thread, in a step. */
struct root {
    struct pb_torch_part part;
    bool counts;   /* else its time is another part's */
    bool training;
};

/* Nothing trains: the call is a step, also where other threads make such calls meanwhile. */
static void serve(struct pb_torch *t, struct pb_torch_thread *th)
{
    if (t->serving++) {
        if (t->nnotes)
            pb_torch_notes_write(t);
        t->step++;
        t->seq = 0;
    }
    th->serving = true;
    th->step = t->step;
    th->seq = t->seq;
}

/* Its rows are written. */
static void served(struct pb_torch *t, struct pb_torch_thread *th)
{
    th->serving = false;
    if (t->serving)
        t->serving--;
    if (th->step == t->step)
        t->seq = th->seq;
}

static void root_begins(struct pb_torch *t, struct pb_torch_thread *th, struct _object *object,
                        struct pb_torch_module *m, struct root *root)
{
    uint64_t began = pb_clock_ns();
    bool in_pass = t->passes && pb_torch_in_pass(t);

    /* What a checkpoint computes again is backward's time, what makes a sample that of the data. */
    root->counts = !th->fetching && !in_pass && pb_torch_makes_steps(t);
    root->training = in_pass || (!th->fetching && pb_torch_is_training(t, object));
    th->phase = th->fetching ? t->phase_data : root->training ? t->phase_train : t->phase_eval;
    if (in_pass && t->last_root)
        m = t->last_root;
    th->root = m && t->on ? pb_torch_label(t, m) : PB_NULL_NAME;
    if (root->counts && t->on && !t->optimizer_seen && !t->hand.ends && !t->has_step_thread)
        serve(t, th);
    t->sums.own_ns += pb_clock_ns() - began;
}

static void root_ended(struct pb_torch *t, const struct pb_torch_call *c, const struct root *root,
                       uint64_t now, bool failed)
{
    uint64_t began = pb_clock_ns(), own;

    if (!root->counts)
        return;
    own = pb_torch_part_ends(t, &root->part, now);
    if (!failed)
        pb_torch_feed_forward(t, root->training, c->module->has_children, own);
    else if (t->training)
        t->sums.forward_ns += own;
    name_pass(t, c->module, root->training);
    pb_torch_own(t, began);
    if (!failed && c->module->has_children && !t->optimizer_seen && !t->hand.ends &&
        !t->hand.pending)
        pb_torch_forward_counts(t, root->training);
}

static __attribute__((noinline)) void begin_more(struct pb_torch *t, struct pb_torch_call *call,
                                                 struct _object *object)
{
    uint64_t began = pb_clock_ns();

    if (!call->module)
        call->module = pb_torch_module_meet(t, object, call->outer);
    if (t->on && t->timing)
        call->span = pb_torch_span_begins(t);
    t->sums.own_ns += pb_clock_ns() - began;
}

static struct _object *watched(struct pb_torch *t, struct pb_torch_thread *th,
                               struct _object *object, struct _object *args,
                               struct _object *kwargs)
{
    struct pb_torch_call call = {.outer = th->top, .depth = th->depth, .changes = t->changes,
                                 .span = -1, .number = UINT64_MAX};
    bool tracing = th->depth ? th->tracing : t->tracing, timed;
    bool taken = tracing && t->calls++ % COST_EVERY == 0;
    uint64_t entered = taken ? pb_clock_ns() : 0, now;
    struct root root = {.counts = false};
    struct _object *result;

    if (__builtin_expect(t->listener && th->depth == 0, 0))
        pb_torch_tell(t, PB_TORCH_EVENT_CALL);
    call.module = pb_torch_module_called(t, object);
    if (__builtin_expect(!call.module || (tracing && t->timing), 0)) {
        begin_more(t, &call, object);
        taken = false;
    }
    timed = t->timing;
    if (__builtin_expect(t->ranging, 0))
        call.number = pb_grad_state(t->self)->next_number();
    if (call.depth == 0) {
        th->tracing = tracing;
        root_begins(t, th, object, call.module, &root);
    }
    th->top = &call;
    th->depth++;
    memory_before(t, th, &call);
    call.began_ns = pb_clock_ns();
    if (root.counts)
        pb_torch_part_begins(t, &root.part, call.began_ns);
    result = t->call_was(object, args, kwargs);
    now = pb_clock_ns();
    th->top = call.outer;
    th->depth = call.depth;
    if (call.outer)
        call.outer->inside_ns += now - call.began_ns;
    if (__builtin_expect(!result, 0) && t->on)
        pb_torch_oom_check(t, &call, call.began_ns);
    /* The entry may have been given to another module meanwhile, or the collector have left. */
    if (!t->on || !call.module ||
        (call.changes != t->changes && call.module->object != object)) {
        if (th->depth == 0 && th->serving)
            served(t, th);
        return result;
    }
    if (tracing && th->tracing) {
        record(t, th, &call, now, !result);
        if (__builtin_expect(t->ranging && call.number != UINT64_MAX, 0))
            pb_grad_call_ends(t, &call, now, !result);
        if (timed)
            t->sums.own_ns += pb_clock_ns() - now;
        else if (taken)
            pb_torch_take_call(t, AROUND_NS + (double)(call.began_ns - entered +
                                                       pb_clock_ns() - now));
    }
    if (th->depth == 0 && t->on && t->nnotes)
        pb_torch_notes_write(t);
    if (th->depth == 0 && th->serving)
        served(t, th);
    if (th->depth == 0 && t->on)
        root_ended(t, &call, &root, now, !result);
    return result;
}

/* A call within another one, in a step in which nothing is looked at but the time. */
static struct _object *noted(struct pb_torch *t, struct pb_torch_thread *th, uint64_t entered,
                             struct pb_torch_module *module, struct _object *object,
                             struct _object *args, struct _object *kwargs)
{
    struct pb_torch_call call = {.outer = th->top, .module = module, .depth = th->depth,
                                 .changes = t->changes, .span = -1, .number = UINT64_MAX};
    struct pb_torch_note n = {.module = module, .thread = th};
    struct _object *result;

    memory_before(t, th, &call);
    n.began = pb_ticks();
    th->top = &call;
    th->depth++;
    result = t->call_was(object, args, kwargs);
    n.ended = pb_ticks();
    th->top = call.outer;
    th->depth = call.depth;
    call.outer->inside_ticks += n.ended - n.began;
    if (__builtin_expect(!result, 0) && t->on)
        pb_torch_oom_check(t, &call, clock_then(t, pb_clock_ns(), n.ended, n.began));
    if (!t->on || !th->tracing || (call.changes != t->changes && module->object != object))
        return result;
    n.inside = call.inside_ticks;
    if (__builtin_expect(call.inside_ns != 0, 0))
        n.inside += (uint64_t)((double)call.inside_ns / t->ns_per_tick);
    memory_after(t, th, &call, &n);
    note(t, &n, true);
    t->calls++;
    if (__builtin_expect(entered != 0, 0))
        pb_torch_take_call(t, AROUND_NS + (double)(n.began - entered + pb_ticks() - n.ended) *
                                              t->ns_per_tick);
    return result;
}

struct _object *pb_torch_on_call(struct _object *object, struct _object *args,
                                 struct _object *kwargs)
{
    struct pb_torch *t = state();
    struct pb_torch_thread *th = t->on ? this_thread(t) : NULL;

    if (!th || (th->depth > 0 && !th->tracing))
        return t->call_was(object, args, kwargs);
    if (__builtin_expect(t->hand.pending, 0) && th->depth == 0 && !th->fetching)
        pb_torch_hand_forward(t, object);
    if (th->top && th->depth > 0 && t->ticking && !t->timing && !t->ranging) {
        uint64_t entered = t->calls % COST_EVERY == 0 ? pb_ticks() : 0;
        struct pb_torch_module *module = pb_torch_module_called(t, object);

        if (module)
            return noted(t, th, entered, module, object, args, kwargs);
    }
    return watched(t, th, object, args, kwargs);
}
