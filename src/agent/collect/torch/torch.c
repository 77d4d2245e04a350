#include "agent/collect/torch/torch.h"

#include <stdio.h>
#include <string.h>

#include "agent/collect/collect.h"
#include "agent/collect/torch/events.h"
#include "agent/collect/torch/grad.h"
#include "base/clock.h"
#include "store/tables/python_torch_trace.h"
#include "store/tables/table.h"

#define SOON_NS 500000000u
#define SPENT_NS UINT64_C(5000000000) /* so often it is told what was spent */
#define LONG_NS 1000000000u

static int enter(struct pb_self *self, struct pb_err *err);
static void look(struct pb_self *self, uint64_t now);
static void leave(struct pb_self *self);
static void forked(struct pb_self *self);

const struct pb_collector pb_collector_torch = {
    .name = "torch",
    .doc = "modules, steps and progress of PyTorch",
    .on = PB_SET_TORCH,
    .enter = enter,
    .awaits = "torch",
    .look = look,
    .leave = leave,
    .forked = forked,
    .state_size = sizeof(struct pb_torch),
};

static const struct pb_column_spec columns[] = {PB_PYTHON_TORCH_TRACE(PB_TABLE_COLUMN)};
static const struct pb_ring_spec table = {
    .name = PB_PYTHON_TORCH_TRACE_NAME,
    .doc = PB_PYTHON_TORCH_TRACE_DOC,
    .columns = columns,
    .ncolumns = sizeof columns / sizeof *columns,
    .rows = 65536,
    .dict_bytes = 256 << 10,
    .flags = PB_RING_KEEP,
};

/* Which one of the collectors this is; every call of a module asks for the state. */
enum {
#define PB_COLLECTOR(name) AT_##name,
#include "agent/collect/collectors.def"
#undef PB_COLLECTOR
};

struct pb_torch *pb_torch_state(struct pb_self *self)
{
    return self->collect.runs[AT_torch].memory;
}

static uint32_t name_of(struct pb_torch *t, const char *s)
{
    return pb_ring_name(t->trace, s, strlen(s));
}

static void begin(struct pb_torch *t)
{
    uint64_t now = pb_clock_ns();

    t->stage_forward = name_of(t, "forward");
    t->stage_backward = name_of(t, "backward");
    t->stage_optimizer = name_of(t, "optimizer");
    t->operation_backward = name_of(t, "backward");
    t->phase_train = name_of(t, "train");
    t->phase_eval = name_of(t, "eval");
    t->phase_data = name_of(t, "data");
    t->wall_offset_ns = pb_clock_wall_ns() - (int64_t)now;
    t->attached_ns = now;
    t->step_end_ns = t->optimizer_began_ns = 0;
    t->step = t->epoch = t->seq = 0;
    t->sums = (struct pb_torch_sums){0};
    t->nnotes = 0;
    t->optimizer_seen = t->outside = t->fed = t->training = false;
    t->has_step_thread = t->loss_whole = false;
    t->counted_ns = t->step_counted_ns = t->carry_comm_ns = 0;
    t->last_root = NULL;
    memset(t->feeds, 0, sizeof t->feeds);
    t->feed = t->main_feed = NULL;
    t->asked = 0;
    t->uncounted = t->serving = 0;
    for (int i = 0; i < PB_TORCH_THREADS; i++)
        t->threads[i].serving = false;
    t->period_said = 0; /* what the brake knows stays true */
    t->memory_due_ns = 0;
    t->memory_peak_mb = 0;
    t->memory_said = NULL;
    t->logs = NULL;
    t->step_source = t->epoch_source = PB_TORCH_BY_INJECTION;
    memset(t->renamed, 0, sizeof t->renamed);
    t->other.pending = false;
    t->note[0] = t->number_note[0] = '\0';
    pb_alloc_enter(t, now);
    pb_torch_memory_look(t, now);
}

/* What cannot be seen is said; the rest goes on. */
static void enter_parts(struct pb_torch *t)
{
    struct pb_err err = {0};

    pb_torch_values_enter(t);
    pb_torch_builtins_enter(t, &err);
    pb_torch_steps_enter(t, &err);
    pb_torch_backward_enter(t, &err);
    pb_torch_oom_enter(t);
    snprintf(t->note, sizeof t->note, "%.90s", err.msg);
    pb_torch_numbers_look(t);
}

static int enter(struct pb_self *self, struct pb_err *err)
{
    struct pb_torch *t = pb_torch_state(self);

    t->self = self;
    if (self->py.free_threaded)
        return pb_err_set(err, PB_FAIL, "not for interpreters without a GIL");
    if (pb_torch_slots_find(t, err) < 0)
        return -1;
    t->trace = pb_collect_ring(self, &table);
    if (!t->trace)
        return pb_err_set(err, PB_FAIL, "there is no room for python.torch_trace");
    pb_torch_modules_forget(t);
    pb_torch_calls_enter(t);
    pb_torch_ticks_enter(t);
    begin(t);
    enter_parts(t);
    t->on = true;
    /* A step that is under way is seen in part only: tracing begins with the next one. */
    t->tracing = false;
    t->timing = t->ranging = false;
    pb_torch_slots_put(t);
    return 0;
}

static void look(struct pb_self *self, uint64_t now)
{
    struct pb_torch *t = pb_torch_state(self);

    pb_torch_ticks_look(t);
    pb_torch_steps_look(t);
    /* Classes that were made since, and those that somebody else has reset. */
    pb_torch_slots_look(t, now);
    pb_torch_builtins_look(t);
    pb_torch_oom_look(t);
    pb_torch_hand_look(t, now);
    pb_torch_numbers_look(t);
    if (t->other.pending && now - t->other.ended_ns > LONG_NS + 4 * t->took_ns)
        pb_torch_other_write(t);
    if (t->number_note_new || (t->note[0] && !t->period_said))
        pb_torch_say(t);
    if (now >= t->spent_due_ns) {
        pb_collect_spent(self, "torch", t->spent_ns);
        t->spent_due_ns = now + SPENT_NS;
    }
    /* What waits for the GPU does not wait for a step that may not come. */
    if (now - t->step_end_ns > LONG_NS) {
        pb_torch_logs_poll(t, false);
        pb_torch_rows_poll(t, false);
    }
    if (!t->optimizer_seen && !t->tracing && !t->step && now - t->attached_ns > SOON_NS)
        t->tracing = pb_self_setting(t->self, PB_SET_TORCH_SAMPLE_RATE) > 0 &&
                     pb_self_setting(t->self, PB_SET_SAMPLE_RATE) > 0;
}

static void leave(struct pb_self *self)
{
    struct pb_torch *t = pb_torch_state(self);

    t->timing = false;
    pb_collect_spent(self, "torch", t->spent_ns);
    if (t->other.pending)
        pb_torch_other_write(t);
    pb_torch_rows_poll(t, true);
    pb_torch_logs_poll(t, true);
    pb_torch_loss_arrived(t, &t->loss, true);
    pb_cuda_arrived(&t->cuda, &t->norm, true);
    pb_cuda_arrived(&t->cuda, &t->unscale, true);
    t->loss = (struct pb_torch_loss){0};
    t->norm = t->unscale = (struct pb_cuda_value){0};
    pb_cuda_leave(&t->cuda);
    t->on = t->tracing = t->ranging = false;
    pb_torch_listen(self, NULL);
    pb_alloc_leave(t);
    pb_torch_slots_take_back(t);
    pb_torch_backward_leave(t);
    pb_torch_steps_leave(t);
    pb_torch_hand_leave(t);
    pb_torch_numbers_leave(t);
    pb_torch_builtins_leave(t);
    pb_torch_modules_forget(t);
    t->trace = t->logs = NULL;
}

static void forked(struct pb_self *self)
{
    struct pb_torch *t = pb_torch_state(self);

    t->on = t->tracing = false;
    t->timing = t->ranging = t->engine_runs = false;
    t->passes = 0;
    t->trace = t->logs = NULL;
    t->listener = NULL; /* the parent's profile */
    t->profiling = t->step_profiled = false;
    t->named_type = NULL;
    memset(t->optimizers, 0, sizeof t->optimizers);
    t->late_n = t->held_n = t->spans_held = t->nnotes = 0;
    t->hand = (struct pb_torch_hand){0};
    memset(t->numbers, 0, sizeof t->numbers);
    t->other = (struct pb_torch_other){0};
    t->spent_ns = t->spent_due_ns = 0;
    pb_collect_spent(self, "torch", 0);
    t->loss = (struct pb_torch_loss){0};
    t->norm = t->unscale = (struct pb_cuda_value){0};
    pb_cuda_forked(&t->cuda);
    pb_torch_threads_forked(t);
}
