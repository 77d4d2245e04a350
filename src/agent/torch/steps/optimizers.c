#include "agent/torch/steps/optimizers.h"

#include <string.h>

#include "agent/torch/torch.h"

/* Another optimizer counts when it has made so many steps since the last one that counts. */
#define OTHERS_MAX 8
/* Or when the one that counts has made none for so long and four of its steps more. */
#define OTHERS_NS 300000000u

struct _object *pb_torch_optimizer_main(struct pb_torch *t)
{
    return pb_py_peek_referent(&t->self->py, t->optimizers.main);
}

/* Number of the step that has just been made, where the optimizer counts steps as Adam does; -1. */
static int64_t own_count(const struct pb_py *py, struct _object *optimizer)
{
    struct _object *state = py->PyObject_GetAttrString(optimizer, "state");
    struct _object *key, *of_one = NULL, *count;
    int64_t n = -1;
    ssize_t at = 0;

    if (state && py->PyDict_Size(state) > 0 && py->PyDict_Next(state, &at, &key, &of_one) &&
        py->PyDict_Size(of_one) > 0 && (count = py->PyDict_GetItemString(of_one, "step"))) {
        struct _object *on_gpu = py->PyObject_GetAttrString(count, "is_cuda");

        /* A number, or a tensor; one on a GPU would have to be waited for. */
        if (!on_gpu || py->PyObject_IsTrue(on_gpu) == 0) {
            py->PyErr_Clear();
            n = (int64_t)py->PyFloat_AsDouble(count);
        }
        py->Py_DecRef(on_gpu);
    }
    if (py->PyErr_Occurred())
        n = -1;
    py->PyErr_Clear();
    py->Py_DecRef(state);
    return n;
}

/* Mostly it is the same class at every step. */
static void set_names(struct pb_torch *t, struct _object *optimizer)
{
    const struct pb_py *py = &t->self->py;
    struct _object *type = py->PyObject_Type(optimizer), *old = t->optimizers.named_type;
    char operation[PB_TORCH_PATH + 8];
    size_t len;

    if (type != old) {
        t->optimizers.named_type = type;
        t->optimizers.name = pb_torch_type_name(t, optimizer, operation, &len);
        memcpy(operation + len, ".step", 5);
        t->optimizers.operation = pb_torch_name(t, operation, len + 5);
        type = old;
    }
    py->Py_DecRef(type);
}

/* Dictionary: the model that has its first parameter. */
static uint32_t model_of(struct pb_torch *t, struct _object *optimizer)
{
    const struct pb_py *py = &t->self->py;
    struct _object *groups = py->PyObject_GetAttr(optimizer, t->values.name_param_groups);
    struct _object *group = groups && py->PyList_Size(groups) > 0 ? py->PyList_GetItem(groups, 0)
                                                                  : NULL;
    struct _object *all = group ? py->PyDict_GetItemString(group, "params") : NULL, *first = NULL;
    uint32_t label = PB_NULL_NAME;

    if (all && py->PyList_Size(all) > 0)
        first = py->PyList_GetItem(all, 0);
    py->PyErr_Clear();
    if (first) {
        py->Py_IncRef(first);
        label = pb_torch_model_of_parameter(t, first);
        py->Py_DecRef(first);
    }
    py->Py_DecRef(groups);
    return label;
}

/* In a free entry, or in that of an optimizer that is gone. NULL: there is none. */
static struct pb_torch_optimizer *add(struct pb_torch *t, struct _object *optimizer)
{
    const struct pb_py *py = &t->self->py;
    struct pb_torch_optimizer *entry = NULL;
    uint32_t taken = 0, number = 1, type = t->optimizers.name;

    for (int i = 0; i < PB_TORCH_OPTIMIZERS; i++) {
        struct pb_torch_optimizer *o = &t->optimizers.list[i];

        if (!pb_py_peek_referent(py, o->weak))
            entry = entry ? entry : o;
        else if (o->type == type)
            taken |= 1u << o->number;
    }
    if (!entry)
        return NULL;
    while (taken >> number & 1)
        number++;
    py->Py_DecRef(entry->weak);
    *entry = (struct pb_torch_optimizer){
        .weak = py->PyWeakref_NewRef(optimizer, NULL), .type = type, .number = number,
        .label = pb_torch_numbered_name(t, type, number)};
    py->PyErr_Clear();
    return entry;
}

/* NULL: there are too many. */
static struct pb_torch_optimizer *entry_of(struct pb_torch *t, struct _object *optimizer)
{
    for (int i = 0; i < PB_TORCH_OPTIMIZERS && t->optimizers.list[i].weak; i++)
        if (pb_py_peek_referent(&t->self->py, t->optimizers.list[i].weak) == optimizer)
            return &t->optimizers.list[i];
    set_names(t, optimizer);
    return t->on ? add(t, optimizer) : NULL;
}

const struct pb_torch_optimizer *pb_torch_optimizer(struct pb_torch *t,
                                                    struct _object *optimizer)
{
    static const struct pb_torch_optimizer none;
    const struct pb_torch_optimizer *o = entry_of(t, optimizer);

    return o ? o : &none;
}

static bool is_the_only_one(struct pb_torch *t, const struct pb_torch_optimizer *o)
{
    for (int i = 0; i < PB_TORCH_OPTIMIZERS; i++)
        if (&t->optimizers.list[i] != o &&
            pb_py_peek_referent(&t->self->py, t->optimizers.list[i].weak))
            return false;
    return true;
}

/*
 * When the agent comes in the midst of a step the model may not have been called as a whole yet: it
 * is looked for again at the optimizer's second step, its fourth, eighth and so on. Parameters that
 * no module has are those of the model that is trained, where there is one optimizer.
 */
uint32_t pb_torch_optimizer_model(struct pb_torch *t, struct _object *optimizer)
{
    struct pb_torch_optimizer *o = entry_of(t, optimizer);
    uint32_t label, asked;

    if (!o)
        return PB_NULL_NAME;
    asked = ++o->asked;
    if (!(asked & (asked - 1))) {
        label = model_of(t, optimizer);
        o = entry_of(t, optimizer); /* Python may have run */
        if (!o)
            return PB_NULL_NAME;
        o->model = label;
    }
    if (o->model || asked == 1 || !t->backward.model || !is_the_only_one(t, o))
        return o->model;
    return t->backward.model->label;
}

void pb_torch_optimizer_step_begin(struct pb_torch *t, struct _object *optimizer)
{
    struct pb_torch_optimizers *o = &t->optimizers;

    o->stepping = optimizer;
    o->began_ns = pb_clock_ns();
    pb_torch_part_begin(t, &o->part, o->began_ns);
    o->before = pb_progress_begin(pb_progress_thread(t->self), PB_PHASE_OPTIMIZER, o->began_ns);
    /* A step that failed unseen has left its own phase behind. */
    if (o->before.phase == PB_PHASE_OPTIMIZER)
        o->before.phase = PB_PHASE_OTHER;
    o->backwards_before = t->steps.sums.backwards;
    o->bytes_before = pb_torch_memory_bytes(&t->memory);
    o->span = t->on && t->tracing ? pb_torch_span_begin(t) : -1;
}

/* own_ns: without what a closure has run inside of step(), which has rows of its own. */
static void trace_step(struct pb_torch *t, struct _object *optimizer, uint64_t own_ns, bool alone)
{
    struct pb_torch_optimizers *o = &t->optimizers;
    struct pb_torch_stage stage = {.stage = t->trace.optimizer, .began_ns = o->began_ns,
                                   .ended_ns = o->began_ns + own_ns,
                                   .bytes_before = o->bytes_before, .span = alone ? o->span : -1};

    set_names(t, optimizer);
    stage.label = pb_torch_optimizer(t, optimizer)->label;
    stage.name = stage.type = o->name;
    stage.operation = o->operation;
    if (t->on)
        pb_torch_trace_stage(t, &stage);
}

/* The first step that counts: from where its optimizer counts, or from 0. */
static void begin_count(struct pb_torch *t, struct _object *optimizer)
{
    int64_t n = own_count(&t->self->py, optimizer);

    t->optimizers.seen = true;
    t->steps.number_source = n > 0 ? PB_TORCH_BY_OPTIMIZER : PB_TORCH_BY_INJECTION;
    pb_torch_steps_set(t, n > 0 ? n - 1 : 0);
}

void pb_torch_optimizer_step_abort(struct pb_torch *t)
{
    pb_progress_end(pb_progress_thread(t->self), &t->optimizers.before);
    t->optimizers.began_ns = 0;
}

/* Steps that an optimizer has made since the last one that counts, with this one. */
static uint32_t steps_since(struct pb_torch *t, struct _object *optimizer)
{
    struct pb_torch_optimizer *o = entry_of(t, optimizer);

    if (!o)
        return 0;
    if (o->counted != t->optimizers.counted)
        o->since = 0;
    o->counted = t->optimizers.counted;
    return ++o->since;
}

/* The first optimizer counts, until it is gone or another one has long been alone. */
static bool counts(struct pb_torch *t, struct _object *optimizer, uint64_t now)
{
    const struct pb_py *py = &t->self->py;
    struct _object *old = t->optimizers.main, *main = pb_torch_optimizer_main(t);

    if (main && main != optimizer && steps_since(t, optimizer) <= OTHERS_MAX &&
        now - t->steps.ended_ns < OTHERS_NS + 4 * t->steps.took_ns)
        return false;
    t->optimizers.counted++;
    if (main == optimizer)
        return true;
    t->loaders.main = NULL;
    t->optimizers.main = py->PyWeakref_NewRef(optimizer, NULL);
    py->PyErr_Clear();
    py->Py_DecRef(old);
    return true;
}

/* A step that has been made, at its end. */
static void count_step(struct pb_torch *t, struct _object *optimizer, uint64_t now)
{
    struct pb_torch_loss *loss = &t->loss.current;

    pb_torch_steps_claim_thread(t);
    pb_torch_manual_drop(t);
    pb_torch_loss_of_step(t);
    if (!counts(t, optimizer, now)) {
        if (t->on && loss->n && !loss->done && !t->backward.passes)
            pb_torch_logs_other_step(t, optimizer, now);
        loss->done = true;
        return;
    }
    loss->done = true;
    if (!t->optimizers.seen)
        begin_count(t, optimizer);
    if (t->on)
        pb_torch_steps_end(t, optimizer, now);
}

/* Of several in one pass it is the one that counts, or the first one. */
static void await_pass(struct pb_torch *t, struct _object *optimizer)
{
    const struct pb_py *py = &t->self->py;
    struct _object *old = t->optimizers.in_pass;

    if (pb_py_peek_referent(py, old) && pb_torch_optimizer_main(t) != optimizer)
        return;
    t->optimizers.in_pass = py->PyWeakref_NewRef(optimizer, NULL);
    py->PyErr_Clear();
    py->Py_DecRef(old);
}

void pb_torch_optimizer_step_end(struct pb_torch *t, struct _object *optimizer)
{
    uint64_t now = pb_clock_ns(), took = now - t->optimizers.began_ns, own;

    if (!t->on || !t->optimizers.began_ns) {
        pb_torch_optimizer_step_abort(t);
        return;
    }
    own = pb_torch_part_end(t, &t->optimizers.part, now);
    t->steps.sums.optimizer_ns += own;
    if (t->tracing)
        trace_step(t, optimizer, own, own == took);
    pb_torch_optimizer_step_abort(t);
    if (pb_torch_in_pass(t))
        await_pass(t, optimizer);
    else
        count_step(t, optimizer, now);
}

void pb_torch_optimizers_pass_ended(struct pb_torch *t, uint64_t now)
{
    const struct pb_py *py = &t->self->py;
    struct _object *weak = t->optimizers.in_pass;
    struct _object *optimizer = now && t->on ? pb_py_referent(py, weak) : NULL;

    t->optimizers.in_pass = NULL;
    if (optimizer)
        count_step(t, optimizer, now);
    py->Py_DecRef(optimizer);
    py->Py_DecRef(weak);
}
