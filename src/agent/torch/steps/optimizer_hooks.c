/* How steps of optimizers are seen: three ways (optimizers.h), the first that works. */
#include <string.h>

#include "agent/collectors/collect.h"
#include "agent/torch/torch.h"

/* Borrowed, for comparing: the exception that is being handled. */
static struct _object *handled_exception(const struct pb_py *py)
{
    struct _object *type = NULL, *value = NULL, *trace = NULL;

    py->PyErr_GetExcInfo(&type, &value, &trace);
    py->Py_DecRef(type);
    py->Py_DecRef(value);
    py->Py_DecRef(trace);
    return value;
}

/* With an exception that was not there when it began the step has failed. */
static void step_returns(struct pb_torch *t)
{
    if (handled_exception(&t->self->py) == t->optimizers.error)
        pb_torch_optimizer_step_end(t, t->optimizers.stepping);
    else
        pb_torch_optimizer_step_abort(t);
}

void pb_torch_on_record_enter(struct pb_torch *t, struct _object *name, struct _object *record)
{
    static const char prefix[] = "Optimizer.step#", cleared[] = "Optimizer.zero_grad#";
    const struct pb_py *py = &t->self->py;
    uint64_t began;
    struct _object *optimizer;
    ssize_t len = 0;
    const char *s = py->PyUnicode_AsUTF8AndSize(name, &len);

    if (!s)
        py->PyErr_Clear();
    else if (strncmp(s, cleared, sizeof cleared - 1) == 0)
        t->loss.current.done = t->loss.complete = true;
    if (!s || strncmp(s, prefix, sizeof prefix - 1) != 0)
        return;
    began = pb_clock_ns();
    optimizer = pb_torch_step_optimizer(t);
    if (optimizer && t->on) {
        t->optimizers.record = record;
        t->optimizers.frame = NULL;
        t->optimizers.error = handled_exception(py);
        pb_torch_optimizer_step_begin(t, optimizer);
        t->steps.sums.own_ns += t->optimizers.began_ns - began;
        py->PyErr_Clear();
    }
}

void pb_torch_on_record_exit(struct pb_torch *t)
{
    t->optimizers.record = NULL;
    step_returns(t);
    t->self->py.PyErr_Clear();
}

/* The first change of the grad mode in the wrapper's call is the beginning, the second the end. */
void pb_torch_on_grad_mode(struct pb_torch *t)
{
    const struct pb_py *py = &t->self->py;
    struct _object *frame = pb_torch_frame(py, 1);
    struct _object *code = frame ? py->PyObject_GetAttrString(frame, "f_code") : NULL;
    struct _object *optimizer;

    py->PyErr_Clear();
    if (code && code == t->optimizers.wrapper_code && t->on) {
        if (t->optimizers.frame == frame) {
            t->optimizers.frame = NULL;
            step_returns(t);
        } else if ((optimizer = pb_torch_frame_optimizer(t, frame)) && t->on) {
            t->optimizers.frame = frame;
            t->optimizers.error = handled_exception(py);
            pb_torch_optimizer_step_begin(t, optimizer);
        }
    }
    py->PyErr_Clear();
    py->Py_DecRef(code);
    py->Py_DecRef(frame);
}

/* Torch's global hook before a step: (optimizer, args, kwargs). */
static struct _object *on_step_begins(struct _object *unused, struct _object *args)
{
    struct pb_torch *t = pb_torch_state(pb_self());
    const struct pb_py *py = &t->self->py;

    (void)unused;
    if (py->PyTuple_Size(args) > 0)
        pb_torch_optimizer_step_begin(t, py->PyTuple_GetItem(args, 0));
    return py->Py_BuildValue("");
}

/* Torch's global hook after a step, which is not called for one that fails. */
static struct _object *on_step_ended(struct _object *unused, struct _object *args)
{
    struct pb_torch *t = pb_torch_state(pb_self());
    const struct pb_py *py = &t->self->py;

    (void)unused;
    if (py->PyTuple_Size(args) > 0)
        pb_torch_optimizer_step_end(t, py->PyTuple_GetItem(args, 0));
    py->PyErr_Clear();
    return py->Py_BuildValue("");
}

/* Python keeps pointers to these. */
static struct pb_py_method methods[2] = {
    {"probing_step_begins", on_step_begins, PB_PY_VARARGS, NULL},
    {"probing_step_ended", on_step_ended, PB_PY_VARARGS, NULL},
};

static bool register_hooks(struct pb_torch *t)
{
    static const char *const names[2] = {"register_optimizer_step_pre_hook",
                                         "register_optimizer_step_post_hook"};
    const struct pb_py *py = &t->self->py;
    struct pb_torch_optimizers *o = &t->optimizers;
    struct _object *module;

    if (o->handles[0])
        return true; /* in a forked child: the parent's */
    module = pb_collect_module(t->self, "torch.optim.optimizer");
    for (int i = 0; i < 2 && module; i++) {
        struct _object *add = py->PyObject_GetAttrString(module, names[i]);

        o->hooks[i] = add ? py->PyCFunction_NewEx(&methods[i], NULL, NULL) : NULL;
        o->handles[i] = o->hooks[i] ? py->PyObject_CallFunction(add, "(O)", o->hooks[i]) : NULL;
        py->PyErr_Clear();
        py->Py_DecRef(add);
    }
    py->PyErr_Clear();
    py->Py_DecRef(module);
    return o->handles[0] && o->handles[1];
}

/* Code of the function that is defined inside of this one; a new reference, or NULL. */
static struct _object *inner_code(struct pb_torch *t, const char *name)
{
    const struct pb_py *py = &t->self->py;
    struct _object *outer = pb_py_attribute(py, "torch.optim.optimizer", name);
    struct _object *code = outer ? py->PyObject_GetAttrString(outer, "__code__") : NULL;
    struct _object *all = code ? py->PyObject_GetAttrString(code, "co_consts") : NULL;
    struct _object *found = NULL, *type = code ? py->PyObject_Type(code) : NULL;
    ssize_t n = all ? py->PyTuple_Size(all) : 0;

    for (ssize_t i = 0; i < n && !found; i++) {
        struct _object *its = py->PyObject_Type(py->PyTuple_GetItem(all, i));

        if (its == type)
            found = py->PyTuple_GetItem(all, i);
        py->Py_DecRef(its);
    }
    py->PyErr_Clear();
    py->Py_IncRef(found);
    py->Py_DecRef(type);
    py->Py_DecRef(all);
    py->Py_DecRef(code);
    py->Py_DecRef(outer);
    return found;
}

void pb_torch_optimizers_poll(struct pb_torch *t)
{
    const struct pb_py *py = &t->self->py;
    struct _object *counters;

    if (t->optimizers.compiling || !t->optimizers.wrapper_code)
        return;
    /* Has torch.compile done anything in this process? */
    counters = pb_py_attribute(py, "torch._dynamo.utils", "counters");
    t->optimizers.compiling = counters && py->PyDict_Size(counters) > 0;
    py->PyErr_Clear();
    py->Py_DecRef(counters);
    if (t->optimizers.compiling)
        pb_torch_builtin_install(t, PB_TORCH_BUILTIN_GRAD_MODE);
}

/* Torch has two ways of telling its profiler; 1.13 and some programs use the older one. */
static bool install_builtins(struct pb_torch *t)
{
    bool newer = pb_torch_builtin_install(t, PB_TORCH_BUILTIN_ENTER) &&
                 pb_torch_builtin_install(t, PB_TORCH_BUILTIN_EXIT);
    bool older = pb_torch_builtin_install(t, PB_TORCH_BUILTIN_ENTER_OLD) &&
                 pb_torch_builtin_install(t, PB_TORCH_BUILTIN_EXIT_OLD);

    return newer || older;
}

int pb_torch_optimizers_enter(struct pb_torch *t, struct pb_err *err)
{
    struct pb_torch_optimizers *o = &t->optimizers;

    o->stepping = o->record = o->frame = NULL;
    o->compiling = o->seen = false;
    o->began_ns = 0;
    if (!o->type)
        o->type = pb_py_attribute(&t->self->py, "torch.optim.optimizer", "Optimizer");
    if (!o->wrapper_code)
        o->wrapper_code = inner_code(t, "_use_grad_for_differentiable");
    if (o->type && install_builtins(t)) {
        pb_torch_optimizers_poll(t);
        return 0;
    }
    if (register_hooks(t))
        return 0;
    pb_torch_optimizers_leave(t);
    return pb_err_set(err, PB_FAIL, "no steps: this torch does not tell of its optimizers");
}

void pb_torch_optimizers_leave(struct pb_torch *t)
{
    const struct pb_py *py = &t->self->py;
    struct pb_torch_optimizers *o = &t->optimizers;

    for (int i = 0; i < 2; i++) {
        if (o->handles[i])
            py->Py_DecRef(pb_py_call(py, o->handles[i], "remove"));
        py->Py_DecRef(o->handles[i]);
        py->Py_DecRef(o->hooks[i]);
        o->handles[i] = o->hooks[i] = NULL;
    }
    py->Py_DecRef(o->main);
    py->Py_DecRef(o->in_pass);
    py->Py_DecRef(o->named_type);
    py->Py_DecRef(o->cached.code);
    o->cached = (struct pb_torch_cached_optimizer){0};
    o->named_type = o->main = o->in_pass = NULL;
    for (int i = 0; i < PB_TORCH_OPTIMIZERS; i++) {
        struct _object *weak = o->list[i].weak;

        o->list[i] = (struct pb_torch_optimizer){0};
        py->Py_DecRef(weak);
    }
}
