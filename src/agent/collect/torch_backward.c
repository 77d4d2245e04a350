/* Backward passes: an object in place of autograd's engine that takes the time. */
#include <string.h>

#include "agent/collect/collect.h"
#include "agent/collect/torch.h"
#include "base/clock.h"

/*
 * torch looks the engine up in the class Variable at every backward and calls run_backward. Ours
 * is a subclass of the engine's own type, which has no state of its own, so whatever else is
 * asked of it (queue_callback) goes where it always went.
 */

/* torch.autograd.grad goes through the engine, too, and is no backward pass of a step. */
static bool accumulates(const struct pb_py *py, struct _object *kwargs)
{
    struct _object *flag = kwargs ? py->PyDict_GetItemString(kwargs, "accumulate_grad") : NULL;

    return !flag || py->PyObject_IsTrue(flag) == 1;
}

static void passed(struct pb_torch *t, struct _object *args, uint64_t began, uint64_t now,
                   int span)
{
    const struct pb_py *py = &t->self->py;
    struct _object *outputs = py->PyTuple_Size(args) > 0 ? py->PyTuple_GetItem(args, 0) : NULL;
    struct _object *loss = outputs && py->PyTuple_Size(outputs) > 0
                               ? py->PyTuple_GetItem(outputs, 0) : NULL;

    py->PyErr_Clear();
    t->sums.backward_ns += now - began;
    t->sums.backwards++;
    if (t->tracing && t->last_root)
        pb_torch_trace(t, t->last_root, t->stage_backward, t->operation_backward, began, now, span);
    /* Of a scaled loss the value has been noted before it was scaled. */
    if (t->on && loss && loss != t->scaled)
        pb_torch_value_note(t, &t->loss, loss);
    t->scaled = NULL;
}

static struct _object *run(struct _object *unused, struct _object *args, struct _object *kwargs)
{
    struct pb_torch *t = pb_torch_state(pb_self());
    const struct pb_py *py = &t->self->py;
    struct _object *original = t->run_backward, *result;
    int span = t->on && t->tracing ? pb_torch_span_begins(t) : -1;
    uint64_t began = pb_clock_ns();

    (void)unused;
    py->Py_IncRef(original);
    result = py->PyObject_Call(original, args, kwargs);
    py->Py_DecRef(original);
    if (result && t->on && accumulates(py, kwargs))
        passed(t, args, began, pb_clock_ns(), span);
    return result;
}

/* Python keeps a pointer to it. */
static struct pb_py_method method = {
    "run_backward", (struct _object * (*)(struct _object *, struct _object *))(uintptr_t)run,
    PB_PY_VARARGS | PB_PY_KEYWORDS, NULL};

static struct _object *make_proxy(const struct pb_py *py, struct _object *engine)
{
    struct _object *type = py->PyObject_Type(engine), *meta = NULL, *ours = NULL, *proxy = NULL;
    struct _object *function = py->PyCFunction_NewEx(&method, NULL, NULL);

    meta = type ? py->PyObject_Type(type) : NULL;
    if (meta && function)
        ours = py->PyObject_CallFunction(meta, "s(O){sO}", "ImperativeEngine", type,
                                         "run_backward", function);
    proxy = ours ? py->PyObject_CallFunction(ours, NULL) : NULL;
    py->PyErr_Clear();
    py->Py_DecRef(ours);
    py->Py_DecRef(function);
    py->Py_DecRef(meta);
    py->Py_DecRef(type);
    return proxy;
}

int pb_torch_backward_enter(struct pb_torch *t, struct pb_err *err)
{
    const struct pb_py *py = &t->self->py;
    struct _object *module = pb_collect_module(t->self, "torch.autograd.variable");

    if (!t->variable)
        t->variable = module ? py->PyObject_GetAttrString(module, "Variable") : NULL;
    if (!t->engine)
        t->engine = t->variable ? py->PyObject_GetAttrString(t->variable, "_execution_engine")
                                : NULL;
    if (!t->run_backward)
        t->run_backward = t->engine ? py->PyObject_GetAttrString(t->engine, "run_backward") : NULL;
    if (!t->proxy)
        t->proxy = t->run_backward ? make_proxy(py, t->engine) : NULL;
    t->engine_in = t->proxy && py->PyObject_SetAttrString(t->variable, "_execution_engine",
                                                          t->proxy) == 0;
    py->PyErr_Clear();
    py->Py_DecRef(module);
    if (t->engine_in)
        return 0;
    return pb_err_set(err, PB_FAIL, "autograd's engine was not found");
}

void pb_torch_backward_leave(struct pb_torch *t)
{
    const struct pb_py *py = &t->self->py;
    struct _object *now = t->engine_in ? py->PyObject_GetAttrString(t->variable,
                                                                    "_execution_engine") : NULL;

    /* The proxy and what it calls stay: a backward may be under way. */
    if (now && now == t->proxy)
        py->PyObject_SetAttrString(t->variable, "_execution_engine", t->engine);
    py->PyErr_Clear();
    py->Py_DecRef(now);
    t->engine_in = false;
}
