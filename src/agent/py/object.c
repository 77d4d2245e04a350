#include "agent/py/object.h"

#include <stddef.h>

struct _object *pb_py_loaded(const struct pb_py *py, const char *module)
{
    struct _object *modules = py->PyImport_GetModuleDict();

    return modules ? py->PyDict_GetItemString(modules, module) : NULL;
}

struct _object *pb_py_attribute(const struct pb_py *py, const char *module, const char *name)
{
    struct _object *m = pb_py_loaded(py, module);
    struct _object *value = m ? py->PyObject_GetAttrString(m, name) : NULL;

    py->PyErr_Clear();
    return value;
}

struct _object *pb_py_call(const struct pb_py *py, struct _object *object, const char *name)
{
    struct _object *method = py->PyObject_GetAttrString(object, name);
    struct _object *value = method ? py->PyObject_CallFunctionObjArgs(method, NULL) : NULL;

    py->PyErr_Clear();
    py->Py_DecRef(method);
    return value;
}

/* Takes over the reference. */
static int64_t consume_int(const struct pb_py *py, struct _object *value)
{
    int64_t n = value ? py->PyLong_AsLongLong(value) : -1;

    if (n == -1)
        py->PyErr_Clear();
    py->Py_DecRef(value);
    return n;
}

int64_t pb_py_int(const struct pb_py *py, struct _object *object, const char *name)
{
    return consume_int(py, py->PyObject_GetAttrString(object, name));
}

int64_t pb_py_call_int(const struct pb_py *py, struct _object *object, const char *name)
{
    return consume_int(py, pb_py_call(py, object, name));
}

bool pb_py_consume_true(const struct pb_py *py, struct _object *object)
{
    bool yes = object && py->PyObject_IsTrue(object) == 1;

    if (!yes)
        py->PyErr_Clear();
    py->Py_DecRef(object);
    return yes;
}

struct _object *pb_py_referent(const struct pb_py *py, struct _object *weak)
{
    struct _object *object = weak ? py->PyObject_CallFunctionObjArgs(weak, NULL) : NULL;

    if (object != py->none) {
        if (!object)
            py->PyErr_Clear();
        return object;
    }
    py->Py_DecRef(object);
    return NULL;
}

struct _object *pb_py_peek_referent(const struct pb_py *py, struct _object *weak)
{
    struct _object *object;

    if (weak && py->PyWeakref_GetObject) {
        object = py->PyWeakref_GetObject(weak);
        if (!object)
            py->PyErr_Clear();
        return object != py->none ? object : NULL;
    }
    object = pb_py_referent(py, weak);
    py->Py_DecRef(object);
    return object;
}
