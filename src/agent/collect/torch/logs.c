/* The end of a step: its row in python.training_logs. */
#include <stddef.h>
#include <string.h>

#include "agent/collect/collect.h"
#include "agent/collect/comm/comm.h"
#include "agent/collect/torch/events.h"
#include "agent/collect/torch/torch.h"
#include "base/clock.h"
#include "store/tables/table.h"

/* Forwards with gradients are not taken for inference until no optimizer has come for so long. */
#define PATIENCE 20
#define PATIENCE_NS 3000000000u
/* A row waits so long for its values, and four steps more. */
#define LATE_NS 30000000000u
/* Two clocks that were read with nothing between them. */
#define AT_ONCE_NS 20000u
/* Between looks at how far they are apart. */
#define APART_NS 10000000u

static const struct pb_column_spec columns[] = {PB_PYTHON_TRAINING_LOGS(PB_TABLE_COLUMN)};
static const struct pb_ring_spec table = {
    .name = PB_PYTHON_TRAINING_LOGS_NAME,
    .doc = PB_PYTHON_TRAINING_LOGS_DOC,
    .columns = columns,
    .ncolumns = sizeof columns / sizeof *columns,
    .rows = 16384,
    .dict_bytes = 16 << 10,
    .flags = PB_RING_KEEP,
};

/* Of a rate that is no plain number; one on a GPU would have to be waited for. */
static double tensor_or_none(const struct pb_py *py, struct _object *lr)
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
    struct _object *groups = py->PyObject_GetAttr(optimizer, t->word_groups);
    struct _object *group = groups && py->PyList_Size(groups) > 0 ? py->PyList_GetItem(groups, 0)
                                                                  : NULL;
    struct _object *lr = group ? py->PyDict_GetItem(group, t->word_lr) : NULL;
    double v = lr && pb_torch_is_float(t, lr) ? py->PyFloat_AsDouble(lr) : tensor_or_none(py, lr);

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

/* Of one that was scaled before backward, as it was before that. */
static double loss_of(const struct pb_torch_late *l)
{
    double scale = known(&l->scale);

    if (!l->loss.n || l->loss.unknown || (l->scaled && l->scale.state != PB_CUDA_KNOWN))
        return pb_null_real();
    if (!l->scaled)
        return l->loss.sum;
    return l->inverse ? l->loss.sum * scale : l->loss.sum / scale;
}

/* A GPU that has not come so far after this long hangs, as far as we know. */
static bool is_old(const struct pb_torch *t, const struct pb_torch_late *l)
{
    return pb_clock_ns() - l->ended_ns > LATE_NS + 4 * t->took_ns;
}

static bool have_come(struct pb_torch *t, struct pb_torch_late *l, bool drop)
{
    bool loss = pb_torch_loss_arrived(t, &l->loss, drop);
    bool norm = pb_cuda_arrived(&t->cuda, &l->norm, drop);
    bool scale = pb_cuda_arrived(&t->cuda, &l->scale, drop);

    return loss && norm && scale;
}

/* In their order, as far as their values are there. */
void pb_torch_logs_poll(struct pb_torch *t, bool all)
{
    while (t->late_n) {
        struct pb_torch_late *l = &t->late[t->late_at];

        if (!have_come(t, l, all || t->late_n == PB_TORCH_LATE) &&
            !(is_old(t, l) && have_come(t, l, true)))
            return;
        l->row[PB_TORCH_LOG_loss].d = loss_of(l);
        l->row[PB_TORCH_LOG_grad_norm].d = known(&l->norm);
        if (t->logs)
            pb_ring_append(t->logs, l->row);
        t->late_at = (t->late_at + 1) % PB_TORCH_LATE;
        t->late_n--;
    }
}

/* Between ranks in the step that ends; what came after its end is the next one's. */
static uint64_t comm_of_step(struct pb_torch *t, uint64_t now)
{
    uint64_t ns = pb_comm_window_ns(t->self, now) + t->carry_comm_ns, behind = 0;

    if (t->hand.pending && ns > t->hand.comm_ns)
        behind = ns - t->hand.comm_ns;
    t->carry_comm_ns = behind;
    return ns - behind;
}

/* Of a step whose beginning was not seen the parts are not known, either. */
static void fill_parts(struct pb_torch *t, union pb_cell *row, uint64_t took, uint64_t data_ns,
                       uint64_t comm_ns)
{
    const struct pb_torch_sums *s = &t->sums;
    uint64_t parts = data_ns + s->forward_ns + s->backward_ns + s->optimizer_ns +
                     (comm_ns > s->comm_ns ? comm_ns - s->comm_ns : 0);
    bool loads = t->asked && t->unfed++ < PB_TORCH_AHEAD;
    double none = pb_null_real();

    row[PB_TORCH_LOG_step_ms] = real(took ? ms(took) : none);
    row[PB_TORCH_LOG_data_ms] = real(took && loads ? ms(data_ns) : none);
    row[PB_TORCH_LOG_forward_ms] = real(took ? ms(s->forward_ns) : none);
    row[PB_TORCH_LOG_backward_ms] = real(took ? ms(s->backward_ns) : none);
    row[PB_TORCH_LOG_optimizer_ms] = real(took ? ms(s->optimizer_ns) : none);
    row[PB_TORCH_LOG_other_ms] = real(!took ? none : took > parts ? ms(took - parts) : 0);
    row[PB_TORCH_LOG_comm_ms] = real(ms(comm_ns + pb_comm_gpu_window_ns(t->self)));
}

/* A name of the other ring in this one; mostly the same one as the last time. */
static uint32_t rename_to(struct pb_torch *t, int which, uint32_t name)
{
    struct pb_torch_renamed *r = &t->renamed[which];
    size_t len = 0;
    const char *s;

    if (r->from != name || !name) {
        s = name && t->trace ? pb_ring_text(t->trace, name, &len) : NULL;
        *r = (struct pb_torch_renamed){name, s && t->logs ? pb_ring_name(t->logs, s, len)
                                                          : PB_NULL_NAME};
    }
    return r->to;
}

/* Which model, which optimizer, and which numbers these are. */
static void fill_names(struct pb_torch *t, union pb_cell *row, struct _object *optimizer)
{
    const struct pb_torch_optimizer *o = optimizer ? pb_torch_optimizer(t, optimizer) : NULL;
    uint32_t model = o ? o->model : PB_NULL_NAME;

    if (!model && t->last_root)
        model = t->last_root->label;
    row[PB_TORCH_LOG_model].name = rename_to(t, 0, model);
    row[PB_TORCH_LOG_optimizer].name = rename_to(t, 1, o ? o->label : PB_NULL_NAME);
    row[PB_TORCH_LOG_step_source].name = t->sources[t->step_source];
    row[PB_TORCH_LOG_epoch_source].name = t->sources[t->epoch_source];
}

static void fill_row(struct pb_torch *t, union pb_cell *row, struct _object *optimizer,
                     uint64_t now)
{
    uint64_t took = t->step_end_ns ? now - t->step_end_ns : 0;
    bool by_hand = t->hand.pending;
    struct pb_torch_fed fed;
    int64_t batch;

    if (by_hand)
        fed = t->hand.fed;
    else
        pb_torch_feed_measure(t, &fed);
    pb_torch_feed_take(t, &fed);
    batch = fed.samples;
    row[PB_TORCH_LOG_timestamp].i = (int64_t)now + t->wall_offset_ns;
    row[PB_TORCH_LOG_epoch].i =
        by_hand && t->epoch_source != PB_TORCH_BY_EXPRESSION ? t->hand.epoch : t->epoch;
    row[PB_TORCH_LOG_step].i = t->step;
    row[PB_TORCH_LOG_lr] = real(optimizer ? learning_rate(t, optimizer) : pb_null_real());
    row[PB_TORCH_LOG_profiled].b = t->step_profiled;
    fill_names(t, row, optimizer);
    fill_parts(t, row, took, fed.data_ns, comm_of_step(t, by_hand ? pb_clock_ns() : now));
    row[PB_TORCH_LOG_batch_size].i = batch ? batch : PB_NULL_INT;
    row[PB_TORCH_LOG_samples_per_s] =
        real(batch && took ? (double)batch / ((double)took / 1e9) : pb_null_real());
    /* Backward may have been called for this step before we came. */
    if (!took && !t->loss_whole)
        t->loss.unknown = true;
}

/* A thread that lost its processor between the two clocks would put rows out of order. */
static void follow_clock(struct pb_torch *t, uint64_t now)
{
    uint64_t before, after;
    int64_t wall;

    if (now < t->wall_due_ns)
        return;
    before = pb_clock_ns();
    wall = pb_clock_wall_ns();
    after = pb_clock_ns();
    if (after - before >= AT_ONCE_NS)
        return;
    t->wall_offset_ns = wall - (int64_t)before;
    t->wall_due_ns = now + APART_NS;
}

/* began: when we set about it. */
static void next_step(struct pb_torch *t, uint64_t began, uint64_t took)
{
    if (t->nnotes)
        pb_torch_notes_write(t);
    t->step++;
    t->seq = 0;
    t->took_ns = took;
    pb_torch_memory_look(t, began);
    follow_clock(t, began);
    t->sums.own_ns += pb_clock_ns() - began;
    pb_torch_choose_next(t, took);
    pb_torch_rows_poll(t, false);
    t->sums = (struct pb_torch_sums){0};
}

/* An optimizer that unscales gradients by itself has the scale during the step. */
static void take_scale(struct pb_torch *t, struct pb_torch_late *l, struct _object *optimizer)
{
    const struct pb_py *py = &t->self->py;
    struct _object *scale = NULL;

    l->scaled = t->unscale.state != PB_CUDA_NONE;
    l->inverse = true;
    if (l->scaled && optimizer && (scale = py->PyObject_GetAttrString(optimizer, "grad_scale")) &&
        scale != py->none) {
        pb_torch_value_note(t, &t->unscale, scale);
        l->inverse = false;
    }
    py->PyErr_Clear();
    py->Py_DecRef(scale);
    l->scale = t->unscale;
}

/* Few are coming, and the rest is small. */
static void take_loss(struct pb_torch_loss *to, struct pb_torch_loss *from)
{
    memcpy(to, from,
           offsetof(struct pb_torch_loss, coming) + from->ncoming * sizeof *from->coming);
    memset(from, 0, offsetof(struct pb_torch_loss, coming));
}

/* Mostly all values are there. */
static bool write_at_once(struct pb_torch *t, struct _object *optimizer, uint64_t now)
{
    union pb_cell row[PB_TORCH_LOG_COLUMNS];

    if (t->late_n || t->loss.ncoming || t->norm.state == PB_CUDA_COMING ||
        t->unscale.state != PB_CUDA_NONE)
        return false;
    fill_row(t, row, optimizer, now);
    row[PB_TORCH_LOG_loss].d = t->loss.n && !t->loss.unknown ? t->loss.sum : pb_null_real();
    row[PB_TORCH_LOG_grad_norm].d = known(&t->norm);
    if (t->logs)
        pb_ring_append(t->logs, row);
    memset(&t->loss, 0, offsetof(struct pb_torch_loss, coming));
    t->norm = (struct pb_cuda_value){0};
    return true;
}

/* Behind those that wait. The values belong to the row from now on. */
static void write_late(struct pb_torch *t, struct pb_torch_late *l, struct _object *optimizer,
                       uint64_t now)
{
    take_scale(t, l, optimizer);
    l->ended_ns = now;
    take_loss(&l->loss, &t->loss);
    l->norm = t->norm;
    t->norm = t->unscale = (struct pb_cuda_value){0};
    t->late_n++;
    pb_torch_logs_poll(t, false);
}

static void write_row(struct pb_torch *t, struct _object *optimizer, uint64_t now)
{
    struct pb_torch_late *l;

    t->other.pending = false; /* one that was made with the same loss */
    pb_torch_logs_poll(t, false);
    if (write_at_once(t, optimizer, now))
        return;
    l = &t->late[(t->late_at + t->late_n) % PB_TORCH_LATE];
    fill_row(t, l->row, optimizer, now);
    write_late(t, l, optimizer, now);
}

/* Times are those of the whole step, and in the row of that. */
void pb_torch_step_other(struct pb_torch *t, struct _object *optimizer, uint64_t now)
{
    static const int times[] = {
        PB_TORCH_LOG_step_ms, PB_TORCH_LOG_data_ms, PB_TORCH_LOG_forward_ms,
        PB_TORCH_LOG_backward_ms, PB_TORCH_LOG_optimizer_ms, PB_TORCH_LOG_comm_ms,
        PB_TORCH_LOG_other_ms, PB_TORCH_LOG_samples_per_s, PB_TORCH_LOG_grad_norm};
    const struct pb_py *py = &t->self->py;
    union pb_cell *row = t->other.row;
    struct _object *old = t->other.weak;

    if (t->other.pending || !t->logs)
        return;
    row[PB_TORCH_LOG_timestamp].i = (int64_t)now + t->wall_offset_ns;
    row[PB_TORCH_LOG_epoch].i = t->epoch;
    row[PB_TORCH_LOG_step].i = t->step;
    row[PB_TORCH_LOG_lr] = real(learning_rate(t, optimizer));
    row[PB_TORCH_LOG_batch_size].i = PB_NULL_INT;
    row[PB_TORCH_LOG_profiled].b = t->step_profiled;
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        row[times[i]] = real(pb_null_real());
    fill_names(t, row, optimizer);
    t->other.weak = py->PyWeakref_NewRef(optimizer, NULL);
    py->PyErr_Clear();
    py->Py_DecRef(old);
    t->other.ended_ns = now;
    t->other.pending = true;
}

void pb_torch_other_write(struct pb_torch *t)
{
    const struct pb_py *py = &t->self->py;
    struct pb_torch_late *l;
    struct _object *optimizer;

    t->other.pending = false;
    if (!t->logs || !t->other.weak)
        return;
    pb_torch_logs_poll(t, t->late_n == PB_TORCH_LATE);
    optimizer = py->PyObject_CallFunctionObjArgs(t->other.weak, NULL);
    py->PyErr_Clear();
    l = &t->late[(t->late_at + t->late_n) % PB_TORCH_LATE];
    memcpy(l->row, t->other.row, sizeof l->row);
    write_late(t, l, optimizer != py->none ? optimizer : NULL, t->other.ended_ns);
    py->Py_DecRef(optimizer);
}

static void open_ring(struct pb_torch *t)
{
    static const char *const names[] = {
#define X(id, name) name,
        PB_TORCH_SOURCE(X)
#undef X
    };

    t->logs = pb_collect_ring(t->self, &table);
    for (int i = 0; i < PB_TORCH_SOURCES; i++)
        t->sources[i] = t->logs ? pb_ring_name(t->logs, names[i], strlen(names[i])) : 0;
}

/* What the user's own expressions say. */
static void take_numbers(struct pb_torch *t)
{
    int64_t n;

    if (pb_torch_number(t, PB_TORCH_NUMBER_STEP, &n)) {
        if (n != t->step && t->nnotes)
            pb_torch_notes_write(t);
        t->seq = n != t->step ? 0 : t->seq;
        t->step = n;
        t->step_source = PB_TORCH_BY_EXPRESSION;
    } else if (t->step_source == PB_TORCH_BY_EXPRESSION) {
        t->step_source = PB_TORCH_BY_INJECTION;
    }
    if (pb_torch_number(t, PB_TORCH_NUMBER_EPOCH, &n)) {
        t->epoch = n;
        t->epoch_source = PB_TORCH_BY_EXPRESSION;
    } else if (t->epoch_source == PB_TORCH_BY_EXPRESSION) {
        t->epoch_source = PB_TORCH_BY_INJECTION;
    }
}

static void step_ended(struct pb_torch *t, struct _object *optimizer, uint64_t now,
                       uint64_t began)
{
    uint64_t took = t->step_end_ns ? now - t->step_end_ns : 0;

    if (!t->logs)
        open_ring(t);
    take_numbers(t);
    if (!t->on)
        return;
    write_row(t, optimizer, now);
    t->step_profiled = t->profiling;
    t->step_end_ns = now;
    t->step_counted_ns = t->counted_ns;
    next_step(t, began, took);
}

void pb_torch_step_ended(struct pb_torch *t, struct _object *optimizer, uint64_t now)
{
    step_ended(t, optimizer, now, now);
    pb_torch_tell(t, PB_TORCH_EVENT_STEP);
}

void pb_torch_step_ended_by_hand(struct pb_torch *t)
{
    const struct pb_torch_sums *then = &t->hand.sums;
    struct pb_torch_sums since = t->sums;

    since.forward_ns -= then->forward_ns;
    since.comm_ns -= then->comm_ns < since.comm_ns ? then->comm_ns : since.comm_ns;
    t->sums = *then;
    step_ended(t, NULL, t->hand.ended_ns, pb_clock_ns());
    t->step_counted_ns = t->hand.counted_ns;
    t->sums.forward_ns += since.forward_ns;
    t->sums.comm_ns += since.comm_ns;
}

void pb_torch_forward_counts(struct pb_torch *t, bool training)
{
    uint64_t now = pb_clock_ns();
    uint64_t took = t->step_end_ns ? now - t->step_end_ns : 0;

    if (!t->outside && pb_torch_called_within(t))
        return;
    t->outside = true;
    if (t->uncounted < PATIENCE || now - t->attached_ns < PATIENCE_NS) {
        t->uncounted++;
        if (training) {
            /* Training begins; what was counted before was not. */
            if (t->nnotes)
                pb_torch_notes_write(t);
            t->seq = t->step ? 0 : t->seq;
            t->step = 0;
            return;
        }
    }
    /* What belongs to this step, which has no row. */
    pb_comm_window_ns(t->self, now);
    pb_comm_gpu_window_ns(t->self);
    t->step_end_ns = now;
    t->step_counted_ns = t->counted_ns;
    next_step(t, now, took);
}
