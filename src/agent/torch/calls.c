#include "agent/torch/calls.h"

#include <string.h>

#include "agent/arch/ticks.h"
#include "agent/torch/backward/grad.h"
#include "agent/torch/torch.h"

/* One call in so many has its own cost measured, with two more readings of the clock. */
#define COST_EVERY 64
/* Cost that those two readings do not see: the slot's call and return. */
#define AROUND_NS 10.0
/* An ended call waits no longer than this for its row. */
#define FLUSH_NS 5000000u

/* The state once more: pb_torch_on_call gets no argument for it. */
static struct pb_torch *here;

void pb_torch_calls_enter(struct pb_torch *t)
{
    __atomic_store_n(&here, t, __ATOMIC_RELEASE);
}

static inline struct pb_torch *state(void)
{
    return __atomic_load_n(&here, __ATOMIC_RELAXED);
}

static double own_ms(uint64_t ns, uint64_t inside_ns)
{
    return ns > inside_ns ? (double)(ns - inside_ns) / 1e6 : 0;
}

static inline void memory_before(const struct pb_torch *t, const struct pb_torch_thread *th,
                                 struct pb_torch_call *c)
{
    c->device = t->memory.device;
    c->bytes = th->bytes[c->device];
}

static inline void memory_after(const struct pb_torch *t, const struct pb_torch_thread *th,
                                const struct pb_torch_call *c, struct pb_torch_ended *e)
{
    int64_t bytes = pb_torch_memory_bytes(&t->memory), delta = th->bytes[c->device] - c->bytes;
    bool known = bytes != PB_TORCH_UNKNOWN && c->device == t->memory.device;

    e->bytes = bytes;
    e->delta = known ? delta : PB_TORCH_UNKNOWN;
    e->own_mb = known ? (float)((double)(delta - c->inner_bytes) / PB_TORCH_MB) : 0;
    if (c->outer)
        c->outer->inner_bytes += delta;
}

static struct pb_torch_row row_of(const struct pb_torch *t, const struct pb_torch_ended *e)
{
    const struct pb_torch_module *m = e->module;

    return (struct pb_torch_row){
        .name = m->name, .type = m->type, .stage = t->trace.forward, .operation = m->operation,
        .began_ns = e->began, .ended_ns = e->ended, .gpu_ms = pb_null_real(), .bytes = e->bytes,
        .delta = e->delta, .self_ms = own_ms(e->ended - e->began, e->inside),
        .root = e->thread->root, .phase = e->thread->phase, .tid = e->thread->tid,
        .thread = e->thread};
}

/* The clock at an earlier tick. Counters of two processors may differ by a little. */
static uint64_t clock_at(const struct pb_torch *t, uint64_t now, uint64_t ticks_now,
                         uint64_t ticks)
{
    return ticks < ticks_now ? now - (uint64_t)((double)(ticks_now - ticks) * t->clock.ns_per_tick)
                             : now;
}

/*
 * A row goes to as many pages as the table has columns. Many at once cost little more than one: the
 * pages are all in the caches after the first.
 */
void pb_torch_calls_flush(struct pb_torch *t)
{
    bool in_ticks = t->calls.ended_in_ticks;
    uint64_t now = pb_clock_ns(), ticks = in_ticks ? pb_ticks() : 0;
    uint32_t n = t->calls.nended;

    t->calls.nended = 0;
    t->steps.sums.rows += n;
    for (uint32_t i = 0; i < n; i++) {
        const struct pb_torch_ended *e = &t->ended_calls[i];
        struct pb_torch_row r = row_of(t, e);

        if (in_ticks) {
            r.began_ns = clock_at(t, now, ticks, e->began);
            r.ended_ns = clock_at(t, now, ticks, e->ended);
            r.self_ms *= t->clock.ns_per_tick;
        }
        e->module->own_mb = e->own_mb;
        pb_torch_trace_append(t, &r);
    }
    pb_torch_add_own_time(t, now);
}

/* Keeps an ended call for the next flush. */
static void keep(struct pb_torch *t, const struct pb_torch_ended *e, bool in_ticks)
{
    uint64_t age;

    if (__builtin_expect(t->calls.ended_in_ticks != in_ticks, 0)) {
        if (t->calls.nended)
            pb_torch_calls_flush(t);
        t->calls.ended_in_ticks = in_ticks;
    }
    t->ended_calls[t->calls.nended++] = *e;
    age = e->ended - t->ended_calls[0].began;
    if (t->calls.nended == PB_TORCH_ENDED ||
        (in_ticks ? (double)age * t->clock.ns_per_tick : (double)age) > FLUSH_NS)
        pb_torch_calls_flush(t);
}

static void record(struct pb_torch *t, struct pb_torch_thread *th, const struct pb_torch_call *c,
                   uint64_t now, bool failed)
{
    struct pb_torch_ended e = {
        .began = c->began_ns, .ended = now, .module = c->module, .thread = th,
        .inside = c->inner_ns + (uint64_t)((double)c->inner_ticks * t->clock.ns_per_tick)};
    struct pb_torch_row r;

    memory_after(t, th, c, &e);
    if (__builtin_expect(!t->timing || failed, 1)) {
        keep(t, &e, false);
        return;
    }
    c->module->own_mb = e.own_mb;
    r = row_of(t, &e);
    t->steps.sums.rows++;
    pb_torch_trace_append_span(t, &r, c->span);
}

/* The outermost call of its thread. */
struct root {
    struct pb_torch_part part;
    bool counts; /* its time is a part of the step; else it is inside of another part */
    bool training;
    struct pb_progress_before before;
};

/* Nothing trains: the call is a step, also where other threads make such calls meanwhile. */
static void begin_serving(struct pb_torch *t, struct pb_torch_thread *th)
{
    if (t->steps.serving++) {
        if (t->calls.nended)
            pb_torch_calls_flush(t);
        pb_torch_steps_set(t, t->steps.number + 1);
    }
    th->serving = true;
    th->step = t->steps.number;
    th->seq = t->steps.seq;
    th->progress->step = th->step;
}

/* Its rows are written. */
static void end_serving(struct pb_torch *t, struct pb_torch_thread *th)
{
    th->serving = false;
    th->progress->step = PB_NULL_INT;
    if (t->steps.serving)
        t->steps.serving--;
    if (th->step == t->steps.number)
        t->steps.seq = th->seq;
}

static void begin_root(struct pb_torch *t, struct pb_torch_thread *th, struct _object *object,
                       struct pb_torch_module *m, struct root *root)
{
    uint64_t began = pb_clock_ns();
    bool in_pass = t->backward.passes && pb_torch_in_pass(t);

    /* What a checkpoint computes again is backward's time, what makes a sample is the data's. */
    root->counts = !th->fetching && !in_pass && pb_torch_steps_is_thread(t);
    root->training = in_pass || (!th->fetching && pb_torch_is_training(t, object));
    th->phase = th->fetching     ? t->trace.data
                : root->training ? t->trace.train
                                 : t->trace.eval;
    if (in_pass && t->backward.model)
        m = t->backward.model;
    th->root = m && t->on ? pb_torch_module_label(t, m) : PB_NULL_NAME;
    if (root->counts && t->on && !t->optimizers.seen && !t->manual.ends && !t->steps.has_thread)
        begin_serving(t, th);
    root->before = pb_progress_begin(th->progress,
                                     th->fetching     ? PB_PHASE_DATA
                                     : in_pass        ? PB_PHASE_BACKWARD
                                     : root->training ? PB_PHASE_FORWARD
                                                      : PB_PHASE_EVAL,
                                     began);
    pb_torch_add_own_time(t, began);
}

static void end_root(struct pb_torch *t, const struct pb_torch_call *c, const struct root *root,
                     uint64_t now, bool failed)
{
    uint64_t began = pb_clock_ns(), own;

    if (!root->counts)
        return;
    own = pb_torch_part_end(t, &root->part, now);
    if (!failed)
        pb_torch_loaders_forward(t, root->training, c->module->has_children, own);
    else if (t->loaders.training)
        t->steps.sums.forward_ns += own;
    pb_torch_backward_choose_model(t, c->module, root->training);
    pb_torch_add_own_time(t, began);
    if (!failed && c->module->has_children && !t->optimizers.seen && !t->manual.ends &&
        !t->manual.pending)
        pb_torch_steps_end_forward(t, root->training);
}

static __attribute__((noinline)) void begin_slowly(struct pb_torch *t, struct pb_torch_call *call,
                                                   struct _object *object)
{
    uint64_t began = pb_clock_ns();

    if (!call->module)
        call->module = pb_torch_module_meet(t, object, call->outer);
    if (t->on && t->timing)
        call->span = pb_torch_span_begin(t);
    pb_torch_add_own_time(t, began);
}

/* Whether the call's module still has its entry: it may have been deleted meanwhile. */
static bool is_valid(const struct pb_torch *t, const struct pb_torch_call *c,
                     const struct _object *object)
{
    return c->module && (c->changes == t->modules.changes || c->module->object == object);
}

/* Everything after the module has returned. began_ns 0: the cost of this call is not measured. */
static void end_call(struct pb_torch *t, struct pb_torch_thread *th, struct pb_torch_call *call,
                     const struct root *root, uint64_t now, bool failed, bool traced,
                     uint64_t cost_ns)
{
    if (traced && th->tracing) {
        bool timed = t->timing;

        record(t, th, call, now, failed);
        if (__builtin_expect(t->splitting && call->number != UINT64_MAX, 0))
            pb_grad_call_ends(t, call, now, failed);
        if (timed)
            pb_torch_add_own_time(t, now);
        else if (cost_ns)
            pb_torch_budget_add_call(&t->budget,
                                     AROUND_NS + (double)(cost_ns + pb_clock_ns() - now));
    }
    if (th->depth > 0)
        return;
    if (t->on && t->calls.nended)
        pb_torch_calls_flush(t);
    if (th->serving)
        end_serving(t, th);
    if (t->on)
        end_root(t, call, root, now, failed);
}

/* A call of a root, or any call in a step in which more than the time is recorded. */
static struct _object *call_recorded(struct pb_torch *t, struct pb_torch_thread *th,
                                     struct _object *object, struct _object *args,
                                     struct _object *kwargs)
{
    struct pb_torch_call call = {.outer = th->top, .depth = th->depth,
                                 .changes = t->modules.changes, .span = -1,
                                 .number = UINT64_MAX};
    bool traced = th->depth ? th->tracing : t->tracing;
    bool measured = traced && t->calls.count++ % COST_EVERY == 0;
    uint64_t entered = measured ? pb_clock_ns() : 0, now;
    struct root root = {.counts = false};
    uint32_t module_before;
    struct _object *result;

    if (__builtin_expect(t->events.listener && th->depth == 0, 0))
        pb_torch_notify(t, PB_TORCH_EVENT_CALL);
    call.module = pb_torch_module_called(t, object);
    if (__builtin_expect(!call.module || (traced && t->timing), 0)) {
        begin_slowly(t, &call, object);
        measured = false;
    }
    if (__builtin_expect(t->splitting, 0))
        call.number = pb_grad_state(t->self)->next_number();
    if (call.depth == 0) {
        th->tracing = traced;
        begin_root(t, th, object, call.module, &root);
    }
    th->top = &call;
    th->depth++;
    memory_before(t, th, &call);
    module_before = pb_progress_module(th->progress, call.module ? call.module->shown : 0);
    call.began_ns = pb_clock_ns();
    if (root.counts)
        pb_torch_part_begin(t, &root.part, call.began_ns);
    result = t->calls.original(object, args, kwargs);
    now = pb_clock_ns();
    th->top = call.outer;
    th->depth = call.depth;
    pb_progress_module(th->progress, module_before);
    if (call.depth == 0)
        pb_progress_end(th->progress, &root.before);
    if (call.outer)
        call.outer->inner_ns += now - call.began_ns;
    if (__builtin_expect(!result, 0) && t->on)
        pb_torch_oom_check(t, &call, call.began_ns);
    if (t->on && is_valid(t, &call, object))
        end_call(t, th, &call, &root, now, !result, traced,
                 measured ? call.began_ns - entered : 0);
    else if (th->depth == 0 && th->serving)
        end_serving(t, th);
    return result;
}

/* A call inside of another one, in a step in which nothing but time and memory is recorded. */
static struct _object *call_timed(struct pb_torch *t, struct pb_torch_thread *th, uint64_t entered,
                                  struct pb_torch_module *module, struct _object *object,
                                  struct _object *args, struct _object *kwargs)
{
    struct pb_torch_call call = {.outer = th->top, .module = module, .depth = th->depth,
                                 .changes = t->modules.changes, .span = -1,
                                 .number = UINT64_MAX};
    struct pb_torch_ended e = {.module = module, .thread = th};
    uint32_t module_before = pb_progress_module(th->progress, module->shown);
    struct _object *result;

    memory_before(t, th, &call);
    e.began = pb_ticks();
    th->top = &call;
    th->depth++;
    result = t->calls.original(object, args, kwargs);
    e.ended = pb_ticks();
    pb_progress_module(th->progress, module_before);
    th->top = call.outer;
    th->depth = call.depth;
    call.outer->inner_ticks += e.ended - e.began;
    if (__builtin_expect(!result, 0) && t->on)
        pb_torch_oom_check(t, &call, clock_at(t, pb_clock_ns(), e.ended, e.began));
    if (!t->on || !th->tracing || !is_valid(t, &call, object))
        return result;
    e.inside = call.inner_ticks;
    if (__builtin_expect(call.inner_ns != 0, 0))
        e.inside += (uint64_t)((double)call.inner_ns / t->clock.ns_per_tick);
    memory_after(t, th, &call, &e);
    keep(t, &e, true);
    t->calls.count++;
    if (__builtin_expect(entered != 0, 0))
        pb_torch_budget_add_call(&t->budget,
                                 AROUND_NS + (double)(e.began - entered + pb_ticks() - e.ended) *
                                                 t->clock.ns_per_tick);
    return result;
}

struct _object *pb_torch_on_call(struct _object *object, struct _object *args,
                                 struct _object *kwargs)
{
    struct pb_torch *t = state();
    struct pb_torch_thread *th = t->on ? pb_torch_thread(t) : NULL;

    if (!th || (th->depth > 0 && !th->tracing))
        return t->calls.original(object, args, kwargs);
    if (__builtin_expect(t->manual.pending, 0) && th->depth == 0 && !th->fetching)
        pb_torch_manual_before_forward(t, object);
    if (th->top && th->depth > 0 && t->clock.ticks_usable && !t->timing && !t->splitting) {
        uint64_t entered = t->calls.count % COST_EVERY == 0 ? pb_ticks() : 0;
        struct pb_torch_module *module = pb_torch_module_called(t, object);

        if (module)
            return call_timed(t, th, entered, module, object, args, kwargs);
    }
    return call_recorded(t, th, object, args, kwargs);
}
