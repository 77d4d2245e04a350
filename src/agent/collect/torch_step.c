/* Batches of a DataLoader, and optimizer steps by torch's own global hooks. */
#include <string.h>

#include "agent/collect/collect.h"
#include "agent/collect/torch.h"
#include "base/clock.h"

/* Another optimizer is the main one when it has made so many steps in a row. */
#define OTHERS_MAX 8
/* Or when that one has made none for so long and four of its steps more. */
#define OTHERS_NS 300000000u
#define NESTING_MAX 4

/* The first thing with a shape in a batch: tensor, tuple or list of such, or dict. Borrowed. */
static struct _object *first_of(const struct pb_py *py, struct _object *batch)
{
    struct _object *key, *value = NULL;
    ssize_t at = 0;

    if (py->PyTuple_Size(batch) > 0)
        return py->PyTuple_GetItem(batch, 0);
    py->PyErr_Clear();
    if (py->PyList_Size(batch) > 0)
        return py->PyList_GetItem(batch, 0);
    py->PyErr_Clear();
    if (py->PyDict_Size(batch) > 0 && py->PyDict_Next(batch, &at, &key, &value))
        return value;
    py->PyErr_Clear();
    return NULL;
}

/* Samples in a batch, 0 when that cannot be told. */
static int64_t batch_size(const struct pb_py *py, struct _object *batch)
{
    struct _object *shape = NULL;
    int64_t n = 0;

    for (int i = 0; batch && !shape && i < NESTING_MAX; i++) {
        shape = py->PyObject_GetAttrString(batch, "shape");
        py->PyErr_Clear();
        if (!shape)
            batch = first_of(py, batch);
    }
    if (shape && py->PyTuple_Size(shape) > 0)
        n = py->PyLong_AsLongLong(py->PyTuple_GetItem(shape, 0));
    py->PyErr_Clear();
    py->Py_DecRef(shape);
    return n > 0 ? n : 0;
}

struct _object *pb_torch_on_next(struct _object *iterator)
{
    struct pb_torch *t = pb_torch_state(pb_self());
    struct _object *batch;
    uint64_t began;

    if (!t->on)
        return t->next_was(iterator);
    began = pb_clock_ns();
    batch = t->next_was(iterator);
    if (!t->on)
        return batch;
    t->sums.data_ns += pb_clock_ns() - began;
    /* Without a batch an exception may be pending. */
    if (batch) {
        t->iterator = iterator;
        t->sums.batch += batch_size(&t->self->py, batch);
    } else if (iterator == t->step_iterator) {
        t->exhausted = true;
    }
    return batch;
}

static bool is_gone(const struct pb_py *py, struct _object *weak)
{
    struct _object *object = weak ? py->PyObject_CallFunction(weak, NULL) : NULL;
    bool gone = !object || object == py->none;

    py->PyErr_Clear();
    py->Py_DecRef(object);
    return gone;
}

/* Whose steps count: those of the first one, until it is gone or another has long been alone. */
static bool is_main(struct pb_torch *t, struct _object *optimizer, uint64_t now)
{
    const struct pb_py *py = &t->self->py;
    struct _object *old = t->main_weak;

    if (optimizer == t->main_optimizer) {
        t->others = 0;
        return true;
    }
    if (t->main_optimizer && ++t->others <= OTHERS_MAX &&
        now - t->step_end_ns < OTHERS_NS + 4 * t->took_ns && !is_gone(py, old))
        return false;
    t->main_optimizer = optimizer;
    t->others = 0;
    t->main_weak = py->PyWeakref_NewRef(optimizer, NULL);
    py->PyErr_Clear();
    py->Py_DecRef(old);
    return true;
}

/* Optimizers like Adam keep count: the number of the step that has just been made, or -1. */
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

void pb_torch_step_begins(struct pb_torch *t)
{
    t->optimizer_began_ns = pb_clock_ns();
    t->nested_ns = t->sums.forward_ns + t->sums.backward_ns;
    t->optimizer_span = t->on && t->tracing ? pb_torch_span_begins(t) : -1;
}

static void trace_optimizer(struct pb_torch *t, struct _object *optimizer, uint64_t now)
{
    char operation[PB_TORCH_PATH + 8];
    struct pb_torch_module names = {0};
    size_t len;

    names.name = names.type = pb_torch_type_name(t, optimizer, operation, &len);
    memcpy(operation + len, ".step", 5);
    if (t->on)
        pb_torch_trace(t, &names, t->stage_optimizer, pb_torch_name(t, operation, len + 5),
                       t->optimizer_began_ns, now, t->optimizer_span);
}

void pb_torch_step_ends(struct pb_torch *t, struct _object *optimizer)
{
    uint64_t now = pb_clock_ns(), took = now - t->optimizer_began_ns, nested;

    if (!t->on || !t->optimizer_began_ns)
        return;
    /* A closure runs the model inside of step(): that is not the optimizer's time. */
    nested = t->sums.forward_ns + t->sums.backward_ns - t->nested_ns;
    t->sums.optimizer_ns += took > nested ? took - nested : 0;
    if (t->tracing)
        trace_optimizer(t, optimizer, now);
    t->optimizer_began_ns = 0;
    if (!is_main(t, optimizer, now))
        return;
    if (!t->optimizer_seen) {
        int64_t n = own_count(&t->self->py, optimizer);

        t->optimizer_seen = true;
        t->step = n > 0 ? n - 1 : 0;
    }
    if (t->on)
        pb_torch_step_ended(t, optimizer, now);
}

/* (optimizer, args, kwargs) */
static struct _object *on_step_begins(struct _object *unused, struct _object *args)
{
    struct pb_torch *t = pb_torch_state(pb_self());

    (void)unused;
    (void)args;
    pb_torch_step_begins(t);
    return t->self->py.Py_BuildValue("");
}

static struct _object *on_step_ended(struct _object *unused, struct _object *args)
{
    struct pb_torch *t = pb_torch_state(pb_self());
    const struct pb_py *py = &t->self->py;
    struct _object *optimizer = py->PyTuple_Size(args) > 0 ? py->PyTuple_GetItem(args, 0) : NULL;

    (void)unused;
    if (optimizer)
        pb_torch_step_ends(t, optimizer);
    py->PyErr_Clear();
    return py->Py_BuildValue("");
}

/* Python keeps pointers to these. */
static struct pb_py_method methods[2] = {
    {"probing_step_begins", on_step_begins, PB_PY_VARARGS, NULL},
    {"probing_step_ended", on_step_ended, PB_PY_VARARGS, NULL},
};

int pb_torch_steps_enter(struct pb_torch *t, struct pb_err *err)
{
    static const char *const names[2] = {"register_optimizer_step_pre_hook",
                                         "register_optimizer_step_post_hook"};
    const struct pb_py *py = &t->self->py;
    struct _object *module;

    if (t->handles[0])
        return 0; /* in a forked child: the parent's */
    module = pb_collect_module(t->self, "torch.optim.optimizer");
    for (int i = 0; i < 2 && module; i++) {
        struct _object *add = py->PyObject_GetAttrString(module, names[i]);

        t->hooks[i] = add ? py->PyCFunction_NewEx(&methods[i], NULL, NULL) : NULL;
        t->handles[i] = t->hooks[i] ? py->PyObject_CallFunction(add, "(O)", t->hooks[i]) : NULL;
        py->PyErr_Clear();
        py->Py_DecRef(add);
    }
    py->PyErr_Clear();
    py->Py_DecRef(module);
    if (t->handles[0] && t->handles[1])
        return 0;
    pb_torch_steps_leave(t);
    /* Torch 1.13 and before. */
    if (pb_torch_patch_put(t, PB_TORCH_PATCH_STEP_BEGINS) &&
        pb_torch_patch_put(t, PB_TORCH_PATCH_STEP_ENDS))
        return 0;
    return pb_err_set(err, PB_FAIL, "no steps: this torch does not tell of its optimizers");
}

void pb_torch_steps_leave(struct pb_torch *t)
{
    const struct pb_py *py = &t->self->py;

    for (int i = 0; i < 2; i++) {
        struct _object *remove = t->handles[i] ? py->PyObject_GetAttrString(t->handles[i],
                                                                            "remove") : NULL;

        if (remove)
            py->Py_DecRef(py->PyObject_CallFunction(remove, NULL));
        py->PyErr_Clear();
        py->Py_DecRef(remove);
        py->Py_DecRef(t->handles[i]);
        py->Py_DecRef(t->hooks[i]);
        t->handles[i] = t->hooks[i] = NULL;
    }
    py->Py_DecRef(t->main_weak);
    t->main_weak = NULL;
}
