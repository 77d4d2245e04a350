#include "agent/torch/torch.h"

#include <stdio.h>
#include <string.h>

#include "agent/collectors/collect.h"

/* Without an optimizer's step for so long after the start, tracing begins without one. */
#define SOON_NS 500000000u
/* Time between reports of what was spent. */
#define REPORT_NS UINT64_C(5000000000)
/* Rows do not wait longer than this for a step that may not come. */
#define LONG_NS 1000000000u

static int enter(struct pb_self *self, struct pb_err *err);
static void poll(struct pb_self *self, uint64_t now);
static void leave(struct pb_self *self);
static void forked(struct pb_self *self);

const struct pb_collector pb_collector_torch = {
    .name = "torch",
    .doc = "modules, steps and progress of PyTorch",
    .on = PB_SET_TORCH,
    .enter = enter,
    .awaits = "torch",
    .poll = poll,
    .leave = leave,
    .forked = forked,
    .state_size = sizeof(struct pb_torch),
};

struct pb_torch *pb_torch_state(struct pb_self *self)
{
    return pb_collect_state(self, PB_COLLECTOR_ID_torch);
}

struct line {
    char text[256];
    size_t len;
};

/* Appends to the status line, as far as there is room. */
static void add(struct line *l, const char *text)
{
    int n = text[0] ? snprintf(l->text + l->len, sizeof l->text - l->len, "%s%s",
                               l->len ? "; " : "", text) : 0;

    if (n > 0)
        l->len = l->len + (size_t)n < sizeof l->text ? l->len + (size_t)n : sizeof l->text - 1;
}

void pb_torch_report_state(struct pb_torch *t)
{
    struct line l = {.len = 0};
    char period[64];

    snprintf(period, sizeof period, "modules of one step in %u%s", t->budget.period,
             pb_torch_budget_limits(t) ? ": torch.budget" : "");
    if (t->budget.period > 1)
        add(&l, period);
    add(&l, t->problem);
    add(&l, t->expressions.problem);
    add(&l, t->memory.why ? t->memory.why : "");
    t->budget.reported_period = t->budget.period;
    t->expressions.problem_is_new = false;
    pb_collect_set_state(t->self, PB_COLLECTOR_ID_torch, "on", l.text);
}

/* What cannot be seen is said in the status line; the rest goes on. */
static void enter_parts(struct pb_torch *t)
{
    struct pb_err err = {0};

    pb_torch_values_enter(t);
    if (!pb_torch_norm_enter(t))
        pb_err_set(&err, PB_FAIL, "norms of gradients and scales of losses are not seen%s",
                   t->self->py.api.vectorcall ? "" : " before Python 3.8");
    pb_torch_optimizers_enter(t, &err);
    pb_torch_backward_enter(t, &err);
    pb_torch_oom_enter(t);
    snprintf(t->problem, sizeof t->problem, "%.90s", err.msg);
    pb_torch_expressions_poll(t);
}

/* The state of a collector that begins to count anew; what the budget has measured stays true. */
static void reset(struct pb_torch *t)
{
    uint64_t now = pb_clock_ns();

    pb_torch_clock_enter(&t->clock);
    pb_progress_publish(t->self);
    pb_torch_steps_enter(t);
    t->calls.nended = 0;
    t->loss.complete = false;
    t->backward.model = NULL;
    t->loaders = (struct pb_torch_loaders){0};
    for (int i = 0; i < PB_TORCH_THREADS; i++)
        t->thread_list[i].serving = false;
    t->budget.reported_period = 0;
    t->memory.check_ns = 0;
    t->memory.peak_mb = 0;
    t->memory.reported_why = NULL;
    t->logs.ring = NULL;
    t->logs.other.pending = false;
    memset(t->logs.renamed, 0, sizeof t->logs.renamed);
    t->expressions.problem[0] = '\0';
    pb_torch_memory_enter(t, now);
    pb_torch_memory_poll(t, now);
}

static int enter(struct pb_self *self, struct pb_err *err)
{
    struct pb_torch *t = pb_torch_state(self);

    t->self = self;
    if (self->py.free_threaded)
        return pb_err_set(err, PB_FAIL, "not for interpreters without a GIL");
    if (pb_torch_slots_find(t, err) < 0)
        return -1;
    if (!pb_torch_trace_enter(t))
        return pb_err_set(err, PB_FAIL, "there is no room for python.torch_trace");
    pb_torch_modules_forget(t);
    pb_torch_calls_enter(t);
    reset(t);
    enter_parts(t);
    t->on = true;
    /* A step that is under way is seen in part only: tracing begins with the next one. */
    t->tracing = false;
    t->timing = t->splitting = false;
    pb_torch_slots_install(t);
    return 0;
}

static void poll(struct pb_self *self, uint64_t now)
{
    struct pb_torch *t = pb_torch_state(self);

    pb_torch_clock_poll(&t->clock);
    pb_torch_optimizers_poll(t);
    pb_torch_slots_poll(t, now);
    pb_torch_norm_poll(t);
    pb_torch_oom_poll(t);
    pb_torch_manual_poll(t, now);
    pb_torch_expressions_poll(t);
    pb_torch_logs_poll_other(t, now);
    if (t->expressions.problem_is_new || (t->problem[0] && !t->budget.reported_period))
        pb_torch_report_state(t);
    if (now >= t->budget.report_ns) {
        pb_collect_set_cost(self, PB_COLLECTOR_ID_torch, t->budget.spent_ns);
        t->budget.report_ns = now + REPORT_NS;
    }
    if (now - t->steps.ended_ns > LONG_NS) {
        pb_torch_logs_poll(t, false);
        pb_torch_trace_poll(t, false);
    }
    if (!t->optimizers.seen && !t->tracing && !t->steps.number &&
        now - t->steps.attached_ns > SOON_NS)
        t->tracing = pb_self_setting(self, PB_SET_TORCH_SAMPLE_RATE) > 0 &&
                     pb_self_setting(self, PB_SET_SAMPLE_RATE) > 0;
}

static void leave(struct pb_self *self)
{
    struct pb_torch *t = pb_torch_state(self);

    t->timing = false;
    pb_collect_set_cost(self, PB_COLLECTOR_ID_torch, t->budget.spent_ns);
    if (t->logs.other.pending)
        pb_torch_logs_write_other(t);
    pb_torch_trace_poll(t, true);
    pb_torch_logs_poll(t, true);
    pb_torch_loss_poll(t, &t->loss.current, true);
    t->loss.current = (struct pb_torch_loss){0};
    pb_torch_norm_forget(t);
    pb_cuda_leave(&t->cuda);
    t->on = t->tracing = t->splitting = false;
    pb_torch_listen(self, NULL);
    pb_torch_memory_leave(t);
    pb_torch_slots_restore(t);
    pb_torch_backward_leave(t);
    pb_torch_optimizers_leave(t);
    pb_torch_manual_leave(t);
    pb_torch_expressions_leave(t);
    pb_torch_builtins_restore(t);
    pb_torch_modules_forget(t);
    pb_torch_steps_leave(t);
    t->trace.ring = t->logs.ring = NULL;
}

/* References are the parent's: they are dropped without touching the objects. */
static void forked(struct pb_self *self)
{
    struct pb_torch *t = pb_torch_state(self);

    t->on = t->tracing = false;
    t->timing = t->splitting = t->backward.engine_ran = false;
    t->backward.passes = 0;
    t->trace.ring = t->logs.ring = NULL;
    t->trace.count = t->trace.spans = t->logs.count = t->calls.nended = 0;
    t->events = (struct pb_torch_events){0};
    t->optimizers.named_type = NULL;
    memset(t->optimizers.list, 0, sizeof t->optimizers.list);
    t->manual = (struct pb_torch_manual){0};
    memset(t->expressions.list, 0, sizeof t->expressions.list);
    t->logs.other = (struct pb_torch_other_step){0};
    t->budget.spent_ns = t->budget.report_ns = 0;
    pb_collect_set_cost(self, PB_COLLECTOR_ID_torch, 0);
    t->loss.current = (struct pb_torch_loss){0};
    t->norm.value = t->norm.unscale = (struct pb_cuda_value){0};
    pb_cuda_forked(&t->cuda);
    pb_torch_threads_forked(t);
}
