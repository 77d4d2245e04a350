/* Which step is traced by module next, so that the cost stays within the budget. */
#include <stdio.h>

#include "agent/collect/collect.h"
#include "agent/collect/torch/grad.h"
#include "agent/collect/torch/torch.h"

#define SMOOTH 0.2
#define PERIOD_MAX (1u << 20)
/* Of the traced steps one in so many, or fewer, has its time on the GPU taken. */
#define TIME_EVERY 16
/*
 * Part of the budget for it; grad.h has one, too. What it does to the caches and to the GPU is not
 * seen and costs more, so that less than all is given out.
 */
#define TIME_SHARE 0.05
#define TRACE_SHARE 0.7
/* Tracing is not given up for what would be spent without it; but then it gets this part only. */
#define LEAST_SHARE 0.1
/* More steps are traced again only when that stays well within the budget. */
#define EASE 0.8
/* What a call costs that passes through our slot and is not recorded. */
#define PASSING_NS 15.0
/* One figure raises what is believed of a rare cost at most so much. */
#define RAISE_MAX 4

static uint32_t wanted_period(const struct pb_torch *t)
{
    int64_t rate = pb_self_setting(t->self, PB_SET_TORCH_SAMPLE_RATE);

    if (rate == pb_setting_list[PB_SET_TORCH_SAMPLE_RATE].otherwise)
        rate = pb_self_setting(t->self, PB_SET_SAMPLE_RATE);
    return rate > 0 ? (uint32_t)((1000 + rate / 2) / rate) : 0;
}

/* Says so, when the share of traced steps is less than what was asked for. */
void pb_torch_say(struct pb_torch *t)
{
    uint32_t wanted = wanted_period(t);
    char text[256];
    int n = 0;

    t->period_said = t->period;
    text[0] = '\0';
    if (t->period > 1)
        n = snprintf(text, sizeof text, "modules of one step in %u%s", t->period,
                     t->period > wanted ? ": torch.budget" : "");
    if (t->note[0])
        n += snprintf(text + n, sizeof text - (size_t)n, "%s%s", n ? "; " : "", t->note);
    if (t->number_note[0] && (size_t)n < sizeof text)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s%s", n ? "; " : "", t->number_note);
    t->number_note_new = false;
    if (t->alloc.why && (size_t)n < sizeof text)
        snprintf(text + n, sizeof text - (size_t)n, "%s%s", n ? "; " : "", t->alloc.why);
    pb_collect_say(t->self, "torch", "on", text);
}

/*
 * A thread that lost its processor in the midst of our work makes that look long. So one figure
 * raises what is believed by little; if it is true, more will come.
 */
static double believe(double believed, double seen, double spare)
{
    double most = 1.25 * believed + spare;

    return believed + SMOOTH * ((seen < most ? seen : most) - believed);
}

void pb_torch_take_call(struct pb_torch *t, double ns)
{
    t->call_cost_ns = believe(t->call_cost_ns, ns, 100);
}

static double budget_of(const struct pb_torch *t)
{
    return (double)pb_self_setting(t->self, PB_SET_TORCH_BUDGET) / 1000.0 / 100.0;
}

static void follow(double *share, double seen)
{
    *share += (*share > 0 ? SMOOTH : 1.0) * (seen - *share);
}

/* Of a step that was traced and nothing more, or of one that was not. */
static void take_cost(struct pb_torch *t, uint64_t took)
{
    double own = (double)t->sums.own_ns;

    if (t->tracing) {
        t->own_cost_ns = believe(t->own_cost_ns, own, 4000);
        t->rows = t->sums.rows;
        follow(&t->cost_share,
               ((double)t->rows * t->call_cost_ns + t->own_cost_ns) / (double)took);
    } else {
        t->base_cost_ns = believe(t->base_cost_ns, own, 4000);
        follow(&t->base_share,
               ((double)t->rows * PASSING_NS + t->base_cost_ns) / (double)took);
    }
}

/* What tracing one step in so many adds to what is spent anyway. */
static double added(const struct pb_torch *t, uint32_t period)
{
    return t->cost_share > t->base_share ? (t->cost_share - t->base_share) / period : 0;
}

static bool is_too_much(const struct pb_torch *t, uint32_t period, double budget)
{
    return t->base_share + added(t, period) > TRACE_SHARE * budget &&
           added(t, period) > LEAST_SHARE * budget;
}

static void choose_period(struct pb_torch *t, uint32_t wanted)
{
    double budget = budget_of(t);
    uint32_t steps = 1; /* times what is wanted */

    if (t->period > wanted)
        steps = t->period / wanted;
    while (steps > 1 && !is_too_much(t, steps / 2 * wanted, EASE * budget))
        steps /= 2;
    while (steps < PERIOD_MAX && is_too_much(t, steps * wanted, budget))
        steps *= 2;
    t->period = steps * wanted;
    if (t->period != t->period_said)
        pb_torch_say(t);
}

/* One traced step in how many, for something that costs so much each time. */
static uint32_t how_rarely(const struct pb_torch *t, double cost_ns, uint64_t took, double share)
{
    uint32_t every = TIME_EVERY;

    while (every < PERIOD_MAX &&
           cost_ns / (double)took / every / t->period > share * budget_of(t))
        every *= 2;
    return every;
}

/* The more it costs to take the time on the GPU in such a step, the rarer that is. */
static void choose_timing(struct pb_torch *t, uint64_t took)
{
    double own = (double)t->sums.own_ns, most = RAISE_MAX * t->time_cost_ns;

    if (!took || !t->sums.rows || !t->period)
        return;
    if (t->timing)
        t->time_cost_ns = most > 0 && own > most ? most : own;
    t->time_every = how_rarely(t, t->time_cost_ns, took, TIME_SHARE);
}

/* Traced are steps whose number the period divides, so that all ranks trace the same ones. */
void pb_torch_choose_next(struct pb_torch *t, uint64_t took)
{
    uint32_t wanted = wanted_period(t);
    int64_t number;

    t->spent_ns += t->sums.own_ns + (t->tracing ? (uint64_t)(t->sums.rows * t->call_cost_ns)
                                                : (uint64_t)(t->rows * PASSING_NS));
    /* Timed steps are few, and paid for by being few. */
    if (took && !t->timing && !t->ranging)
        take_cost(t, took);
    if (t->tracing)
        choose_timing(t, took);
    t->timing = false;
    t->tracing = false;
    if (!wanted) {
        t->period = 0;
        return;
    }
    choose_period(t, wanted);
    number = t->step / t->period;
    t->tracing = t->step % t->period == 0;
    t->timing = t->tracing && t->time_every && number % t->time_every == t->time_every / 2 &&
                t->cuda.state > 0 && !t->cuda.nspans &&
                pb_self_setting(t->self, PB_SET_TORCH_GPU);
    pb_grad_choose(t, (uint64_t)number, took);
}
