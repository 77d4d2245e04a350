#include "agent/torch/backward/backward.h"

#include <string.h>
#include <sys/prctl.h>

#include "agent/collectors/collect.h"
#include "agent/torch/backward/grad.h"
#include "agent/torch/torch.h"
#include "agent/core/gil_tasks.h"

/* torch.autograd.grad goes through the engine, too, and is no backward pass of a step. */
static bool accumulates(const struct pb_torch *t, struct _object *kwargs)
{
    const struct pb_py *py = &t->self->py;
    struct _object *name = t->values.name_accumulate_grad;
    struct _object *flag = kwargs ? py->PyDict_GetItem(kwargs, name) : NULL;

    return !flag || py->PyObject_IsTrue(flag) == 1;
}

bool pb_torch_in_pass(const struct pb_torch *t)
{
    char name[17] = "";

    if (!t->backward.passes)
        return false;
    return pthread_equal(t->backward.thread, pthread_self()) ||
           (prctl(PR_GET_NAME, name) == 0 && strncmp(name, "pt_autograd", 11) == 0);
}

/* Passes of several threads overlap: the part is the time with any of them under way. */
static void begin_pass(struct pb_torch *t, uint64_t now)
{
    if (t->backward.passes++)
        return;
    pb_torch_part_begin(t, &t->backward.part, now);
    t->backward.thread = pthread_self();
}

static void end_pass(struct pb_torch *t, uint64_t now, bool good)
{
    if (!t->backward.passes || --t->backward.passes || !good || !t->on)
        return;
    t->steps.sums.backward_ns += pb_torch_part_end(t, &t->backward.part, now);
}

/* Before the pass: torch has just read the same tensor, which is in the caches. */
static void read_loss(struct pb_torch *t, struct _object *args)
{
    const struct pb_py *py = &t->self->py;
    struct _object *outputs = py->PyTuple_Size(args) > 0 ? py->PyTuple_GetItem(args, 0) : NULL;
    struct _object *loss = outputs && py->PyTuple_Size(outputs) > 0
                               ? py->PyTuple_GetItem(outputs, 0) : NULL;

    py->PyErr_Clear();
    /* A second backward within step(): a closure that is called again, each time for itself. */
    if (t->optimizers.began_ns && t->steps.sums.backwards > t->optimizers.backwards_before)
        t->loss.current.done = true;
    if (loss)
        pb_torch_loss_add(t, loss);
}

/* A pass has ended well. */
static void count_pass(struct pb_torch *t, struct pb_torch_stage *stage)
{
    const struct pb_torch_module *m = t->backward.model;

    t->steps.sums.backwards++;
    if (t->tracing && m) {
        stage->name = m->name;
        stage->type = m->type;
        stage->label = m->label;
        pb_torch_trace_stage(t, stage);
    }
    /* If it was scaled, that will be seen before the step. */
    pb_cuda_arrived(&t->cuda, &t->norm.unscale, true);
    t->norm.unscale = (struct pb_cuda_value){0};
    pb_torch_loaders_backward(t);
    pb_torch_steps_claim_thread(t);
    pb_torch_manual_after_backward(t, stage->ended_ns);
}

static struct _object *call_original(const struct pb_torch *t, struct _object *args,
                                     struct _object *kwargs)
{
    const struct pb_py *py = &t->self->py;
    struct _object *original = t->backward.run, *result;

    py->Py_IncRef(original);
    result = py->PyObject_Call(original, args, kwargs);
    py->Py_DecRef(original);
    return result;
}

/* A pass that is part of a step. */
static struct _object *run_counted(struct pb_torch *t, struct _object *args, struct _object *kwargs)
{
    struct pb_progress_thread *progress = pb_progress_thread(t->self);
    struct pb_progress_before before;
    struct pb_torch_stage stage = {.stage = t->trace.backward,
                                   .operation = t->trace.backward_operation,
                                   .inside_ns = UINT64_MAX, .span = -1};
    struct _object *result;
    bool split;

    pb_torch_steps_trains(t);
    pb_torch_manual_before_backward(t);
    if (t->on)
        read_loss(t, args);
    if (t->on && t->tracing)
        stage.span = pb_torch_span_begin(t);
    split = t->splitting && t->on && pb_grad_pass_begins(t);
    stage.bytes_before = pb_torch_memory_bytes(&t->memory);
    stage.began_ns = pb_clock_ns();
    begin_pass(t, stage.began_ns);
    before = pb_progress_begin(progress, PB_PHASE_BACKWARD, stage.began_ns);
    result = call_original(t, args, kwargs);
    pb_progress_end(progress, &before);
    stage.ended_ns = pb_clock_ns();
    end_pass(t, stage.ended_ns, result != NULL);
    if (split)
        stage.inside_ns = pb_grad_pass_ends(t, result != NULL);
    if (result) {
        if (!t->backward.engine_ran)
            pb_gil_task_add(t->self, PB_GIL_TASK_COLLECT); /* grad.h has waited for it */
        t->backward.engine_ran = true;
        if (t->on)
            count_pass(t, &stage);
    } else if (t->on) {
        pb_torch_oom_check(t, NULL, stage.began_ns);
    }
    pb_torch_optimizers_pass_ended(t, result ? stage.ended_ns : 0);
    return result;
}

/* run_backward of our engine. */
static struct _object *run(struct _object *unused, struct _object *args, struct _object *kwargs)
{
    struct pb_torch *t = pb_torch_state(pb_self());

    (void)unused;
    pb_grad_pass_disturbed(t);
    /* A pass inside of another, as with checkpoints of the older kind, is part of that. */
    if (t->on && accumulates(t, kwargs) && !pb_torch_in_pass(t))
        return run_counted(t, args, kwargs);
    return call_original(t, args, kwargs);
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

static int rank_of(const struct pb_torch_module *m)
{
    return m->has_children ? 2 : m->has_parameters ? 1 : 0;
}

/*
 * A pass goes by the name of the model: not by that of a loss after it, nor by that of a module
 * which has no part in it, being called without gradients.
 */
void pb_torch_backward_choose_model(struct pb_torch *t, struct pb_torch_module *m, bool training)
{
    struct pb_torch_backward *b = &t->backward;

    if (b->model && !b->model_is_old && (!training || rank_of(m) < rank_of(b->model)))
        return;
    b->model = m;
    b->model_is_old = !training;
}

/* The original engine and ours, made once. */
static void find_engine(struct pb_torch *t)
{
    const struct pb_py *py = &t->self->py;
    struct pb_torch_backward *b = &t->backward;
    struct _object *module = pb_collect_module(t->self, "torch.autograd.variable");

    if (!b->variable_type)
        b->variable_type = module ? py->PyObject_GetAttrString(module, "Variable") : NULL;
    if (!b->engine && b->variable_type)
        b->engine = py->PyObject_GetAttrString(b->variable_type, "_execution_engine");
    if (!b->run)
        b->run = b->engine ? py->PyObject_GetAttrString(b->engine, "run_backward") : NULL;
    if (!b->proxy)
        b->proxy = b->run ? make_proxy(py, b->engine) : NULL;
    py->PyErr_Clear();
    py->Py_DecRef(module);
}

int pb_torch_backward_enter(struct pb_torch *t, struct pb_err *err)
{
    const struct pb_py *py = &t->self->py;
    struct pb_torch_backward *b = &t->backward;

    find_engine(t);
    b->installed = b->proxy && py->PyObject_SetAttrString(b->variable_type, "_execution_engine",
                                                          b->proxy) == 0;
    py->PyErr_Clear();
    return b->installed ? 0 : pb_err_set(err, PB_FAIL, "autograd's engine was not found");
}

void pb_torch_backward_leave(struct pb_torch *t)
{
    const struct pb_py *py = &t->self->py;
    struct pb_torch_backward *b = &t->backward;
    struct _object *now = NULL;

    if (b->installed)
        now = py->PyObject_GetAttrString(b->variable_type, "_execution_engine");
    if (now && now == b->proxy)
        py->PyObject_SetAttrString(b->variable_type, "_execution_engine", b->engine);
    py->PyErr_Clear();
    py->Py_DecRef(now);
    b->installed = false;
}
