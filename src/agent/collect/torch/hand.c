/*
 * Steps that no optimizer makes: the program applies gradients by itself.
 *
 * Such a step ends with its last backward pass. Which one that was is known when the gradients have
 * been used: a parameter was written to, or its gradient was cleared or replaced, before the model
 * is called again or before the next pass. Passes between which nothing of that happens add up
 * their gradients, and are one step. Without a module there is no parameter to look at, and each
 * pass is a step.
 */
#include "agent/collect/comm/comm.h"
#include "agent/collect/torch/events.h"
#include "agent/collect/torch/torch.h"
#include "base/clock.h"

/* Parameters that are looked at for one with a gradient. */
#define LOOK_MAX 256
/* And for whose one is. */
#define WHOSE_MAX 16384
#define DEPTH_MAX 48
/* So long after the last backward, and four steps more, its step has ended. */
#define LONG_NS UINT64_C(1000000000)

/* An attribute as a whole number; -1 when it is none. */
static int64_t number_of(const struct pb_py *py, struct _object *object, const char *name)
{
    struct _object *value = py->PyObject_GetAttrString(object, name);
    int64_t n = value ? py->PyLong_AsLongLong(value) : -1;

    py->PyErr_Clear();
    py->Py_DecRef(value);
    return n;
}

/* A new reference, or NULL: it has none. */
static struct _object *gradient_of(const struct pb_py *py, struct _object *parameter)
{
    struct _object *grad = py->PyObject_GetAttrString(parameter, "grad");

    py->PyErr_Clear();
    if (grad != py->none)
        return grad;
    py->Py_DecRef(grad);
    return NULL;
}

/* A parameter that is looked for in a tree of modules: this one, or NULL: one with a gradient. */
struct search {
    struct _object *wanted;
    int left; /* how many more are looked at */
};

static struct _object *find_in(struct pb_torch *t, struct _object *module, int depth,
                               struct search *s);

static bool is_it(const struct pb_py *py, struct _object *parameter, struct search *s)
{
    struct _object *grad;

    s->left--;
    if (s->wanted)
        return parameter == s->wanted;
    grad = gradient_of(py, parameter);
    py->Py_DecRef(grad);
    return grad != NULL;
}

/* The values of a dictionary: parameters of a module, or modules in it. */
static struct _object *among(struct pb_torch *t, struct _object *module, const char *which,
                             int depth, struct search *s)
{
    const struct pb_py *py = &t->self->py;
    struct _object *dict = py->PyObject_GetAttrString(module, which), *key, *value, *found = NULL;
    bool modules = which[1] == 'm';
    ssize_t at = 0;

    while (dict && !found && s->left > 0 && py->PyDict_Next(dict, &at, &key, &value)) {
        if (value == py->none)
            continue;
        py->Py_IncRef(value);
        if (modules)
            found = find_in(t, value, depth + 1, s);
        else if (is_it(py, value, s))
            found = value;
        if (found != value)
            py->Py_DecRef(value);
    }
    py->PyErr_Clear();
    py->Py_DecRef(dict);
    return found;
}

/* The first that fits; a new reference, or NULL. */
static struct _object *find_in(struct pb_torch *t, struct _object *module, int depth,
                               struct search *s)
{
    struct _object *found = depth < DEPTH_MAX ? among(t, module, "_parameters", depth, s) : NULL;

    if (!found && depth < DEPTH_MAX)
        found = among(t, module, "_modules", depth, s);
    return found;
}

uint32_t pb_torch_model_with(struct pb_torch *t, struct _object *parameter)
{
    const struct pb_py *py = &t->self->py;
    struct search s = {parameter, WHOSE_MAX};
    uint32_t n = t->nmodules;

    for (uint32_t i = 0; i < n && i < t->nmodules && s.left > 0; i++) {
        uint32_t label = t->modules[i].label;
        struct _object *module = t->modules[i].object, *found;

        if (!label || (uintptr_t)module <= 1)
            continue;
        py->Py_IncRef(module);
        found = find_in(t, module, 0, &s);
        py->Py_DecRef(module);
        py->Py_DecRef(found);
        if (found)
            return label;
    }
    return PB_NULL_NAME;
}

/* Borrowed: what the backward pass is of, or NULL. */
static struct _object *model_of(const struct pb_torch *t)
{
    struct _object *object = t->last_root ? t->last_root->object : NULL;

    return (uintptr_t)object > 1 ? object : NULL;
}

/* Another reference to what a weak one is of, or NULL. */
static struct _object *alive(const struct pb_py *py, struct _object *weak)
{
    struct _object *object = weak ? py->PyObject_CallFunctionObjArgs(weak, NULL) : NULL;

    py->PyErr_Clear();
    if (object != py->none)
        return object;
    py->Py_DecRef(object);
    return NULL;
}

/* Have the gradients of the pass been used? Where there is no telling, they have. */
static bool are_used(struct pb_torch *t)
{
    const struct pb_py *py = &t->self->py;
    const struct pb_torch_hand *h = &t->hand;
    struct _object *parameter = h->has_probe ? alive(py, h->weak) : NULL;
    struct _object *grad = parameter ? gradient_of(py, parameter) : NULL;
    bool used = !grad || grad != h->grad || number_of(py, grad, "_version") != h->grad_version ||
                number_of(py, parameter, "_version") != h->version;

    py->Py_DecRef(grad);
    py->Py_DecRef(parameter);
    return used;
}

/* Remembers how a parameter and its gradient are now: mostly the same one as the last time. */
static void note_probe(struct pb_torch *t)
{
    const struct pb_py *py = &t->self->py;
    struct pb_torch_hand *h = &t->hand;
    struct _object *parameter = alive(py, h->weak), *model = model_of(t), *grad, *old = h->weak;
    struct search s = {NULL, LOOK_MAX};

    grad = parameter ? gradient_of(py, parameter) : NULL;
    if (!grad) {
        py->Py_DecRef(parameter);
        py->Py_IncRef(model);
        parameter = model ? find_in(t, model, 0, &s) : NULL;
        py->Py_DecRef(model);
        grad = parameter ? gradient_of(py, parameter) : NULL;
        h->weak = parameter ? py->PyWeakref_NewRef(parameter, NULL) : NULL;
        py->PyErr_Clear();
        py->Py_DecRef(old);
    }
    h->has_probe = grad && h->weak;
    if (h->has_probe) {
        h->grad = grad;
        h->grad_version = number_of(py, grad, "_version");
        h->version = number_of(py, parameter, "_version");
    }
    py->Py_DecRef(grad);
    py->Py_DecRef(parameter);
}

/* here: on the thread that makes the steps. */
static void commit(struct pb_torch *t, bool here)
{
    t->hand.ends = true;
    pb_torch_step_ended_by_hand(t);
    t->hand.pending = t->hand.asked = false;
    if (here)
        pb_torch_tell(t, PB_TORCH_EVENT_STEP);
}

/* Has the program called backward for this step before we came? Without gradients it has not. */
static void look_back(struct pb_torch *t)
{
    const struct pb_py *py = &t->self->py;
    struct _object *model = model_of(t), *found;
    struct search s = {NULL, LOOK_MAX};

    if (!model)
        return;
    py->Py_IncRef(model);
    found = find_in(t, model, 0, &s);
    py->Py_DecRef(model);
    t->loss_whole = !found && s.left < LOOK_MAX;
    py->Py_DecRef(found);
}

void pb_torch_hand_backward(struct pb_torch *t)
{
    uint64_t began;

    if (t->step_end_ns && !t->hand.pending)
        return;
    began = pb_clock_ns();
    if (!t->step_end_ns && !t->loss_whole && !t->loss.n)
        look_back(t);
    if (t->on && t->hand.pending && (!model_of(t) || are_used(t)) && t->on) {
        /* The model was called, and nothing of it was to be seen by then. */
        t->hand.by_forward |= t->hand.asked;
        commit(t, true);
    }
    pb_torch_own(t, began);
}

void pb_torch_hand_passed(struct pb_torch *t, uint64_t now)
{
    struct pb_torch_hand *h = &t->hand;
    uint64_t began;

    if (t->optimizer_began_ns || (t->optimizer_seen && pb_torch_main_optimizer(t)))
        return;
    began = pb_clock_ns();
    note_probe(t);
    if (!t->on)
        return;
    h->pending = true;
    h->asked = false;
    h->ended_ns = now;
    h->counted_ns = t->counted_ns;
    h->comm_ns = pb_comm_so_far_ns(t->self, now) + t->carry_comm_ns;
    pb_torch_feed_measure(t, &h->fed);
    h->epoch = t->epoch;
    h->sums = t->sums;
    pb_torch_own(t, began);
}

void pb_torch_hand_forward(struct pb_torch *t, struct _object *module)
{
    const struct pb_torch_module *m = pb_torch_module_find(t, module);
    uint64_t began;

    /* A loss has nothing of its own to train. */
    if (!m || (!m->has_children && !m->has_parameters) || !pb_torch_makes_steps(t) ||
        pb_torch_in_pass(t) || t->unscale.state != PB_CUDA_NONE)
        return;
    began = pb_clock_ns();
    if ((t->hand.by_forward || are_used(t)) && t->on)
        commit(t, true);
    else
        t->hand.asked = true;
    pb_torch_own(t, began);
}

void pb_torch_hand_look(struct pb_torch *t, uint64_t now)
{
    if (t->hand.pending && t->hand.ends && !t->passes &&
        now - t->hand.ended_ns > LONG_NS + 4 * t->took_ns && (!model_of(t) || are_used(t)))
        commit(t, false);
}

void pb_torch_hand_drop(struct pb_torch *t)
{
    t->hand.pending = t->hand.ends = t->hand.by_forward = t->hand.asked = false;
}

void pb_torch_hand_leave(struct pb_torch *t)
{
    struct _object *weak = t->hand.weak;

    t->hand = (struct pb_torch_hand){0};
    t->self->py.Py_DecRef(weak);
}
