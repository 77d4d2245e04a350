/* The end of a step: its row in python.training_logs. */
#include "agent/collect/collect.h"
#include "agent/collect/torch.h"
#include "base/clock.h"
#include "store/tables/table.h"

/* Forwards with gradients are not taken for inference until no optimizer has come for so long. */
#define PATIENCE 20
#define PATIENCE_NS 3000000000u

static const struct pb_column_spec columns[] = {PB_PYTHON_TRAINING_LOGS(PB_TABLE_COLUMN)};
static const struct pb_ring_spec table = {
    .name = PB_PYTHON_TRAINING_LOGS_NAME,
    .doc = PB_PYTHON_TRAINING_LOGS_DOC,
    .columns = columns,
    .ncolumns = sizeof columns / sizeof *columns,
    .rows = 16384,
    .flags = PB_RING_KEEP,
};

static double learning_rate(const struct pb_py *py, struct _object *optimizer)
{
    struct _object *groups = py->PyObject_GetAttrString(optimizer, "param_groups");
    struct _object *group = groups && py->PyList_Size(groups) > 0 ? py->PyList_GetItem(groups, 0)
                                                                  : NULL;
    struct _object *lr = group ? py->PyDict_GetItemString(group, "lr") : NULL;
    struct _object *on_gpu = lr ? py->PyObject_GetAttrString(lr, "is_cuda") : NULL;
    double v = pb_null_real();

    py->PyErr_Clear();
    if (lr && (!on_gpu || py->PyObject_IsTrue(on_gpu) == 0))
        v = py->PyFloat_AsDouble(lr);
    if (py->PyErr_Occurred())
        v = pb_null_real();
    py->PyErr_Clear();
    py->Py_DecRef(on_gpu);
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

static double known(const struct pb_cuda_value *v)
{
    return v->state == PB_CUDA_KNOWN ? v->v : pb_null_real();
}

/* In their order, as far as their values are there. */
void pb_torch_logs_poll(struct pb_torch *t, bool all)
{
    while (t->late_n) {
        struct pb_torch_late *l = &t->late[t->late_at];
        bool drop = all || t->late_n == PB_TORCH_LATE;
        bool loss = pb_cuda_arrived(&t->cuda, &l->loss, drop);
        bool norm = pb_cuda_arrived(&t->cuda, &l->norm, drop);

        if (!loss || !norm)
            return;
        l->row[PB_TORCH_LOG_loss].d = known(&l->loss);
        l->row[PB_TORCH_LOG_grad_norm].d = known(&l->norm);
        if (t->logs)
            pb_ring_append(t->logs, l->row);
        t->late_at = (t->late_at + 1) % PB_TORCH_LATE;
        t->late_n--;
    }
}

static void fill_row(struct pb_torch *t, union pb_cell *row, struct _object *optimizer,
                     uint64_t now)
{
    const struct pb_torch_sums *s = &t->sums;
    uint64_t took = t->step_end_ns ? now - t->step_end_ns : 0;

    row[PB_TORCH_LOG_timestamp].i = (int64_t)now + t->wall_offset_ns;
    row[PB_TORCH_LOG_epoch].i = t->epoch;
    row[PB_TORCH_LOG_step].i = t->step;
    row[PB_TORCH_LOG_lr] = real(learning_rate(&t->self->py, optimizer));
    row[PB_TORCH_LOG_step_ms] = real(took ? ms(took) : pb_null_real());
    row[PB_TORCH_LOG_data_ms] = real(ms(s->data_ns));
    row[PB_TORCH_LOG_forward_ms] = real(ms(s->forward_ns));
    row[PB_TORCH_LOG_backward_ms] = real(ms(s->backward_ns));
    row[PB_TORCH_LOG_optimizer_ms] = real(ms(s->optimizer_ns));
    row[PB_TORCH_LOG_comm_ms] = real(ms(s->comm_ns));
    row[PB_TORCH_LOG_batch_size].i = s->batch ? s->batch : PB_NULL_INT;
    row[PB_TORCH_LOG_samples_per_s] =
        real(s->batch && took ? (double)s->batch / ((double)took / 1e9) : pb_null_real());
}

static void next_step(struct pb_torch *t, uint64_t now, uint64_t took)
{
    t->step++;
    t->seq = 0;
    t->took_ns = took;
    pb_torch_memory_look(t, now);
    t->wall_offset_ns = pb_clock_wall_ns() - (int64_t)pb_clock_ns();
    t->sums.own_ns += pb_clock_ns() - now;
    pb_torch_choose_next(t, took);
    pb_torch_spans_poll(t, false);
    t->sums = (struct pb_torch_sums){0};
}

/* The values belong to the row from now on. */
static void write_row(struct pb_torch *t, struct _object *optimizer, uint64_t now)
{
    struct pb_torch_late *l;

    pb_torch_logs_poll(t, false);
    l = &t->late[(t->late_at + t->late_n) % PB_TORCH_LATE];
    fill_row(t, l->row, optimizer, now);
    l->loss = t->loss;
    l->norm = t->norm;
    t->loss = t->norm = (struct pb_cuda_value){0};
    t->late_n++;
    pb_torch_logs_poll(t, false);
}

void pb_torch_step_ended(struct pb_torch *t, struct _object *optimizer, uint64_t now)
{
    uint64_t took = t->step_end_ns ? now - t->step_end_ns : 0;

    if (t->iterator && t->step_iterator && (t->iterator != t->step_iterator || t->exhausted))
        t->epoch++;
    t->step_iterator = t->iterator;
    t->exhausted = false;
    if (!t->logs)
        t->logs = pb_collect_ring(t->self, &table);
    write_row(t, optimizer, now);
    t->step_end_ns = now;
    next_step(t, now, took);
}

/* In training mode with gradients an optimizer is to be expected. */
static bool is_training(struct pb_torch *t, struct _object *root)
{
    const struct pb_py *py = &t->self->py;
    struct _object *mode = py->PyObject_GetAttrString(root, "training");
    struct _object *grad = t->grad_enabled ? py->PyObject_CallFunction(t->grad_enabled, NULL)
                                           : NULL;
    bool yes = mode && py->PyObject_IsTrue(mode) == 1 && (!grad || py->PyObject_IsTrue(grad) == 1);

    py->PyErr_Clear();
    py->Py_DecRef(grad);
    py->Py_DecRef(mode);
    return yes;
}

void pb_torch_forward_counts(struct pb_torch *t, struct _object *root)
{
    uint64_t now = pb_clock_ns();
    uint64_t took = t->step_end_ns ? now - t->step_end_ns : 0;

    if (t->uncounted < PATIENCE || now - t->attached_ns < PATIENCE_NS) {
        t->uncounted++;
        if (is_training(t, root) || !t->on)
            return;
    }
    t->step_end_ns = now;
    next_step(t, now, took);
}
