#include "agent/torch/steps/manual.h"

#include "agent/comm/comm.h"
#include "agent/torch/torch.h"

/* So long after the last backward, and four steps more, its step has ended. */
#define LONG_NS UINT64_C(1000000000)

/* Borrowed: the module that the backward pass is of, or NULL. */
static struct _object *model_of(const struct pb_torch *t)
{
    struct _object *object = t->backward.model ? t->backward.model->object : NULL;

    return (uintptr_t)object > (uintptr_t)PB_TORCH_GONE ? object : NULL;
}

/* Whether the gradients of the pass have been used. */
static bool are_used(struct pb_torch *t)
{
    const struct pb_py *py = &t->self->py;
    const struct pb_torch_manual *m = &t->manual;
    struct _object *parameter = m->has_probe ? pb_py_referent(py, m->weak) : NULL;
    struct _object *grad = parameter ? pb_torch_gradient(t, parameter) : NULL;
    bool used = !grad || grad != m->grad || pb_py_int(py, grad, "_version") != m->grad_version ||
                pb_py_int(py, parameter, "_version") != m->version;

    py->Py_DecRef(grad);
    py->Py_DecRef(parameter);
    return used;
}

/* Remembers how a parameter and its gradient are now: mostly the same one as the last time. */
static void set_probe(struct pb_torch *t)
{
    const struct pb_py *py = &t->self->py;
    struct pb_torch_manual *m = &t->manual;
    struct _object *parameter = pb_py_referent(py, m->weak), *model = model_of(t), *grad;
    struct _object *old = m->weak;

    grad = parameter ? pb_torch_gradient(t, parameter) : NULL;
    if (!grad) {
        py->Py_DecRef(parameter);
        parameter = model ? pb_torch_find_gradient(t, model, NULL) : NULL;
        grad = parameter ? pb_torch_gradient(t, parameter) : NULL;
        m->weak = parameter ? py->PyWeakref_NewRef(parameter, NULL) : NULL;
        py->PyErr_Clear();
        py->Py_DecRef(old);
    }
    m->has_probe = grad && m->weak;
    if (m->has_probe) {
        m->grad = grad;
        m->grad_version = pb_py_int(py, grad, "_version");
        m->version = pb_py_int(py, parameter, "_version");
    }
    py->Py_DecRef(grad);
    py->Py_DecRef(parameter);
}

/* The step has ended. here: this is the thread that makes the steps. */
static void end_step(struct pb_torch *t, bool here)
{
    t->manual.ends = true;
    pb_torch_steps_end_manual(t);
    t->manual.pending = t->manual.asked = false;
    if (here)
        pb_torch_notify(t, PB_TORCH_EVENT_STEP);
}

/* Without gradients the program has not called backward before the collector came. */
static void check_first(struct pb_torch *t)
{
    struct _object *model = model_of(t), *found;
    bool searched;

    if (!model)
        return;
    found = pb_torch_find_gradient(t, model, &searched);
    t->loss.complete = !found && searched;
    t->self->py.Py_DecRef(found);
}

void pb_torch_manual_before_backward(struct pb_torch *t)
{
    uint64_t began;

    if (t->steps.ended_ns && !t->manual.pending)
        return;
    began = pb_clock_ns();
    if (!t->steps.ended_ns && !t->loss.complete && !t->loss.current.n)
        check_first(t);
    if (t->on && t->manual.pending && (!model_of(t) || are_used(t)) && t->on) {
        /* The model was called since, and gradients had not been used by then. */
        t->manual.by_forward |= t->manual.asked;
        end_step(t, true);
    }
    pb_torch_add_own_time(t, began);
}

/* Of a step that was under way when the collector came nothing but its passes is seen. */
static bool is_for_optimizer(struct pb_torch *t)
{
    if (t->optimizers.began_ns || (t->optimizers.seen && pb_torch_optimizer_main(t)))
        return true;
    if (!t->manual.outside)
        t->manual.outside = t->optimizers.seen || !pb_torch_steps_within(t);
    return !t->manual.outside;
}

void pb_torch_manual_after_backward(struct pb_torch *t, uint64_t now)
{
    struct pb_torch_manual *m = &t->manual;
    uint64_t began;

    if (is_for_optimizer(t))
        return;
    began = pb_clock_ns();
    set_probe(t);
    if (!t->on)
        return;
    m->pending = true;
    m->asked = false;
    m->ended_ns = now;
    m->parts_ns = t->steps.parts_ns;
    m->comm_ns = pb_comm_elapsed_ns(t->self, now) + t->steps.carried_comm_ns;
    pb_torch_loaders_measure(t, &m->batches);
    m->epoch = t->steps.epoch;
    m->collectives = pb_comm_collectives(t->self);
    m->sums = t->steps.sums;
    pb_torch_add_own_time(t, began);
}

void pb_torch_manual_before_forward(struct pb_torch *t, struct _object *module)
{
    const struct pb_torch_module *m = pb_torch_module_find(t, module);
    uint64_t began;

    /* A loss has nothing of its own to train. */
    if (!m || (!m->has_children && !m->has_parameters) || !pb_torch_steps_is_thread(t) ||
        pb_torch_in_pass(t) || t->norm.unscale.state != PB_CUDA_NONE)
        return;
    began = pb_clock_ns();
    if ((t->manual.by_forward || are_used(t)) && t->on)
        end_step(t, true);
    else
        t->manual.asked = true;
    pb_torch_add_own_time(t, began);
}

void pb_torch_manual_poll(struct pb_torch *t, uint64_t now)
{
    if (t->manual.pending && t->manual.ends && !t->backward.passes &&
        now - t->manual.ended_ns > LONG_NS + 4 * t->steps.took_ns &&
        (!model_of(t) || are_used(t)))
        end_step(t, false);
}

void pb_torch_manual_drop(struct pb_torch *t)
{
    t->manual.pending = t->manual.ends = t->manual.by_forward = t->manual.asked = false;
}

void pb_torch_manual_leave(struct pb_torch *t)
{
    struct _object *weak = t->manual.weak;

    t->manual = (struct pb_torch_manual){0};
    t->self->py.Py_DecRef(weak);
}
