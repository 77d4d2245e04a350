#include "agent/torch/steps/steps.h"

#include "agent/comm/comm.h"
#include "agent/torch/torch.h"

/* Forwards with gradients are inference only after so many of them, or so long, without a step. */
#define PATIENCE 20
#define PATIENCE_NS 3000000000u

/* For readers outside. */
static struct pb_progress_head *shown(struct pb_torch *t)
{
    return &t->self->collect->progress.page->head;
}

void pb_torch_steps_set(struct pb_torch *t, int64_t number)
{
    if (number != t->steps.number)
        t->steps.seq = 0;
    t->steps.number = number;
    shown(t)->step = number;
    shown(t)->epoch = t->steps.epoch;
}

void pb_torch_steps_enter(struct pb_torch *t)
{
    t->steps = (struct pb_torch_steps){.attached_ns = pb_clock_ns(), .epoch = PB_NULL_INT};
    pb_torch_steps_set(t, 0);
}

void pb_torch_steps_leave(struct pb_torch *t)
{
    shown(t)->step = shown(t)->epoch = PB_NULL_INT;
}

void pb_torch_part_begin(struct pb_torch *t, struct pb_torch_part *p, uint64_t now)
{
    p->began_ns = now;
    p->parts_ns = t->steps.parts_ns;
    p->comm_ns = pb_comm_elapsed_ns(t->self, now);
    p->sum_comm_ns = t->steps.sums.comm_ns;
}

static uint64_t less(uint64_t from, uint64_t what)
{
    return from > what ? from - what : 0;
}

uint64_t pb_torch_part_end(struct pb_torch *t, const struct pb_torch_part *p, uint64_t now)
{
    struct pb_torch_steps *s = &t->steps;
    uint64_t comm_ns = pb_comm_elapsed_ns(t->self, now), own;

    if (s->ended_ns <= p->began_ns) {
        own = less(now - p->began_ns, s->parts_ns - p->parts_ns);
        s->sums.comm_ns = p->sum_comm_ns + less(comm_ns, p->comm_ns);
    } else {
        /* A step has ended inside of the part: what was before that is not this step's. */
        own = less(less(now, s->ended_ns), s->parts_ns - s->parts_ns_before);
        s->sums.comm_ns = comm_ns;
    }
    s->parts_ns += own;
    return own;
}

bool pb_torch_steps_is_thread(const struct pb_torch *t)
{
    return !t->steps.has_thread || pthread_equal(t->steps.thread, pthread_self());
}

void pb_torch_steps_claim_thread(struct pb_torch *t)
{
    t->steps.thread = pthread_self();
    t->steps.has_thread = true;
    shown(t)->step_tid = pb_progress_thread(t->self)->tid;
}

/* began: when the collector's own work at the end of the step began. */
static void begin_next(struct pb_torch *t, uint64_t began, uint64_t took)
{
    if (t->calls.nended)
        pb_torch_calls_flush(t);
    pb_torch_steps_set(t, t->steps.number + 1);
    t->steps.took_ns = took;
    pb_torch_memory_poll(t, began);
    pb_torch_clock_follow_wall(&t->clock, began);
    pb_torch_add_own_time(t, began);
    pb_torch_budget_next_step(t, took);
    pb_torch_trace_poll(t, false);
    t->steps.sums = (struct pb_torch_sums){0};
}

/* What the user's own expressions say. */
static void apply_expressions(struct pb_torch *t)
{
    struct pb_torch_steps *s = &t->steps;
    int64_t n;

    if (pb_torch_expression_value(t, PB_TORCH_EXPRESSION_STEP, &n)) {
        if (n != s->number && t->calls.nended)
            pb_torch_calls_flush(t);
        pb_torch_steps_set(t, n);
        s->number_source = PB_TORCH_BY_EXPRESSION;
    } else if (s->number_source == PB_TORCH_BY_EXPRESSION) {
        s->number_source = PB_TORCH_BY_INJECTION;
    }
    if (pb_torch_expression_value(t, PB_TORCH_EXPRESSION_EPOCH, &n)) {
        s->epoch = n;
        s->epoch_source = PB_TORCH_BY_EXPRESSION;
    } else if (s->epoch_source == PB_TORCH_BY_EXPRESSION) {
        s->epoch_source = PB_TORCH_BY_INJECTION;
    }
}

static void end_step(struct pb_torch *t, struct _object *optimizer, uint64_t now, uint64_t began)
{
    struct pb_torch_steps *s = &t->steps;
    uint64_t took = s->ended_ns ? now - s->ended_ns : 0;

    apply_expressions(t);
    if (!t->on)
        return;
    pb_torch_logs_write(t, optimizer, now);
    t->events.step_profiled = t->events.profiling;
    s->ended_ns = now;
    s->parts_ns_before = s->parts_ns;
    shown(t)->steps_ended++;
    shown(t)->step_ended_ns = now;
    shown(t)->step_took_ns = took;
    begin_next(t, began, took);
}

void pb_torch_steps_end(struct pb_torch *t, struct _object *optimizer, uint64_t now)
{
    end_step(t, optimizer, now, now);
    pb_torch_notify(t, PB_TORCH_EVENT_STEP);
}

/* What came after the backward pass is the next step's. */
void pb_torch_steps_end_manual(struct pb_torch *t)
{
    const struct pb_torch_sums *then = &t->manual.sums;
    struct pb_torch_sums since = t->steps.sums;

    since.forward_ns -= then->forward_ns;
    since.comm_ns = less(since.comm_ns, then->comm_ns);
    t->steps.sums = *then;
    end_step(t, NULL, t->manual.ended_ns, pb_clock_ns());
    t->steps.parts_ns_before = t->manual.parts_ns;
    t->steps.sums.forward_ns += since.forward_ns;
    t->steps.sums.comm_ns += since.comm_ns;
}

void pb_torch_steps_end_forward(struct pb_torch *t, bool training)
{
    struct pb_torch_steps *s = &t->steps;
    uint64_t now = pb_clock_ns();
    uint64_t took = s->ended_ns ? now - s->ended_ns : 0;

    if (!s->root_seen && pb_torch_called_within(t))
        return;
    s->root_seen = true;
    if (s->unexplained < PATIENCE || now - s->attached_ns < PATIENCE_NS) {
        s->unexplained++;
        if (training) {
            /* Training begins; what was counted before was not. */
            if (t->calls.nended)
                pb_torch_calls_flush(t);
            pb_torch_steps_set(t, 0);
            return;
        }
    }
    /* Communication of this step, which has no row. */
    pb_comm_window_ns(t->self, now);
    pb_comm_gpu_window_ns(t->self);
    s->ended_ns = now;
    s->parts_ns_before = s->parts_ns;
    s->by_forward = true;
    begin_next(t, now, took);
}

void pb_torch_steps_trains(struct pb_torch *t)
{
    if (t->steps.by_forward)
        t->steps.ended_ns = 0;
    t->steps.by_forward = false;
}
