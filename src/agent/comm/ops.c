#include "agent/comm/ops.h"

#include "agent/comm/comm.h"
#include "base/clock.h"

/* since_and_count: how many in the low bits, since when above them. */
#define COUNT_BITS 12
#define COUNT_MASK ((1u << COUNT_BITS) - 1)
#define UNIT_BITS 6

struct pb_comm_op *pb_comm_op_claim(struct pb_comm *c)
{
    for (size_t i = 0; i < PB_COMM_OPS; i++) {
        struct pb_comm_op *op = &c->ops.list[i];
        int expected = PB_COMM_FREE;

        if (op->life != PB_COMM_FREE ||
            !atomic_compare_exchange_strong(&op->life, &expected, PB_COMM_CLAIMED))
            continue;
        if (i >= c->ops.used)
            c->ops.used = i + 1;
        op->matched = op->by_torch = false;
        op->name = NULL;
        op->shown = op->shown_group = 0;
        op->caller = 0;
        op->device = op->counts = op->coalesced = op->by_wait = false;
        op->marks = PB_COMM_UNMARKED;
        op->work = op->weak = NULL;
        op->ring_number = c->ring_number;
        op->before = -1;
        op->watch = NULL;
        op->keepers = 1;
        return op;
    }
    return NULL;
}

uint32_t pb_comm_name(struct pb_comm *c, const char *s, size_t len)
{
    struct pb_ring *ring = c->ring;

    return ring ? pb_ring_name(ring, s, len) : PB_NULL_NAME;
}

static void append(struct pb_comm *c, const struct pb_comm_op *op)
{
    struct pb_ring *ring = c->ring;

    /* Names in the row are numbers in one ring and mean nothing in another. */
    if (ring && c->on && op->ring_number == c->ring_number)
        pb_ring_append(ring, op->row);
}

void pb_comm_op_amend(struct pb_comm *c, struct pb_comm_op *op, uint32_t state, uint64_t now)
{
    op->row[PB_COMM_AT_state].name = state;
    op->row[PB_COMM_AT_latency_ms].d = now ? (double)(now - op->began_ns) / 1e6 : pb_null_real();
    append(c, op);
}

void pb_comm_op_end(struct pb_comm *c, struct pb_comm_op *op, uint32_t state, uint64_t now)
{
    int expected = PB_COMM_OPEN;

    /* Torch's word and the return of a wait may come at once, from two threads. */
    if (atomic_compare_exchange_strong(&op->life, &expected, PB_COMM_ENDED))
        pb_comm_op_amend(c, op, state, now);
}

void pb_comm_op_end_ms(struct pb_comm *c, struct pb_comm_op *op, uint32_t state, double ms)
{
    int expected = PB_COMM_OPEN;

    if (!atomic_compare_exchange_strong(&op->life, &expected, PB_COMM_ENDED))
        return;
    op->row[PB_COMM_AT_state].name = state;
    op->row[PB_COMM_AT_latency_ms].d = ms;
    append(c, op);
}

bool pb_comm_op_retain(struct pb_comm_op *op)
{
    int n = op->keepers;

    while (n > 0)
        if (atomic_compare_exchange_weak(&op->keepers, &n, n + 1))
            return true;
    return false;
}

void pb_comm_op_release(struct pb_comm_op *op)
{
    if (atomic_fetch_sub(&op->keepers, 1) == 1)
        op->life = PB_COMM_FREE;
}

void pb_comm_op_begin(struct pb_comm *c, struct pb_comm_op *op, uint32_t state)
{
    op->row[PB_COMM_AT_timestamp].i = pb_clock_wall_ns();
    op->row[PB_COMM_AT_latency_ms].d = pb_null_real();
    op->row[PB_COMM_AT_state].name = state;
    op->began_ns = pb_clock_ns();
    append(c, op);
    op->life = PB_COMM_OPEN;
}

static uint64_t since(uint64_t word)
{
    return word >> COUNT_BITS << UNIT_BITS;
}

static uint64_t count(uint64_t word)
{
    return word & COUNT_MASK;
}

static uint64_t make_word(uint64_t since_ns, uint64_t n)
{
    return since_ns >> UNIT_BITS << COUNT_BITS | n;
}

static uint64_t span(uint64_t from, uint64_t to)
{
    return to > from ? to - from : 0;
}

void pb_comm_time_begin(struct pb_comm *c, uint64_t now)
{
    uint64_t was = c->time.since_and_count, is;

    do
        is = count(was) ? was + 1 : make_word(now, 1);
    while (!atomic_compare_exchange_weak(&c->time.since_and_count, &was, is));
}

void pb_comm_time_end(struct pb_comm *c, uint64_t now)
{
    uint64_t was = c->time.since_and_count;

    do
        if (!count(was))
            return;
    while (!atomic_compare_exchange_weak(&c->time.since_and_count, &was, was - 1));
    if (count(was) == 1)
        c->time.sum_ns += span(since(was), now);
}

uint64_t pb_comm_elapsed_ns(struct pb_self *self, uint64_t now)
{
    struct pb_comm *c = pb_comm_state(self);
    uint64_t word = c ? c->time.since_and_count : 0;

    return (c ? c->time.sum_ns : 0) + (count(word) ? span(since(word), now) : 0);
}

uint64_t pb_comm_window_ns(struct pb_self *self, uint64_t now)
{
    struct pb_comm *c = pb_comm_state(self);
    struct pb_comm_time *t = &c->time;
    uint64_t was;

    if (!c)
        return 0;
    was = t->since_and_count;
    do
        if (!count(was))
            return atomic_exchange(&t->sum_ns, 0);
    while (!atomic_compare_exchange_weak(&t->since_and_count, &was, make_word(now, count(was))));
    return atomic_exchange(&t->sum_ns, 0) + span(since(was), now);
}
