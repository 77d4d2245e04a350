#include "agent/torch/steps/logs.h"

#include <string.h>

#include "agent/collectors/collect.h"
#include "agent/comm/comm.h"
#include "agent/torch/torch.h"
#include "schema/table.h"

/* A row waits so long for its values, and four steps more. */
#define PATIENCE_NS 30000000000u
/* A step of another optimizer that nothing follows for so long gets its row. */
#define OTHER_NS 1000000000u

PB_TABLE_COLUMNS(PB_PYTHON_TRAINING_LOGS);
static const struct pb_ring_spec table = {
    PB_TABLE_SPEC(PB_PYTHON_TRAINING_LOGS_NAME, PB_PYTHON_TRAINING_LOGS_DOC),
    .rows = 16384,
    .dict_bytes = 16 << 10,
    .flags = PB_RING_KEEP,
};

/* A rate that is no plain number. One on a GPU would have to be waited for. */
static double tensor_rate(const struct pb_py *py, struct _object *lr)
{
    struct _object *on_gpu = lr ? py->PyObject_GetAttrString(lr, "is_cuda") : NULL;
    double v = pb_null_real();

    py->PyErr_Clear();
    if (lr && (!on_gpu || py->PyObject_IsTrue(on_gpu) == 0))
        v = py->PyFloat_AsDouble(lr);
    if (py->PyErr_Occurred())
        v = pb_null_real();
    py->PyErr_Clear();
    py->Py_DecRef(on_gpu);
    return v;
}

static double learning_rate(const struct pb_torch *t, struct _object *optimizer)
{
    const struct pb_py *py = &t->self->py;
    struct _object *groups = py->PyObject_GetAttr(optimizer, t->values.name_param_groups);
    struct _object *group = groups && py->PyList_Size(groups) > 0 ? py->PyList_GetItem(groups, 0)
                                                                  : NULL;
    struct _object *lr = group ? py->PyDict_GetItem(group, t->values.name_lr) : NULL;
    double v = lr && pb_torch_is_float(t, lr) ? py->PyFloat_AsDouble(lr) : tensor_rate(py, lr);

    py->Py_DecRef(groups);
    return v;
}

static double ms(uint64_t ns)
{
    return (double)ns / 1e6;
}

static union pb_cell real(double v)
{
    return (union pb_cell){.d = v};
}

static double number_of(const struct pb_cuda_value *v)
{
    return v->state == PB_CUDA_KNOWN ? v->v : pb_null_real();
}

/* The loss as it was before it was scaled. */
static double loss_of(const struct pb_torch_waiting_log *l)
{
    double scale = number_of(&l->scale);

    if (!l->loss.n || l->loss.unknown || (l->scaled && l->scale.state != PB_CUDA_KNOWN))
        return pb_null_real();
    if (!l->scaled)
        return l->loss.sum;
    return l->inverse ? l->loss.sum * scale : l->loss.sum / scale;
}

static int64_t backwards_of(const struct pb_torch_loss *l)
{
    return l->n && !l->unknown ? l->n : PB_NULL_INT;
}

static bool is_old(const struct pb_torch *t, const struct pb_torch_waiting_log *l)
{
    return pb_clock_ns() - l->ended_ns > PATIENCE_NS + 4 * t->steps.took_ns;
}

static bool have_arrived(struct pb_torch *t, struct pb_torch_waiting_log *l, bool drop)
{
    bool loss = pb_torch_loss_poll(t, &l->loss, drop);
    bool norm = pb_cuda_arrived(&t->cuda, &l->norm, drop);
    bool scale = pb_cuda_arrived(&t->cuda, &l->scale, drop);

    return loss && norm && scale;
}

/* In their order, up to a row whose values are not there. */
void pb_torch_logs_poll(struct pb_torch *t, bool all)
{
    struct pb_torch_logs *logs = &t->logs;

    while (logs->count) {
        struct pb_torch_waiting_log *l = &logs->waiting[logs->first];

        if (!have_arrived(t, l, all || logs->count == PB_TORCH_WAITING_LOGS) &&
            !(is_old(t, l) && have_arrived(t, l, true)))
            return;
        l->row[PB_TORCH_LOG_loss].d = loss_of(l);
        l->row[PB_TORCH_LOG_backwards].i = backwards_of(&l->loss);
        l->row[PB_TORCH_LOG_grad_norm].d = number_of(&l->norm);
        if (logs->ring)
            pb_ring_append(logs->ring, l->row);
        logs->first = (logs->first + 1) % PB_TORCH_WAITING_LOGS;
        logs->count--;
    }
}

/* Time between ranks in the step that ends; what came after its end is the next one's. */
static uint64_t comm_of_step(struct pb_torch *t, uint64_t now)
{
    uint64_t ns = pb_comm_window_ns(t->self, now) + t->steps.carried_comm_ns, after = 0;

    if (t->manual.pending && ns > t->manual.comm_ns)
        after = ns - t->manual.comm_ns;
    t->steps.carried_comm_ns = after;
    return ns - after;
}

/* took 0: the beginning of the step was not seen, and its parts are not known, either. */
static void fill_parts(struct pb_torch *t, union pb_cell *row, uint64_t took, uint64_t data_ns,
                       uint64_t comm_ns)
{
    const struct pb_torch_sums *s = &t->steps.sums;
    uint64_t parts = data_ns + s->forward_ns + s->backward_ns + s->optimizer_ns +
                     (comm_ns > s->comm_ns ? comm_ns - s->comm_ns : 0);
    bool loads = t->loaders.requests && t->loaders.idle_steps++ < PB_TORCH_BATCHES_AHEAD;
    double none = pb_null_real();

    row[PB_TORCH_LOG_step_ms] = real(took ? ms(took) : none);
    row[PB_TORCH_LOG_data_ms] = real(took && loads ? ms(data_ns) : none);
    row[PB_TORCH_LOG_forward_ms] = real(took ? ms(s->forward_ns) : none);
    row[PB_TORCH_LOG_backward_ms] = real(took ? ms(s->backward_ns) : none);
    row[PB_TORCH_LOG_optimizer_ms] = real(took ? ms(s->optimizer_ns) : none);
    row[PB_TORCH_LOG_other_ms] = real(!took ? none : took > parts ? ms(took - parts) : 0);
    row[PB_TORCH_LOG_comm_ms] = real(ms(comm_ns + pb_comm_gpu_window_ns(t->self)));
}

/* A name of python.torch_trace in this ring; mostly the same one as the last time. */
static uint32_t carry_name(struct pb_torch *t, struct pb_torch_renamed *last, uint32_t name)
{
    if (last->from != name || !name)
        *last = (struct pb_torch_renamed){name, pb_torch_carry_name(t, t->logs.ring, name)};
    return last->to;
}

static void fill_names(struct pb_torch *t, union pb_cell *row, struct _object *optimizer)
{
    const struct pb_torch_optimizer *o = optimizer ? pb_torch_optimizer(t, optimizer) : NULL;
    uint32_t model = PB_NULL_NAME;

    if (optimizer)
        model = pb_torch_optimizer_model(t, optimizer);
    else if (t->backward.model)
        model = t->backward.model->label;
    row[PB_TORCH_LOG_model].name = carry_name(t, &t->logs.renamed[0], model);
    row[PB_TORCH_LOG_optimizer].name =
        carry_name(t, &t->logs.renamed[1], o ? o->label : PB_NULL_NAME);
    row[PB_TORCH_LOG_step_source].name = t->logs.sources[t->steps.number_source];
    row[PB_TORCH_LOG_epoch_source].name =
        t->steps.epoch == PB_NULL_INT ? PB_NULL_NAME : t->logs.sources[t->steps.epoch_source];
}

static void fill_row(struct pb_torch *t, union pb_cell *row, struct _object *optimizer,
                     uint64_t now)
{
    uint64_t took = t->steps.ended_ns ? now - t->steps.ended_ns : 0;
    bool manual = t->manual.pending;
    int64_t count = manual ? t->manual.collectives : pb_comm_collectives(t->self);
    struct pb_torch_batches batches;
    int64_t samples;

    if (manual)
        batches = t->manual.batches;
    else
        pb_torch_loaders_measure(t, &batches);
    pb_torch_position_apply(t, &batches.position, took || t->loss.complete);
    pb_torch_loaders_consume(t, &batches);
    samples = batches.samples;
    row[PB_TORCH_LOG_timestamp].i = (int64_t)now + t->clock.wall_offset_ns;
    row[PB_TORCH_LOG_epoch].i = manual && t->steps.epoch_source != PB_TORCH_BY_EXPRESSION
                                    ? t->manual.epoch : t->steps.epoch;
    row[PB_TORCH_LOG_step].i = t->steps.number;
    row[PB_TORCH_LOG_lr] = real(optimizer ? learning_rate(t, optimizer) : pb_null_real());
    row[PB_TORCH_LOG_profiled].b = t->events.step_profiled;
    row[PB_TORCH_LOG_comm_seq].i = count >= 0 ? count : PB_NULL_INT;
    fill_names(t, row, optimizer);
    fill_parts(t, row, took, batches.data_ns, comm_of_step(t, manual ? pb_clock_ns() : now));
    row[PB_TORCH_LOG_batch_size].i = samples ? samples : PB_NULL_INT;
    row[PB_TORCH_LOG_samples_per_s] =
        real(samples && took ? (double)samples / ((double)took / 1e9) : pb_null_real());
    /* Backward may have been called for this step before the collector came, and the model, too. */
    if (!took && !t->loss.complete) {
        t->loss.current.unknown = true;
        row[PB_TORCH_LOG_model].name = PB_NULL_NAME;
    }
}

/* An optimizer that unscales gradients by itself has the scale during the step. */
static void move_scale(struct pb_torch *t, struct pb_torch_waiting_log *l,
                       struct _object *optimizer)
{
    const struct pb_py *py = &t->self->py;
    struct _object *scale = NULL;

    l->scaled = t->norm.unscale.state != PB_CUDA_NONE;
    l->inverse = true;
    if (l->scaled && optimizer && (scale = py->PyObject_GetAttrString(optimizer, "grad_scale")) &&
        scale != py->none) {
        pb_torch_value_read(t, &t->norm.unscale, scale);
        l->inverse = false;
    }
    py->PyErr_Clear();
    py->Py_DecRef(scale);
    l->scale = t->norm.unscale;
}

/* Mostly all values are there. */
static bool write_at_once(struct pb_torch *t, struct _object *optimizer, uint64_t now)
{
    struct pb_torch_loss *loss = &t->loss.current;
    union pb_cell row[PB_TORCH_LOG_COLUMNS];

    if (t->logs.count || loss->npending || t->norm.value.state == PB_CUDA_COMING ||
        t->norm.unscale.state != PB_CUDA_NONE)
        return false;
    fill_row(t, row, optimizer, now);
    row[PB_TORCH_LOG_loss].d = loss->n && !loss->unknown ? loss->sum : pb_null_real();
    row[PB_TORCH_LOG_backwards].i = backwards_of(loss);
    row[PB_TORCH_LOG_grad_norm].d = number_of(&t->norm.value);
    if (t->logs.ring)
        pb_ring_append(t->logs.ring, row);
    pb_torch_loss_clear(loss);
    t->norm.value = (struct pb_cuda_value){0};
    return true;
}

static struct pb_torch_waiting_log *free_log(struct pb_torch_logs *logs)
{
    return &logs->waiting[(logs->first + logs->count) % PB_TORCH_WAITING_LOGS];
}

/* Behind those that wait. The values belong to the row from now on. */
static void enqueue(struct pb_torch *t, struct pb_torch_waiting_log *l, struct _object *optimizer,
                    uint64_t now)
{
    move_scale(t, l, optimizer);
    l->ended_ns = now;
    pb_torch_loss_move(&l->loss, &t->loss.current);
    l->norm = t->norm.value;
    t->norm.value = t->norm.unscale = (struct pb_cuda_value){0};
    t->logs.count++;
    pb_torch_logs_poll(t, false);
}

static void open_ring(struct pb_torch *t)
{
    static const char *const names[] = {
#define X(id, name) name,
        PB_TORCH_SOURCE(X)
#undef X
    };

    t->logs.ring = pb_collect_ring(t->self, &table);
    for (int i = 0; i < PB_TORCH_SOURCES; i++)
        t->logs.sources[i] =
            t->logs.ring ? pb_ring_name(t->logs.ring, names[i], strlen(names[i])) : PB_NULL_NAME;
}

void pb_torch_logs_write(struct pb_torch *t, struct _object *optimizer, uint64_t now)
{
    struct pb_torch_waiting_log *l;

    if (!t->logs.ring)
        open_ring(t);
    t->logs.other.pending = false; /* it was made with the same loss */
    pb_torch_logs_poll(t, false);
    if (write_at_once(t, optimizer, now))
        return;
    l = free_log(&t->logs);
    fill_row(t, l->row, optimizer, now);
    enqueue(t, l, optimizer, now);
}

/* Times are those of the whole step, and in the row of the optimizer that counts. */
void pb_torch_logs_other_step(struct pb_torch *t, struct _object *optimizer, uint64_t now)
{
    static const int times[] = {
        PB_TORCH_LOG_step_ms, PB_TORCH_LOG_data_ms, PB_TORCH_LOG_forward_ms,
        PB_TORCH_LOG_backward_ms, PB_TORCH_LOG_optimizer_ms, PB_TORCH_LOG_comm_ms,
        PB_TORCH_LOG_other_ms, PB_TORCH_LOG_samples_per_s, PB_TORCH_LOG_grad_norm};
    const struct pb_py *py = &t->self->py;
    struct pb_torch_other_step *other = &t->logs.other;
    union pb_cell *row = other->row;
    struct _object *old = other->weak;

    if (other->pending || !t->logs.ring)
        return;
    row[PB_TORCH_LOG_timestamp].i = (int64_t)now + t->clock.wall_offset_ns;
    row[PB_TORCH_LOG_epoch].i = t->steps.epoch;
    row[PB_TORCH_LOG_step].i = t->steps.number;
    row[PB_TORCH_LOG_lr] = real(learning_rate(t, optimizer));
    row[PB_TORCH_LOG_batch_size].i = row[PB_TORCH_LOG_comm_seq].i = PB_NULL_INT;
    row[PB_TORCH_LOG_profiled].b = t->events.step_profiled;
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        row[times[i]] = real(pb_null_real());
    fill_names(t, row, optimizer);
    other->weak = py->PyWeakref_NewRef(optimizer, NULL);
    py->PyErr_Clear();
    py->Py_DecRef(old);
    other->ended_ns = now;
    other->pending = true;
}

void pb_torch_logs_write_other(struct pb_torch *t)
{
    struct pb_torch_other_step *other = &t->logs.other;
    struct pb_torch_waiting_log *l;
    struct _object *optimizer;

    other->pending = false;
    if (!t->logs.ring || !other->weak)
        return;
    pb_torch_logs_poll(t, t->logs.count == PB_TORCH_WAITING_LOGS);
    optimizer = pb_py_referent(&t->self->py, other->weak);
    l = free_log(&t->logs);
    memcpy(l->row, other->row, sizeof l->row);
    enqueue(t, l, optimizer, other->ended_ns);
    t->self->py.Py_DecRef(optimizer);
}

void pb_torch_logs_poll_other(struct pb_torch *t, uint64_t now)
{
    if (t->logs.other.pending && now - t->logs.other.ended_ns > OTHER_NS + 4 * t->steps.took_ns)
        pb_torch_logs_write_other(t);
}
