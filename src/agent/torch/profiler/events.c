#include "agent/torch/profiler/events.h"

#include "agent/comm/comm.h"
#include "agent/torch/torch.h"

bool pb_torch_listen(struct pb_self *self, struct _object *function)
{
    struct pb_torch *t = pb_torch_state(self);
    struct _object *old;

    if (!t || (function && !t->on))
        return false;
    old = t->events.listener;
    self->py.Py_IncRef(function);
    t->events.listener = function;
    self->py.Py_DecRef(old);
    return true;
}

void pb_torch_notify(struct pb_torch *t, enum pb_torch_event event)
{
    const struct pb_py *py = &t->self->py;
    struct _object *function = t->events.listener;

    if (!function)
        return;
    /* The function may end its own listening meanwhile. */
    py->Py_IncRef(function);
    py->Py_DecRef(py->PyObject_CallFunction(function, "i", (int)event));
    py->PyErr_Clear();
    py->Py_DecRef(function);
}

void pb_torch_place(struct pb_self *self, int64_t *ret_step, int64_t *ret_collectives)
{
    const struct pb_torch *t = pb_torch_state(self);

    *ret_step = t && t->on ? t->steps.number : -1;
    *ret_collectives = t && t->on ? pb_comm_collectives(self) : -1;
}

void pb_torch_set_profiled(struct pb_self *self, bool on)
{
    struct pb_torch *t = pb_torch_state(self);

    if (!t)
        return;
    t->events.profiling = on;
    t->events.step_profiled |= on;
}
