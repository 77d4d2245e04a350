/* Backward passes: an object in place of autograd's engine that takes the time. */
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>

#include "agent/chores.h"
#include "agent/collect/collect.h"
#include "agent/collect/torch/grad.h"
#include "agent/collect/torch/torch.h"
#include "base/clock.h"

/*
 * torch looks the engine up in the class Variable at every backward and calls run_backward. Ours
 * is a subclass of the engine's own type, which has no state of its own, so whatever else is
 * asked of it (queue_callback) goes where it always went.
 */

/* torch.autograd.grad goes through the engine, too, and is no backward pass of a step. */
static bool accumulates(const struct pb_torch *t, struct _object *kwargs)
{
    const struct pb_py *py = &t->self->py;
    struct _object *flag = kwargs ? py->PyDict_GetItem(kwargs, t->word_accumulate) : NULL;

    return !flag || py->PyObject_IsTrue(flag) == 1;
}

/* On a GPU it is torch's own thread that runs it. */
bool pb_torch_in_pass(const struct pb_torch *t)
{
    char name[17] = "";

    if (!t->passes)
        return false;
    return pthread_equal(t->pass_thread, pthread_self()) ||
           (prctl(PR_GET_NAME, name) == 0 && strncmp(name, "pt_autograd", 11) == 0);
}

/* Time with any of them under way: in several threads they overlap. */
static void begins(struct pb_torch *t, uint64_t now)
{
    if (t->passes++)
        return;
    pb_torch_part_begins(t, &t->passes_part, now);
    t->pass_thread = pthread_self();
}

static void ends(struct pb_torch *t, uint64_t now, bool good)
{
    if (!t->passes || --t->passes || !good || !t->on)
        return;
    t->sums.backward_ns += pb_torch_part_ends(t, &t->passes_part, now);
}

/* Before the pass: torch has just asked the same things of it, and knows where the answers are. */
static void note_loss(struct pb_torch *t, struct _object *args)
{
    const struct pb_py *py = &t->self->py;
    struct _object *outputs = py->PyTuple_Size(args) > 0 ? py->PyTuple_GetItem(args, 0) : NULL;
    struct _object *loss = outputs && py->PyTuple_Size(outputs) > 0
                               ? py->PyTuple_GetItem(outputs, 0) : NULL;

    py->PyErr_Clear();
    /* Again within one step: a closure that is called several times, each time for itself. */
    if (t->optimizer_began_ns && t->sums.backwards > t->step_backwards)
        t->loss.done = true;
    if (loss)
        pb_torch_loss_add(t, loss);
}

static void passed(struct pb_torch *t, uint64_t began, uint64_t now, uint64_t inside,
                   int64_t bytes, int span)
{
    t->sums.backwards++;
    if (t->tracing && t->last_root)
        pb_torch_trace(t, t->last_root, t->stage_backward, t->operation_backward, began, now,
                       inside, bytes, span);
    /* If it was scaled, that will be seen before the step. */
    pb_cuda_arrived(&t->cuda, &t->unscale, true);
    t->unscale = (struct pb_cuda_value){0};
    pb_torch_feed_backward(t);
    pb_torch_steps_are_here(t);
    pb_torch_hand_passed(t, now);
}

static struct _object *call(const struct pb_torch *t, struct _object *args, struct _object *kwargs)
{
    const struct pb_py *py = &t->self->py;
    struct _object *original = t->run_backward, *result;

    py->Py_IncRef(original);
    result = py->PyObject_Call(original, args, kwargs);
    py->Py_DecRef(original);
    return result;
}

/* A pass that counts. */
static struct _object *watch(struct pb_torch *t, struct _object *args, struct _object *kwargs)
{
    struct _object *result;
    uint64_t began, now, inside = UINT64_MAX;
    int64_t bytes;
    bool noted;
    int span;

    pb_torch_hand_backward(t);
    if (t->on)
        note_loss(t, args);
    span = t->on && t->tracing ? pb_torch_span_begins(t) : -1;
    noted = t->ranging && t->on && pb_grad_pass_begins(t);
    bytes = pb_alloc_bytes(&t->alloc);
    began = pb_clock_ns();
    begins(t, began);
    result = call(t, args, kwargs);
    now = pb_clock_ns();
    ends(t, now, result != NULL);
    if (noted)
        inside = pb_grad_pass_ends(t, result != NULL);
    if (result) {
        if (!t->engine_runs)
            pb_chores_add(t->self, PB_CHORE_COLLECT); /* grad.h has waited for it */
        t->engine_runs = true;
        if (t->on)
            passed(t, began, now, inside, bytes, span);
    } else if (t->on) {
        pb_torch_oom_check(t, NULL, began);
    }
    return result;
}

static struct _object *run(struct _object *unused, struct _object *args, struct _object *kwargs)
{
    struct pb_torch *t = pb_torch_state(pb_self());

    (void)unused;
    pb_grad_pass_disturbed(t);
    /* One inside of another, as with checkpoints of the older kind, is part of that one's time. */
    if (t->on && accumulates(t, kwargs) && !pb_torch_in_pass(t))
        return watch(t, args, kwargs);
    return call(t, args, kwargs);
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
