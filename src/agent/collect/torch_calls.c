/* What runs at each call of a module, and rows of python.torch_trace. */
#include <pthread.h>
#include <string.h>

#include "agent/arch/symver.h"
#include "agent/collect/collect.h"
#include "agent/collect/torch.h"
#include "base/clock.h"
#include "store/tables/python_torch_trace.h"
#include "store/tables/table.h"

/* One call in so many has its own cost taken, with two more looks at the clock. */
#define COST_EVERY 64
/* What the two looks at the clock do not see: the slot's call and return. */
#define AROUND_NS 10.0

enum {
#define X(name, type, unit, doc) AT_##name,
    PB_PYTHON_TORCH_TRACE(X)
#undef X
        NCOLUMNS
};

/* A thread that ends gives its place back. */
static void thread_ends(void *thread)
{
    struct pb_torch_thread *th = thread;

    th->top = NULL;
    th->depth = 0;
    th->taken = false;
}

static __attribute__((noinline)) struct pb_torch_thread *new_thread(struct pb_torch *t)
{
    if (!t->has_key)
        t->has_key = pthread_key_create(&t->key, thread_ends) == 0;
    for (int i = 0; t->has_key && i < PB_TORCH_THREADS; i++) {
        struct pb_torch_thread *th = &t->threads[i];

        if (atomic_exchange(&th->taken, true))
            continue;
        if (pthread_setspecific(t->key, th) == 0)
            return th;
        th->taken = false;
        break;
    }
    return NULL;
}

static inline struct pb_torch_thread *this_thread(struct pb_torch *t)
{
    struct pb_torch_thread *th = t->has_key ? pthread_getspecific(t->key) : NULL;

    return th ? th : new_thread(t);
}

void pb_torch_threads_forked(struct pb_torch *t)
{
    struct pb_torch_thread *own = t->has_key ? pthread_getspecific(t->key) : NULL;

    for (int i = 0; i < PB_TORCH_THREADS; i++)
        if (&t->threads[i] != own)
            thread_ends(&t->threads[i]);
}

static void put(struct pb_torch *t, const struct pb_torch_row *r)
{
    union pb_cell row[NCOLUMNS];

    row[AT_timestamp].i = (int64_t)r->began_ns + t->wall_offset_ns;
    row[AT_step].i = r->step;
    row[AT_seq].i = r->seq;
    row[AT_module].name = r->name;
    row[AT_module_type].name = r->type;
    row[AT_stage].name = r->stage;
    row[AT_operation_name].name = r->operation;
    row[AT_duration_ms].d = (double)(r->ended_ns - r->began_ns) / 1e6;
    row[AT_gpu_ms].d = r->gpu_ms;
    row[AT_allocated].d = r->allocated_mb;
    row[AT_max_allocated].d = t->memory_peak_mb;
    row[AT_cached].d = t->cached_mb;
    row[AT_allocated_delta].d = r->delta_mb;
    pb_ring_append(t->trace, row);
}

int pb_torch_span_begins(struct pb_torch *t)
{
    return t->timing ? pb_cuda_span_begin(&t->cuda, &t->self->py) : -1;
}

/* The row waits until the GPU has come that far. */
static bool keep(struct pb_torch *t, const struct pb_torch_row *r, int span)
{
    if (span < 0 || !t->timing)
        return false;
    pb_cuda_span_end(&t->cuda, &t->self->py, span);
    if ((unsigned)span >= t->cuda.nspans || !t->cuda.spans[span].ended)
        return false;
    t->spans[span] = *r;
    return true;
}

void pb_torch_trace(struct pb_torch *t, const struct pb_torch_module *names, uint32_t stage,
                    uint32_t operation, uint64_t began_ns, uint64_t ended_ns, int span)
{
    struct pb_torch_row r = {
        .name = names->name, .type = names->type, .stage = stage, .operation = operation,
        .step = t->step, .seq = t->seq++, .began_ns = began_ns, .ended_ns = ended_ns,
        .gpu_ms = pb_null_real(), .allocated_mb = t->memory_mb, .delta_mb = pb_null_real()};

    t->sums.rows++;
    if (!keep(t, &r, span))
        put(t, &r);
}

void pb_torch_spans_poll(struct pb_torch *t, bool all)
{
    struct pb_cuda *c = &t->cuda;

    if (!c->nspans || t->timing || (!all && !pb_cuda_spans_done(c)))
        return;
    for (unsigned i = 0; i < c->nspans; i++) {
        if (!c->spans[i].ended)
            continue;
        t->spans[i].gpu_ms = pb_cuda_span_ms(c, (int)i);
        put(t, &t->spans[i]);
    }
    pb_cuda_spans_clear(c);
}

/* In a step that is weighed or timed. No exception pending. */
static void record_more(struct pb_torch *t, const struct pb_torch_call *c, struct pb_torch_row *r)
{
    if (t->weighing && c->memory_mb > 0) {
        double now = pb_torch_memory_now(t);

        r->allocated_mb = now;
        r->delta_mb = now - c->memory_mb;
        if (now > t->memory_peak_mb)
            t->memory_peak_mb = now;
    }
    if (!t->on || keep(t, r, c->span))
        return;
    put(t, r);
}

static void record(struct pb_torch *t, const struct pb_torch_call *c, uint64_t now, bool failed)
{
    const struct pb_torch_module *m = c->module;
    struct pb_torch_row r;

    r.name = m->name;
    r.type = m->type;
    r.stage = t->stage_forward;
    r.operation = m->operation;
    r.step = t->step;
    r.seq = t->seq++;
    r.began_ns = c->began_ns;
    r.ended_ns = now;
    r.gpu_ms = r.delta_mb = pb_null_real();
    r.allocated_mb = t->memory_mb;
    t->sums.rows++;
    if (__builtin_expect((t->weighing || t->timing) && !failed, 0))
        record_more(t, c, &r);
    else
        put(t, &r);
}

static void root_ended(struct pb_torch *t, const struct pb_torch_call *c, struct _object *object,
                       uint64_t now, bool failed)
{
    t->sums.forward_ns += now - c->began_ns;
    t->last_root = c->module;
    if (!failed && c->module->has_children && !t->optimizer_seen)
        pb_torch_forward_counts(t, object);
}

static __attribute__((noinline)) void begin_more(struct pb_torch *t, struct pb_torch_call *call,
                                                 struct _object *object)
{
    uint64_t began = pb_clock_ns();

    if (!call->module)
        call->module = pb_torch_module_meet(t, object, call->outer);
    if (t->on && t->weighing)
        call->memory_mb = pb_torch_memory_now(t);
    if (t->on && t->timing)
        call->span = pb_torch_span_begins(t);
    t->sums.own_ns += pb_clock_ns() - began;
}

static struct _object *watched(struct pb_torch *t, struct pb_torch_thread *th,
                               struct _object *object, struct _object *args,
                               struct _object *kwargs)
{
    struct pb_torch_call call = {.outer = th->top, .depth = th->depth, .span = -1};
    bool tracing = t->tracing, taken = tracing && t->calls++ % COST_EVERY == 0, weighed;
    uint64_t entered = taken ? pb_clock_ns() : 0, now;
    struct _object *result;

    call.module = pb_torch_module_find(t, object);
    if (__builtin_expect(!call.module || (tracing && (t->weighing || t->timing)), 0)) {
        begin_more(t, &call, object);
        taken = false;
    }
    weighed = t->weighing || t->timing;
    th->top = &call;
    th->depth++;
    call.began_ns = pb_clock_ns();
    result = t->call_was(object, args, kwargs);
    now = pb_clock_ns();
    th->top = call.outer;
    th->depth = call.depth;
    /* The entry may have been given to another module meanwhile, or the collector have left. */
    if (!t->on || !call.module || call.module->object != object)
        return result;
    if (tracing && t->tracing) {
        record(t, &call, now, !result);
        if (weighed)
            t->sums.own_ns += pb_clock_ns() - now;
        else if (taken)
            pb_torch_take_call(t, AROUND_NS + (double)(call.began_ns - entered +
                                                       pb_clock_ns() - now));
    }
    if (th->depth == 0 && t->on)
        root_ended(t, &call, object, now, !result);
    return result;
}

struct _object *pb_torch_on_call(struct _object *object, struct _object *args,
                                 struct _object *kwargs)
{
    struct pb_torch *t = pb_torch_state(pb_self());
    struct pb_torch_thread *th = t->on ? this_thread(t) : NULL;

    if (!th || (th->depth > 0 && !t->tracing))
        return t->call_was(object, args, kwargs);
    return watched(t, th, object, args, kwargs);
}
