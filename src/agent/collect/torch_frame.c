/* Python functions that are being called, seen from the C function that the innermost one calls. */
#include "agent/collect/torch.h"

#define DEPTH_MAX 200

struct _object *pb_torch_frame(const struct pb_py *py, int depth)
{
    struct _object *frame = py->PyEval_GetFrame();

    py->Py_IncRef(frame);
    while (frame && depth-- > 0) {
        struct _object *back = py->PyObject_GetAttrString(frame, "f_back");

        py->Py_DecRef(frame);
        frame = back;
    }
    py->PyErr_Clear();
    return frame;
}

bool pb_torch_called_from(struct pb_torch *t, const struct _object *globals)
{
    const struct pb_py *py = &t->self->py;
    bool yes = false;

    for (int depth = 0; depth < 2 && !yes && globals; depth++) {
        struct _object *frame = pb_torch_frame(py, depth);
        struct _object *its = frame ? py->PyObject_GetAttrString(frame, "f_globals") : NULL;

        yes = its && its == globals;
        py->PyErr_Clear();
        py->Py_DecRef(its);
        py->Py_DecRef(frame);
    }
    return yes;
}

bool pb_torch_called_within(struct pb_torch *t)
{
    const struct pb_py *py = &t->self->py;
    struct _object *function = py->PyObject_GetAttrString(t->module_type, "__call__");
    struct _object *call = function ? py->PyObject_GetAttrString(function, "__code__") : NULL;
    struct _object *frame = call ? pb_torch_frame(py, 0) : NULL, *code, *back;
    bool within = false;

    for (int depth = 0; frame && !within && depth < DEPTH_MAX; depth++) {
        code = py->PyObject_GetAttrString(frame, "f_code");
        within = code && code == call;
        back = py->PyObject_GetAttrString(frame, "f_back");
        py->PyErr_Clear();
        py->Py_DecRef(code);
        py->Py_DecRef(frame);
        frame = back;
    }
    py->PyErr_Clear();
    py->Py_DecRef(frame);
    py->Py_DecRef(call);
    py->Py_DecRef(function);
    return within;
}

struct _object *pb_torch_frame_optimizer(struct pb_torch *t, struct _object *frame)
{
    static const char *const names[] = {"self", "obj"}; /* in torch 1.13 */
    const struct pb_py *py = &t->self->py;
    struct _object *locals = frame ? py->PyObject_GetAttrString(frame, "f_locals") : NULL;
    struct _object *found = NULL;

    py->PyErr_Clear();
    for (size_t i = 0; locals && !found && i < sizeof names / sizeof *names; i++) {
        struct _object *value = py->PyMapping_GetItemString(locals, names[i]);
        struct _object *type = value ? py->PyObject_Type(value) : NULL;

        if (type && py->PyType_IsSubtype(type, t->optimizer_type))
            found = value;
        py->PyErr_Clear();
        py->Py_DecRef(type);
        py->Py_DecRef(value);
    }
    py->Py_DecRef(locals);
    return found;
}
