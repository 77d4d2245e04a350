/*
 * Steps of optimizers. Torch's profiler has a name for each, and the C functions behind that are
 * seen (builtin.c). In a step that was compiled there is no profiler: there a wrapper that
 * every optimizer of torch has switches the grad mode off and on again. Where neither is to be had
 * torch's global hooks are used, which the compiler sees.
 */
#include <string.h>

#include "agent/collect/collect.h"
#include "agent/collect/torch/torch.h"
#include "base/clock.h"

/* Another optimizer is the main one when it has made so many steps in a row. */
#define OTHERS_MAX 8
/* Or when that one has made none for so long and four of its steps more. */
#define OTHERS_NS 300000000u

/* Borrowed: what a weak reference is of; NULL when that is gone. */
static struct _object *object_of(const struct pb_py *py, struct _object *weak)
{
    struct _object *object = NULL;

    if (weak && py->PyWeakref_GetObject) {
        object = py->PyWeakref_GetObject(weak);
    } else if (weak) {
        object = py->PyObject_CallFunctionObjArgs(weak, NULL);
        py->Py_DecRef(object);
    }
    if (!object)
        py->PyErr_Clear();
    return object != py->none ? object : NULL;
}

struct _object *pb_torch_main_optimizer(struct pb_torch *t)
{
    return object_of(&t->self->py, t->main_weak);
}

/* Whose steps count: those of the first one, until it is gone or another has long been alone. */
static bool is_main(struct pb_torch *t, struct _object *optimizer, uint64_t now)
{
    const struct pb_py *py = &t->self->py;
    struct _object *old = t->main_weak, *its = pb_torch_main_optimizer(t);

    if (its == optimizer) {
        t->others = 0;
        return true;
    }
    if (its && ++t->others <= OTHERS_MAX && now - t->step_end_ns < OTHERS_NS + 4 * t->took_ns)
        return false;
    t->main_feed = NULL;
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

static void step_begins(struct pb_torch *t, struct _object *optimizer)
{
    t->stepping = optimizer;
    t->optimizer_began_ns = pb_clock_ns();
    pb_torch_part_begins(t, &t->optimizer_part, t->optimizer_began_ns);
    t->step_backwards = t->sums.backwards;
    t->optimizer_bytes = pb_alloc_bytes(&t->alloc);
    t->optimizer_span = t->on && t->tracing ? pb_torch_span_begins(t) : -1;
}

/* It is the same class at every step, mostly. */
static void name_optimizer(struct pb_torch *t, struct _object *optimizer)
{
    const struct pb_py *py = &t->self->py;
    struct _object *type = py->PyObject_Type(optimizer), *old = t->named_type;
    char operation[PB_TORCH_PATH + 8];
    size_t len;

    if (type != old) {
        t->named_type = type;
        t->optimizer_name = pb_torch_type_name(t, optimizer, operation, &len);
        memcpy(operation + len, ".step", 5);
        t->optimizer_operation = pb_torch_name(t, operation, len + 5);
        type = old;
    }
    py->Py_DecRef(type);
}

/* The model that its first parameter is of. */
static uint32_t model_of(struct pb_torch *t, struct _object *optimizer)
{
    const struct pb_py *py = &t->self->py;
    struct _object *groups = py->PyObject_GetAttr(optimizer, t->word_groups), *first = NULL;
    struct _object *group = groups && py->PyList_Size(groups) > 0 ? py->PyList_GetItem(groups, 0)
                                                                  : NULL;
    struct _object *all = group ? py->PyDict_GetItemString(group, "params") : NULL;
    uint32_t label = PB_NULL_NAME;

    if (all && py->PyList_Size(all) > 0)
        first = py->PyList_GetItem(all, 0);
    py->PyErr_Clear();
    if (first) {
        py->Py_IncRef(first);
        label = pb_torch_model_with(t, first);
        py->Py_DecRef(first);
    }
    py->Py_DecRef(groups);
    return label;
}

/* In a free place, or in that of one that is gone. NULL: there is none. */
static struct pb_torch_optimizer *add(struct pb_torch *t, struct _object *optimizer)
{
    const struct pb_py *py = &t->self->py;
    struct pb_torch_optimizer *free_one = NULL;
    uint32_t taken = 0, number = 1;

    for (int i = 0; i < PB_TORCH_OPTIMIZERS; i++) {
        struct pb_torch_optimizer *o = &t->optimizers[i];

        if (!object_of(py, o->weak))
            free_one = free_one ? free_one : o;
        else if (o->type == t->optimizer_name)
            taken |= 1u << o->number;
    }
    if (!free_one)
        return NULL;
    while (taken >> number & 1)
        number++;
    py->Py_DecRef(free_one->weak);
    *free_one = (struct pb_torch_optimizer){
        .weak = py->PyWeakref_NewRef(optimizer, NULL), .type = t->optimizer_name,
        .number = number, .label = pb_torch_numbered(t, t->optimizer_name, number)};
    free_one->model = model_of(t, optimizer);
    py->PyErr_Clear();
    return free_one;
}

/* Of several optimizers of one class each has a name of its own. */
const struct pb_torch_optimizer *pb_torch_optimizer(struct pb_torch *t,
                                                    struct _object *optimizer)
{
    static const struct pb_torch_optimizer none;
    struct pb_torch_optimizer *o;

    for (int i = 0; i < PB_TORCH_OPTIMIZERS && t->optimizers[i].weak; i++)
        if (object_of(&t->self->py, t->optimizers[i].weak) == optimizer)
            return &t->optimizers[i];
    name_optimizer(t, optimizer);
    o = t->on ? add(t, optimizer) : NULL;
    return o ? o : &none;
}

/* A closure runs the model inside of step(): that has rows of its own. */
static void trace_optimizer(struct pb_torch *t, struct _object *optimizer, uint64_t own_ns,
                            bool alone)
{
    struct pb_torch_module names = {0};

    name_optimizer(t, optimizer);
    names.name = names.type = t->optimizer_name;
    names.label = pb_torch_optimizer(t, optimizer)->label;
    if (t->on)
        pb_torch_trace(t, &names, t->stage_optimizer, t->optimizer_operation,
                       t->optimizer_began_ns, t->optimizer_began_ns + own_ns, 0,
                       t->optimizer_bytes, alone ? t->optimizer_span : -1);
}

static void step_ends(struct pb_torch *t, struct _object *optimizer)
{
    uint64_t now = pb_clock_ns(), took = now - t->optimizer_began_ns, own;

    if (!t->on || !t->optimizer_began_ns)
        return;
    own = pb_torch_part_ends(t, &t->optimizer_part, now);
    t->sums.optimizer_ns += own;
    if (t->tracing)
        trace_optimizer(t, optimizer, own, own == took);
    t->optimizer_began_ns = 0;
    pb_torch_steps_are_here(t);
    pb_torch_hand_drop(t);
    if (!is_main(t, optimizer, now)) {
        if (t->on && t->loss.n && !t->loss.done && !t->passes)
            pb_torch_step_other(t, optimizer, now);
        t->loss.done = true;
        return;
    }
    t->loss.done = true;
    if (!t->optimizer_seen) {
        int64_t n = own_count(&t->self->py, optimizer);

        t->optimizer_seen = true;
        t->step_source = n > 0 ? PB_TORCH_BY_OPTIMIZER : PB_TORCH_BY_INJECTION;
        t->step = n > 0 ? n - 1 : 0;
    }
    if (t->on)
        pb_torch_step_ended(t, optimizer, now);
}

/* Borrowed: the exception that is being handled, for comparing. */
static struct _object *handled(const struct pb_py *py)
{
    struct _object *type = NULL, *value = NULL, *trace = NULL;

    py->PyErr_GetExcInfo(&type, &value, &trace);
    py->Py_DecRef(type);
    py->Py_DecRef(value);
    py->Py_DecRef(trace);
    return value;
}

/* With an exception that was not there before it has failed, and is none. */
static void step_returns(struct pb_torch *t)
{
    if (handled(&t->self->py) == t->step_error)
        step_ends(t, t->stepping);
    t->optimizer_began_ns = 0;
}

void pb_torch_on_enter(struct pb_torch *t, struct _object *name, struct _object *record)
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
        t->loss.done = t->loss_whole = true;
    if (!s || strncmp(s, prefix, sizeof prefix - 1) != 0)
        return;
    began = pb_clock_ns();
    optimizer = pb_torch_step_optimizer(t);
    if (optimizer && t->on) {
        t->step_record = record;
        t->step_frame = NULL;
        t->step_error = handled(py);
        step_begins(t, optimizer);
        t->sums.own_ns += t->optimizer_began_ns - began;
        py->PyErr_Clear();
    }
}

void pb_torch_on_exit(struct pb_torch *t)
{
    t->step_record = NULL;
    step_returns(t);
    t->self->py.PyErr_Clear();
}

/* The first time in the wrapper's call it begins, the second time it ends. */
void pb_torch_on_grad_mode(struct pb_torch *t)
{
    const struct pb_py *py = &t->self->py;
    struct _object *frame = pb_torch_frame(py, 1);
    struct _object *code = frame ? py->PyObject_GetAttrString(frame, "f_code") : NULL;
    struct _object *optimizer;

    py->PyErr_Clear();
    if (code && code == t->step_code && t->on) {
        if (t->step_frame == frame) {
            t->step_frame = NULL;
            step_returns(t);
        } else if ((optimizer = pb_torch_frame_optimizer(t, frame)) && t->on) {
            t->step_frame = frame;
            t->step_error = handled(py);
            step_begins(t, optimizer);
        }
    }
    py->PyErr_Clear();
    py->Py_DecRef(code);
    py->Py_DecRef(frame);
}

/* (optimizer, args, kwargs) */
static struct _object *on_step_begins(struct _object *unused, struct _object *args)
{
    struct pb_torch *t = pb_torch_state(pb_self());
    const struct pb_py *py = &t->self->py;

    (void)unused;
    if (py->PyTuple_Size(args) > 0)
        step_begins(t, py->PyTuple_GetItem(args, 0));
    return py->Py_BuildValue("");
}

static struct _object *on_step_ended(struct _object *unused, struct _object *args)
{
    struct pb_torch *t = pb_torch_state(pb_self());
    const struct pb_py *py = &t->self->py;

    (void)unused;
    if (py->PyTuple_Size(args) > 0)
        step_ends(t, py->PyTuple_GetItem(args, 0));
    py->PyErr_Clear();
    return py->Py_BuildValue("");
}

/* Python keeps pointers to these. */
static struct pb_py_method methods[2] = {
    {"probing_step_begins", on_step_begins, PB_PY_VARARGS, NULL},
    {"probing_step_ended", on_step_ended, PB_PY_VARARGS, NULL},
};

static bool hook(struct pb_torch *t)
{
    static const char *const names[2] = {"register_optimizer_step_pre_hook",
                                         "register_optimizer_step_post_hook"};
    const struct pb_py *py = &t->self->py;
    struct _object *module;

    if (t->handles[0])
        return true; /* in a forked child: the parent's */
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
    return t->handles[0] && t->handles[1];
}

/* The code of the function that is made inside of this one; a new reference, or NULL. */
static struct _object *code_inside(struct pb_torch *t, const char *name)
{
    const struct pb_py *py = &t->self->py;
    struct _object *maker = pb_torch_attribute(py, "torch.optim.optimizer", name);
    struct _object *code = maker ? py->PyObject_GetAttrString(maker, "__code__") : NULL;
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
    py->Py_DecRef(maker);
    return found;
}

/* Has the compiler done anything in this process? */
void pb_torch_steps_look(struct pb_torch *t)
{
    const struct pb_py *py = &t->self->py;
    struct _object *counters;

    if (t->compiling || !t->step_code)
        return;
    counters = pb_torch_attribute(py, "torch._dynamo.utils", "counters");
    t->compiling = counters && py->PyDict_Size(counters) > 0;
    py->PyErr_Clear();
    py->Py_DecRef(counters);
    if (t->compiling)
        pb_torch_builtin_put(t, PB_TORCH_BUILTIN_GRAD_MODE);
}

/* Torch has two ways of telling its profiler; 1.13 and some programs use the older one. */
static bool see(struct pb_torch *t)
{
    bool now = pb_torch_builtin_put(t, PB_TORCH_BUILTIN_ENTER) &&
               pb_torch_builtin_put(t, PB_TORCH_BUILTIN_EXIT);
    bool old = pb_torch_builtin_put(t, PB_TORCH_BUILTIN_ENTER_OLD) &&
               pb_torch_builtin_put(t, PB_TORCH_BUILTIN_EXIT_OLD);

    return now || old;
}

int pb_torch_steps_enter(struct pb_torch *t, struct pb_err *err)
{
    t->stepping = t->step_record = t->step_frame = NULL;
    t->compiling = false;
    if (!t->optimizer_type)
        t->optimizer_type = pb_torch_attribute(&t->self->py, "torch.optim.optimizer", "Optimizer");
    if (!t->step_code)
        t->step_code = code_inside(t, "_use_grad_for_differentiable");
    if (t->optimizer_type && see(t)) {
        pb_torch_steps_look(t);
        return 0;
    }
    if (hook(t))
        return 0;
    pb_torch_steps_leave(t);
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
    py->Py_DecRef(t->named_type);
    py->Py_DecRef(t->seat.code);
    t->seat = (struct pb_torch_seat){0};
    t->named_type = NULL;
    t->main_weak = NULL;
    for (int i = 0; i < PB_TORCH_OPTIMIZERS; i++) {
        struct _object *weak = t->optimizers[i].weak;

        t->optimizers[i] = (struct pb_torch_optimizer){0};
        py->Py_DecRef(weak);
    }
}
