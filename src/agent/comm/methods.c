/* Methods of torch's C++ classes, and ours in their place. */
#include "agent/comm/comm.h"

/* What stands in the class itself, not in its bases; a new reference, or NULL. */
static struct _object *own_attribute(const struct pb_py *py, struct _object *type,
                                     const char *name)
{
    struct _object *dict = py->PyObject_GetAttrString(type, "__dict__");
    struct _object *get = dict ? py->PyObject_GetAttrString(dict, "get") : NULL;
    struct _object *value = get ? py->PyObject_CallFunction(get, "s", name) : NULL;

    py->PyErr_Clear();
    py->Py_DecRef(get);
    py->Py_DecRef(dict);
    if (value != py->none)
        return value;
    py->Py_DecRef(value);
    return NULL;
}

static void make(const struct pb_py *py, struct pb_comm_method *m, struct _object *type,
                 struct pb_py_method *def, size_t number)
{
    struct _object *index = py->Py_BuildValue("n", (ssize_t)number);
    struct _object *function = index ? py->PyCFunction_NewEx(def, index, NULL) : NULL;

    m->original = own_attribute(py, type, def->name);
    m->call = m->original ? py->PyObject_GetAttrString(type, def->name) : NULL;
    m->ours = m->call && function ? py->PyInstanceMethod_New(function) : NULL;
    m->type = type;
    py->Py_IncRef(type);
    py->PyErr_Clear();
    py->Py_DecRef(function);
    py->Py_DecRef(index);
}

bool pb_comm_method_install(const struct pb_py *py, struct pb_comm_method *m, struct _object *type,
                        struct pb_py_method *def, size_t number)
{
    if (!m->type)
        make(py, m, type, def, number);
    if (!m->ours || py->PyObject_SetAttrString(m->type, def->name, m->ours) < 0) {
        py->PyErr_Clear();
        return false;
    }
    return true;
}

void pb_comm_method_restore(const struct pb_py *py, struct pb_comm_method *m,
                              const char *name)
{
    struct _object *now = m->ours ? own_attribute(py, m->type, name) : NULL;

    if (now && now == m->ours)
        py->PyObject_SetAttrString(m->type, name, m->original);
    py->PyErr_Clear();
    py->Py_DecRef(now);
}
