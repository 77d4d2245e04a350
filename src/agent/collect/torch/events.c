#include "agent/collect/torch/events.h"

#include "agent/collect/torch/torch.h"

bool pb_torch_listen(struct pb_self *self, struct _object *function)
{
    struct pb_torch *t = pb_torch_state(self);
    struct _object *old;

    if (!t || (function && !t->on))
        return false;
    old = t->listener;
    self->py.Py_IncRef(function);
    t->listener = function;
    self->py.Py_DecRef(old);
    return true;
}

void pb_torch_tell(struct pb_torch *t, enum pb_torch_event event)
{
    const struct pb_py *py = &t->self->py;
    struct _object *function = t->listener;

    if (!function)
        return;
    /* The function may end its own listening meanwhile. */
    py->Py_IncRef(function);
    py->Py_DecRef(py->PyObject_CallFunction(function, "i", (int)event));
    py->PyErr_Clear();
    py->Py_DecRef(function);
}

void pb_torch_set_profiled(struct pb_self *self, bool on)
{
    struct pb_torch *t = pb_torch_state(self);

    if (!t)
        return;
    t->profiling = on;
    t->step_profiled |= on;
}
