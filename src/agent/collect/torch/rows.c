/* Rows of python.torch_trace: in their order, also those whose time on the GPU comes later. */
#include "agent/collect/torch/torch.h"
#include "base/clock.h"
#include "store/tables/python_torch_trace.h"
#include "store/tables/table.h"

/* A GPU that has not come so far after this long hangs, as far as we know. */
#define PATIENCE_NS 30000000000u

enum {
#define X(name, type, unit, doc) AT_##name,
    PB_PYTHON_TORCH_TRACE(X)
#undef X
        NCOLUMNS
};

static void write_row(struct pb_torch *t, const struct pb_torch_row *r)
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
    row[AT_allocated].d = pb_torch_mb(r->bytes);
    row[AT_max_allocated].d = pb_torch_memory_peak(t);
    row[AT_cached].d = pb_torch_memory_cached(t);
    row[AT_allocated_delta].d = pb_torch_mb(r->delta);
    row[AT_self_ms].d = r->self_ms;
    row[AT_root].name = r->root;
    row[AT_phase].name = r->phase;
    row[AT_tid].i = r->tid;
    pb_ring_append(t->trace, row);
}

static struct pb_torch_held *held_at(struct pb_torch *t, unsigned i)
{
    return &t->held[(t->held_at + i) % PB_TORCH_HELD];
}

/* False: its time is not there yet. */
static bool is_timed(struct pb_cuda *c, struct pb_torch_held *h)
{
    float ms;

    if (!h->to)
        return true;
    if (c->driver.event_elapsed(&ms, h->from, h->to) == 0)
        h->row.gpu_ms = (double)ms;
    else if (!pb_cuda_is_done(c, h->to))
        return false;
    return true;
}

static void let_go(struct pb_torch *t, bool all)
{
    while (t->held_n) {
        struct pb_torch_held *h = held_at(t, 0);

        if (!is_timed(&t->cuda, h) && !all)
            return;
        if (t->trace)
            write_row(t, &h->row);
        if (h->users)
            --*h->users;
        t->held_at = (t->held_at + 1) % PB_TORCH_HELD;
        t->held_n--;
    }
}

static void keep(struct pb_torch *t, struct pb_torch_row *r, void *from, void *to,
                 uint32_t *users)
{
    if (t->held_n == PB_TORCH_HELD)
        let_go(t, true);
    *held_at(t, t->held_n++) = (struct pb_torch_held){*r, from, to, users};
    if (to)
        t->held_last = to;
    if (users)
        ++*users;
}

/* Here alone a row gets its number, so that no other one comes between the two. */
static void number(struct pb_torch *t, struct pb_torch_row *r)
{
    if (t->nnotes)
        pb_torch_notes_write(t);
    if (r->thread && r->thread->serving) {
        r->step = r->thread->step;
        r->seq = r->thread->seq++;
        return;
    }
    r->step = t->step;
    r->seq = t->seq++;
}

void pb_torch_put(struct pb_torch *t, struct pb_torch_row *r)
{
    number(t, r);
    if (__builtin_expect(t->held_n > 0, 0))
        keep(t, r, NULL, NULL, NULL);
    else if (t->trace)
        write_row(t, r);
}

void pb_torch_hold(struct pb_torch *t, struct pb_torch_row *r, void *from, void *to,
                   uint32_t *users)
{
    number(t, r);
    keep(t, r, from, to, users);
}

void pb_torch_rows_poll(struct pb_torch *t, bool all)
{
    const struct pb_torch_held *first = held_at(t, 0);

    if (t->nnotes)
        pb_torch_notes_write(t);
    if (t->held_n) {
        if (pb_clock_ns() - first->row.ended_ns > PATIENCE_NS + 4 * t->took_ns)
            all = true;
        /* What was put on a stream last is done last: mostly one question is enough. */
        if (all || !first->to || pb_cuda_is_done(&t->cuda, t->held_last) ||
            pb_cuda_is_done(&t->cuda, first->to))
            let_go(t, all);
    }
    if (!t->spans_held && !t->timing)
        pb_cuda_spans_clear(&t->cuda);
}
