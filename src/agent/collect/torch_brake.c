/* Which step is traced by module next, so that the cost stays within the budget. */
#include <stdio.h>

#include "agent/collect/collect.h"
#include "agent/collect/torch.h"

#define SMOOTH 0.2
#define PERIOD_MAX (1u << 20)
/* Of the traced steps one in so many, or fewer, has its memory and its time on the GPU taken. */
#define WEIGH_EVERY 16
#define WEIGH_SHARE 0.001
/* More steps are traced again only when that stays well within the budget. */
#define EASE 0.7

static uint32_t wanted_period(const struct pb_torch *t)
{
    const struct pb_settings *s = &t->self->settings;
    int64_t rate = s->v[PB_SET_TORCH_SAMPLE_RATE];

    if (rate == pb_setting_list[PB_SET_TORCH_SAMPLE_RATE].otherwise)
        rate = s->v[PB_SET_SAMPLE_RATE];
    return rate > 0 ? (uint32_t)((1000 + rate / 2) / rate) : 0;
}

/* Says so, when the share of traced steps is less than what was asked for. */
void pb_torch_say(struct pb_torch *t)
{
    uint32_t wanted = wanted_period(t);
    char text[200];
    int n = 0;

    t->period_said = t->period;
    text[0] = '\0';
    if (t->period > 1)
        n = snprintf(text, sizeof text, "modules of one step in %u%s", t->period,
                     t->period > wanted ? ": torch.budget" : "");
    if (t->note[0])
        snprintf(text + n, sizeof text - (size_t)n, "%s%s", n ? "; " : "", t->note);
    pb_collect_say(t->self, "torch", "on", text);
}

/*
 * A thread that lost its processor in the midst of our work makes that look long. So one figure
 * raises what is believed only so far; if it is true, more will come.
 */
static double believe(double believed, double seen, double spare)
{
    double most = 3.0 * believed + spare;

    return believed + SMOOTH * ((seen < most ? seen : most) - believed);
}

void pb_torch_take_call(struct pb_torch *t, double ns)
{
    t->call_cost_ns = believe(t->call_cost_ns, ns, 200);
}

static void take_cost(struct pb_torch *t, uint64_t took)
{
    double share;

    t->own_cost_ns = believe(t->own_cost_ns, (double)t->sums.own_ns, 5000);
    share = ((double)t->sums.rows * t->call_cost_ns + t->own_cost_ns) / (double)took;
    t->cost_share += (t->cost_share > 0 ? SMOOTH : 1.0) * (share - t->cost_share);
}

static void choose_period(struct pb_torch *t, uint32_t wanted)
{
    double budget = (double)t->self->settings.v[PB_SET_TORCH_BUDGET] / 1000.0 / 100.0;
    uint32_t steps = 1; /* times what is wanted */

    if (t->period > wanted)
        steps = t->period / wanted;
    while (steps > 1 && t->cost_share / (double)(steps / 2 * wanted) < EASE * budget)
        steps /= 2;
    while (steps < PERIOD_MAX && t->cost_share / (double)(steps * wanted) > budget)
        steps *= 2;
    t->period = steps * wanted;
    if (t->period != t->period_said)
        pb_torch_say(t);
}

/* Two looks a call; the more a look costs for such a step, the rarer they are. */
static void choose_weighing(struct pb_torch *t, uint64_t took)
{
    double cost = 2.0 * (double)t->sums.rows * t->weigh_cost_ns;

    if (!took || !t->sums.rows)
        return;
    t->weigh_every = WEIGH_EVERY;
    while (t->weigh_every < PERIOD_MAX &&
           cost / (double)took / (double)t->weigh_every > WEIGH_SHARE * t->period)
        t->weigh_every *= 2;
}

/* Traced are steps whose number the period divides, so that all ranks trace the same ones. */
void pb_torch_choose_next(struct pb_torch *t, uint64_t took)
{
    uint32_t wanted = wanted_period(t);
    int64_t number;

    /* Weighed and timed steps are few, and paid for by being few. */
    if (t->tracing && took && !t->weighing && !t->timing)
        take_cost(t, took);
    if (t->tracing)
        choose_weighing(t, took);
    if (t->weighing)
        pb_torch_weighing_ends(t);
    t->timing = false;
    t->tracing = false;
    if (!wanted) {
        t->period = 0;
        return;
    }
    choose_period(t, wanted);
    number = t->step / t->period;
    t->tracing = t->step % t->period == 0;
    if (!t->tracing || !t->weigh_every)
        return;
    /* Not in the same step: either would be seen in the other. */
    t->weighing = number % t->weigh_every == 0;
    t->timing = number % WEIGH_EVERY == WEIGH_EVERY / 2 && t->cuda.state > 0 &&
                !t->cuda.nspans && t->self->settings.v[PB_SET_TORCH_GPU];
}
