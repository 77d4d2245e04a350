#include "agent/torch/budget.h"

#include "agent/torch/backward/grad.h"
#include "agent/torch/torch.h"

#define SMOOTH 0.2
#define PERIOD_MAX (1u << 20)
/* At most one traced step in so many is timed on the GPU. */
#define TIME_EVERY 16
/*
 * Shares of the budget for timing the GPU and for tracing; grad_pass.c has one, too. What tracing
 * does to the caches and to the GPU is not measured, so that less than all is given out.
 */
#define TIME_SHARE 0.05
#define TRACE_SHARE 0.7
/* Share that tracing keeps where the budget is spent without it. */
#define MIN_SHARE 0.1
/* More steps are traced again only when that stays below this part of the budget. */
#define EASE 0.8
/* Cost of a call that passes through our slot and is not recorded. */
#define PASSING_NS 15.0
/* One measurement raises a rare cost at most so much. */
#define RAISE_MAX 4

/* As the settings want it: one step in so many; 0: none. */
static uint32_t wanted_period(const struct pb_self *self)
{
    int64_t rate = pb_self_setting(self, PB_SET_TORCH_SAMPLE_RATE);

    if (rate == pb_setting_list[PB_SET_TORCH_SAMPLE_RATE].default_value)
        rate = pb_self_setting(self, PB_SET_SAMPLE_RATE);
    return rate > 0 ? (uint32_t)((1000 + rate / 2) / rate) : 0;
}

bool pb_torch_budget_limits(const struct pb_torch *t)
{
    return t->budget.period > wanted_period(t->self);
}

/*
 * Smooths a cost. A thread that lost its processor in the midst of our work makes that look long:
 * one measurement raises the cost by little; if it is true, more will come.
 */
static double smooth_cost(double cost, double measured, double spare)
{
    double max = 1.25 * cost + spare;

    return cost + SMOOTH * ((measured < max ? measured : max) - cost);
}

void pb_torch_budget_add_call(struct pb_torch_budget *b, double ns)
{
    b->call_ns = smooth_cost(b->call_ns, ns, 100);
}

/* Share of the time that the collector may take. */
static double budget_of(const struct pb_self *self)
{
    return (double)pb_self_setting(self, PB_SET_TORCH_BUDGET) / 1000.0 / 100.0;
}

static void smooth_share(double *share, double measured)
{
    *share += (*share > 0 ? SMOOTH : 1.0) * (measured - *share);
}

/* Counts the cost of a step that was traced and nothing more, or was not traced. */
static void add_cost(struct pb_torch_budget *b, const struct pb_torch_sums *s, bool traced,
                     uint64_t took)
{
    double own = (double)s->own_ns;

    if (traced) {
        b->traced_ns = smooth_cost(b->traced_ns, own, 4000);
        b->rows = s->rows;
        smooth_share(&b->traced_share,
                     ((double)b->rows * b->call_ns + b->traced_ns) / (double)took);
    } else {
        b->base_ns = smooth_cost(b->base_ns, own, 4000);
        smooth_share(&b->base_share, ((double)b->rows * PASSING_NS + b->base_ns) / (double)took);
    }
}

/* Share of the time that tracing one step in so many adds. */
static double added_share(const struct pb_torch_budget *b, uint32_t period)
{
    return b->traced_share > b->base_share ? (b->traced_share - b->base_share) / period : 0;
}

static bool is_too_much(const struct pb_torch_budget *b, uint32_t period, double budget)
{
    return b->base_share + added_share(b, period) > TRACE_SHARE * budget &&
           added_share(b, period) > MIN_SHARE * budget;
}

static void choose_period(struct pb_torch_budget *b, uint32_t wanted, double budget)
{
    uint32_t steps = 1; /* multiple of the wanted period */

    if (b->period > wanted)
        steps = b->period / wanted;
    while (steps > 1 && !is_too_much(b, steps / 2 * wanted, EASE * budget))
        steps /= 2;
    while (steps < PERIOD_MAX && is_too_much(b, steps * wanted, budget))
        steps *= 2;
    b->period = steps * wanted;
}

/* The more it costs to time a step on the GPU, the rarer that is. */
static void choose_timing(struct pb_torch_budget *b, double own_ns, bool timed, uint64_t took,
                          double budget)
{
    double max = RAISE_MAX * b->timed_ns;
    uint32_t every = TIME_EVERY;

    if (timed)
        b->timed_ns = max > 0 && own_ns > max ? max : own_ns;
    while (every < PERIOD_MAX &&
           b->timed_ns / (double)took / every / b->period > TIME_SHARE * budget)
        every *= 2;
    b->time_every = every;
}

/* Counts what the step that has ended has cost. */
static void add_step(struct pb_torch *t, uint64_t took)
{
    struct pb_torch_budget *b = &t->budget;
    const struct pb_torch_sums *s = &t->steps.sums;
    double calls_ns = t->tracing ? s->rows * b->call_ns : b->rows * PASSING_NS;

    b->spent_ns += s->own_ns + (uint64_t)calls_ns;
    /* Steps that are timed or split are paid for by being few. */
    if (took && !t->timing && !t->splitting)
        add_cost(b, s, t->tracing, took);
    if (t->tracing && took && s->rows && b->period)
        choose_timing(b, (double)s->own_ns, t->timing, took, budget_of(t->self));
}

void pb_torch_budget_next_step(struct pb_torch *t, uint64_t took)
{
    struct pb_torch_budget *b = &t->budget;
    uint32_t wanted = wanted_period(t->self);
    int64_t number;

    add_step(t, took);
    t->timing = false;
    t->tracing = false;
    if (!wanted) {
        b->period = 0;
        return;
    }
    choose_period(b, wanted, budget_of(t->self));
    if (b->period != b->reported_period)
        pb_torch_report_state(t);
    number = t->steps.number / b->period;
    t->tracing = t->steps.number % b->period == 0;
    t->timing = t->tracing && b->time_every && number % b->time_every == b->time_every / 2 &&
                t->cuda.state > 0 && !t->cuda.nspans &&
                pb_self_setting(t->self, PB_SET_TORCH_GPU);
    pb_grad_choose(t, (uint64_t)number, took);
}
