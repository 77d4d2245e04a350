/* Which operation an event of torch's is about. */
#include <pthread.h>
#include <string.h>

#include "agent/comm/comm.h"

/* Messages are numbered by pair of ranks, which an event does not tell. */
static bool is_message(const char *name)
{
    return strcmp(name, "send") == 0 || strcmp(name, "recv") == 0;
}

/* Group of an operation, and its number there. */
static void describe_group(struct pb_comm *c, union pb_cell *row, const char *name)
{
    struct pb_comm_watch *w = NULL;
    int64_t seq = -1;

    /* Torch may tell of it before it has counted it: then nothing has moved yet. */
    if (c->events.counts_first)
        seq = pb_comm_watch_claim(c, &w);
    if (w) {
        row[PB_COMM_AT_group_name].name = w->name;
        row[PB_COMM_AT_group_size].i = w->size;
        if (c->events.only)
            c->events.seq = seq;
    } else if (c->events.only) {
        row[PB_COMM_AT_group_name].name = c->events.group;
        row[PB_COMM_AT_group_size].i = c->events.size;
        seq = is_message(name) ? -1 : ++c->events.seq;
    }
    if (seq >= 0 && !is_message(name))
        row[PB_COMM_AT_seq].i = seq;
}

static void describe(struct pb_comm *c, struct pb_comm_op *op, const char *name)
{
    op->row[PB_COMM_AT_op].name = pb_comm_name(c, name, strlen(name));
    /* Whom a message is for is not known; which rank has sent it only then. */
    if (strcmp(name, "recv") != 0 && c->self->collect->rank >= 0)
        op->row[PB_COMM_AT_src_rank].i = c->self->collect->rank;
    if (strcmp(name, "barrier") == 0)
        op->row[PB_COMM_AT_bytes].i = 0;
    describe_group(c, op->row, name);
}

/* The operation whose call from Python this thread is in, with a keeper; or NULL. */
static struct pb_comm_op *caller_of(struct pb_comm *c)
{
    uintptr_t self = (uintptr_t)pthread_self();
    size_t n = c->ops.calls > 0 ? c->ops.used : 0;

    for (size_t i = 0; i < n; i++)
        if (c->ops.list[i].caller == self && pb_comm_op_retain(&c->ops.list[i])) {
            if (c->ops.list[i].caller == self)
                return &c->ops.list[i];
            pb_comm_op_release(&c->ops.list[i]);
        }
    return NULL;
}

/*
 * Can an event of this name be for what Python called by that one? "all_gather" stands for
 * "all_gather_into_tensor", too, and gloo reduces before it scatters.
 */
static bool is_called(const char *called, const char *name)
{
    return strncmp(called, name, strlen(name)) == 0 ||
           (strcmp(name, "all_reduce") == 0 && strncmp(called, "reduce_scatter", 14) == 0);
}

/* With as much data as the event has, or else the older one. */
static bool is_better(struct pb_comm *c, const struct pb_comm_op *op,
                      const struct pb_comm_op *than, const void *record)
{
    union pb_cell row[PB_COMM_COLUMNS];
    bool fits, other_fits;

    pb_comm_clear_row(c, row);
    pb_comm_tensor_measure(c, record, row);
    fits = op->row[PB_COMM_AT_bytes].i == row[PB_COMM_AT_bytes].i;
    other_fits = than->row[PB_COMM_AT_bytes].i == row[PB_COMM_AT_bytes].i;
    return fits > other_fits || (fits == other_fits && op->began_ns < than->began_ns);
}

/* The operation that Python began and torch has not told of yet: the best one, kept; or NULL. */
static struct pb_comm_op *best_begun(struct pb_comm *c, const char *name, const void *record)
{
    size_t n = c->ops.used;
    struct pb_comm_op *best = NULL;

    for (size_t i = 0; i < n; i++) {
        struct pb_comm_op *op = &c->ops.list[i];

        if (op->life != PB_COMM_OPEN || op->matched || !pb_comm_op_retain(op))
            continue;
        if (op->life == PB_COMM_OPEN && op->name && is_called(op->name, name) &&
            (!best || is_better(c, op, best, record))) {
            if (best)
                pb_comm_op_release(best);
            best = op;
        } else {
            pb_comm_op_release(op);
        }
    }
    return best;
}

/*
 * The operation that Python began and torch now tells of, on a thread that does the work: the
 * oldest one of that name, with as much data if there is one. With a keeper, or NULL.
 * Several such threads may choose the same one at once: who comes second takes the next.
 */
static struct pb_comm_op *find_begun(struct pb_comm *c, const char *name, const void *record)
{
    struct pb_comm_op *best;

    while ((best = best_begun(c, name, record)) && atomic_exchange(&best->matched, true))
        pb_comm_op_release(best);
    return best;
}

/* From now on a count that moves tells which group an event is about. */
static void set_counts_first(struct pb_comm *c)
{
    pb_comm_watch_reset(c);
    c->events.counts_first = true;
}

/* Torch tells of an operation that Python began: has torch counted it by then? */
static void learn_order(struct pb_comm *c, const struct pb_comm_op *op)
{
    if (c->events.counts_first || !op->watch || !op->watch->at || op->before < 0)
        return;
    if (pb_comm_watch_count(c, op->watch) > op->before)
        set_counts_first(c);
}

/* An operation that Python knows nothing of. */
static struct pb_comm_op *begin(struct pb_comm *c, const char *name, bool device,
                                const union pb_cell *row)
{
    struct pb_comm_op *op = c->on && c->ring ? pb_comm_op_claim(c) : NULL;

    if (op) {
        op->matched = true;
        op->device = device;
        memcpy(op->row, row, sizeof op->row);
        describe(c, op, name);
        pb_comm_op_begin(c, op, device ? c->states.enqueued : c->states.started);
    }
    return op;
}

/* A part of an operation on the GPU, which may be made of nothing but parts. */
static void begin_part(struct pb_comm *c, struct pb_comm_op *op)
{
    op->by_wait = true;
    if (op->marks == PB_COMM_UNMARKED)
        pb_comm_gpu_begins(c, op);
}

struct pb_comm_op *pb_comm_match(struct pb_comm *c, const char *name, bool device,
                                 const void *record)
{
    struct pb_comm_op *op = caller_of(c);
    union pb_cell row[PB_COMM_COLUMNS];

    c->events.count++;
    c->events.total = c->events.counts_first ? 0 : pb_comm_watch_total(c);
    /* Within a call: the operation itself, or a part of it, or a check that all ranks agree. */
    if (op && (!is_called(op->name, name) || atomic_exchange(&op->matched, true))) {
        if (device)
            begin_part(c, op);
        pb_comm_op_release(op);
        return NULL;
    }
    if (!op && !device)
        op = find_begun(c, name, record);
    if (!op) {
        pb_comm_clear_row(c, row);
        pb_comm_tensor_measure(c, record, row);
        return begin(c, name, device, row);
    }
    learn_order(c, op);
    op->device = device;
    return op;
}

/* Nothing is under way, and torch has counted no more than at the last event. */
void pb_comm_match_poll(struct pb_comm *c)
{
    uint64_t events = c->events.count;
    int64_t before = c->events.total, total;

    if (c->events.counts_first || !events || !before || c->events.in_flight)
        return;
    total = pb_comm_watch_total(c);
    if (events == c->events.count && total == before)
        set_counts_first(c);
}

