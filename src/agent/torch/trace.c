#include "agent/torch/trace.h"

#include <string.h>

#include "agent/collectors/collect.h"
#include "agent/torch/torch.h"
#include "schema/python_torch_trace.h"
#include "schema/table.h"

/* A GPU that has not come so far after this long, and four steps more, hangs. */
#define PATIENCE_NS 30000000000u

PB_TABLE_COLUMNS(PB_PYTHON_TORCH_TRACE);
static const struct pb_ring_spec table = {
    PB_TABLE_SPEC(PB_PYTHON_TORCH_TRACE_NAME, PB_PYTHON_TORCH_TRACE_DOC),
    .rows = 65536,
    .dict_bytes = 256 << 10,
    .flags = PB_RING_KEEP,
};

bool pb_torch_trace_enter(struct pb_torch *t)
{
    struct pb_torch_trace *trace = &t->trace;
    const struct {
        uint32_t *to;
        const char *text;
    } names[] = {{&trace->forward, "forward"},       {&trace->backward, "backward"},
                 {&trace->optimizer, "optimizer"},   {&trace->backward_operation, "backward"},
                 {&trace->train, "train"},           {&trace->eval, "eval"},
                 {&trace->data, "data"}};

    trace->ring = pb_collect_ring(t->self, &table);
    for (size_t i = 0; trace->ring && i < sizeof names / sizeof *names; i++)
        *names[i].to = pb_torch_name(t, names[i].text, strlen(names[i].text));
    return trace->ring != NULL;
}

uint32_t pb_torch_name(struct pb_torch *t, const char *s, size_t len)
{
    return t->trace.ring ? pb_ring_name(t->trace.ring, s, len) : PB_NULL_NAME;
}

uint32_t pb_torch_carry_name(struct pb_torch *t, struct pb_ring *ring, uint32_t name)
{
    size_t len = 0;
    const char *s = name && t->trace.ring ? pb_ring_text(t->trace.ring, name, &len) : NULL;

    return s && ring ? pb_ring_name(ring, s, len) : PB_NULL_NAME;
}

static void write_row(struct pb_torch *t, const struct pb_torch_row *r)
{
    union pb_cell row[NCOLUMNS];

    row[AT_timestamp].i = (int64_t)r->began_ns + t->clock.wall_offset_ns;
    row[AT_step].i = r->step;
    row[AT_seq].i = r->seq;
    row[AT_module].name = r->name;
    row[AT_module_type].name = r->type;
    row[AT_stage].name = r->stage;
    row[AT_operation_name].name = r->operation;
    row[AT_duration_ms].d = (double)(r->ended_ns - r->began_ns) / 1e6;
    row[AT_gpu_ms].d = r->gpu_ms;
    row[AT_allocated].d = pb_torch_mb(r->bytes);
    row[AT_max_allocated].d = pb_torch_memory_peak(t);
    row[AT_cached].d = pb_torch_memory_cached(t);
    row[AT_allocated_delta].d = pb_torch_mb(r->delta);
    row[AT_self_ms].d = r->self_ms;
    row[AT_root].name = r->root;
    row[AT_phase].name = r->phase;
    row[AT_tid].i = r->tid;
    pb_ring_append(t->trace.ring, row);
}

static struct pb_torch_waiting_row *waiting_at(struct pb_torch_trace *trace, unsigned i)
{
    return &trace->waiting[(trace->first + i) % PB_TORCH_WAITING];
}

/* Reads the row's time on the GPU. False: it is not there yet. */
static bool read_time(struct pb_cuda *c, struct pb_torch_waiting_row *w)
{
    float ms;

    if (!w->to)
        return true;
    if (c->driver.event_elapsed(&ms, w->from, w->to) == 0)
        w->row.gpu_ms = (double)ms;
    else if (!pb_cuda_is_done(c, w->to))
        return false;
    return true;
}

/* Writes waiting rows, the oldest first, up to one whose time is not known; all: every row. */
static void write_waiting(struct pb_torch *t, bool all)
{
    struct pb_torch_trace *trace = &t->trace;

    while (trace->count) {
        struct pb_torch_waiting_row *w = waiting_at(trace, 0);

        if (!read_time(&t->cuda, w) && !all)
            return;
        if (trace->ring)
            write_row(t, &w->row);
        if (w->users)
            --*w->users;
        trace->first = (trace->first + 1) % PB_TORCH_WAITING;
        trace->count--;
    }
}

static void enqueue(struct pb_torch *t, struct pb_torch_row *r, void *from, void *to,
                    uint32_t *users)
{
    struct pb_torch_trace *trace = &t->trace;

    if (trace->count == PB_TORCH_WAITING)
        write_waiting(t, true);
    *waiting_at(trace, trace->count++) = (struct pb_torch_waiting_row){*r, from, to, users};
    if (to)
        trace->last_event = to;
    if (users)
        ++*users;
}

/* Only here does a row get its number, so that no other row comes between the two. */
static void set_number(struct pb_torch *t, struct pb_torch_row *r)
{
    if (t->calls.nended)
        pb_torch_calls_flush(t);
    if (r->thread && r->thread->serving) {
        r->step = r->thread->step;
        r->seq = r->thread->seq++;
        return;
    }
    r->step = t->steps.number;
    r->seq = t->steps.seq++;
}

void pb_torch_trace_append(struct pb_torch *t, struct pb_torch_row *r)
{
    set_number(t, r);
    if (__builtin_expect(t->trace.count > 0, 0))
        enqueue(t, r, NULL, NULL, NULL);
    else if (t->trace.ring)
        write_row(t, r);
}

void pb_torch_trace_append_timed(struct pb_torch *t, struct pb_torch_row *r, void *from, void *to,
                                 uint32_t *users)
{
    set_number(t, r);
    enqueue(t, r, from, to, users);
}

int pb_torch_span_begin(struct pb_torch *t)
{
    return t->timing ? pb_cuda_span_begin(&t->cuda, &t->self->py) : -1;
}

/* Ends a span; NULL when there is none, or the collector was turned off meanwhile. */
static const struct pb_cuda_span *end_span(struct pb_torch *t, int span)
{
    const struct pb_cuda_span *s;

    if (span < 0 || !t->timing)
        return NULL;
    pb_cuda_span_end(&t->cuda, &t->self->py, span);
    s = &t->cuda.spans[span];
    return t->on && (unsigned)span < t->cuda.nspans && s->ended ? s : NULL;
}

void pb_torch_trace_append_span(struct pb_torch *t, struct pb_torch_row *r, int span)
{
    const struct pb_cuda_span *s = end_span(t, span);

    if (s)
        pb_torch_trace_append_timed(t, r, s->from, s->to, &t->trace.spans);
    else
        pb_torch_trace_append(t, r);
}

static double self_ms(const struct pb_torch_stage *s)
{
    uint64_t took = s->ended_ns - s->began_ns;

    if (s->inside_ns == UINT64_MAX)
        return pb_null_real();
    return took > s->inside_ns ? (double)(took - s->inside_ns) / 1e6 : 0;
}

void pb_torch_trace_stage(struct pb_torch *t, const struct pb_torch_stage *s)
{
    const struct pb_torch_thread *th = pb_torch_thread(t);
    int64_t bytes = pb_torch_memory_bytes(&t->memory);
    struct pb_torch_row r = {
        .name = s->name, .type = s->type, .stage = s->stage, .operation = s->operation,
        .began_ns = s->began_ns, .ended_ns = s->ended_ns, .gpu_ms = pb_null_real(),
        .self_ms = self_ms(s), .bytes = bytes, .delta = pb_torch_delta(s->bytes_before, bytes),
        .root = s->label, .phase = t->trace.train, .tid = th ? th->tid : PB_NULL_INT};

    t->steps.sums.rows++;
    pb_torch_trace_append_span(t, &r, s->span);
}

void pb_torch_trace_poll(struct pb_torch *t, bool all)
{
    const struct pb_torch_waiting_row *first = waiting_at(&t->trace, 0);

    if (t->calls.nended)
        pb_torch_calls_flush(t);
    if (t->trace.count) {
        if (pb_clock_ns() - first->row.ended_ns > PATIENCE_NS + 4 * t->steps.took_ns)
            all = true;
        /* What was put on a stream last is done last: mostly one question is enough. */
        if (all || !first->to || pb_cuda_is_done(&t->cuda, t->trace.last_event) ||
            pb_cuda_is_done(&t->cuda, first->to))
            write_waiting(t, all);
    }
    if (!t->trace.spans && !t->timing)
        pb_cuda_spans_clear(&t->cuda);
}
