#include "agent/collect/cuda.h"

#include <stddef.h>

enum { DEVICES_MAX = 16 };

/* A module that is loaded already; borrowed. */
static struct _object *loaded(const struct pb_py *py, const char *name)
{
    struct _object *modules = py->PyImport_GetModuleDict();

    return modules ? py->PyDict_GetItemString(modules, name) : NULL;
}

/* What object.name(…) gives; NULL when there is no such thing or it raises. */
static struct _object *call(const struct pb_py *py, struct _object *object, const char *name,
                            const char *format, int arg)
{
    struct _object *f = py->PyObject_GetAttrString(object, name);
    struct _object *value = f ? py->PyObject_CallFunction(f, format, arg) : NULL;

    py->PyErr_Clear();
    py->Py_DecRef(f);
    return value;
}

/* stats[kind]["all"][which], or 0. */
static double number(const struct pb_py *py, struct _object *stats, const char *kind,
                     const char *which)
{
    struct _object *group = py->PyDict_GetItemString(stats, kind);
    struct _object *all = group ? py->PyDict_GetItemString(group, "all") : NULL;
    struct _object *value = all ? py->PyDict_GetItemString(all, which) : NULL;
    double v = value ? py->PyFloat_AsDouble(value) : 0;

    if (py->PyErr_Occurred())
        v = 0;
    py->PyErr_Clear();
    return v;
}

static bool is_initialised(const struct pb_py *py, struct _object *cuda)
{
    struct _object *answer = call(py, cuda, "is_initialized", NULL, 0);
    bool yes = answer && py->PyObject_IsTrue(answer) == 1;

    py->Py_DecRef(answer);
    return yes;
}

static long long count_devices(const struct pb_py *py, struct _object *native)
{
    struct _object *answer = call(py, native, "_cuda_getDeviceCount", NULL, 0);
    long long n = answer ? py->PyLong_AsLongLong(answer) : 0;

    py->PyErr_Clear();
    py->Py_DecRef(answer);
    return n < DEVICES_MAX ? n : DEVICES_MAX;
}

bool pb_cuda_memory(const struct pb_py *py, struct pb_cuda_memory *ret)
{
    struct _object *cuda = loaded(py, "torch.cuda"), *native = loaded(py, "torch._C");
    bool any = false;
    long long n;

    *ret = (struct pb_cuda_memory){0};
    if (!cuda || !native || !is_initialised(py, cuda))
        return false;
    n = count_devices(py, native);
    for (int i = 0; i < n; i++) {
        struct _object *stats = call(py, native, "_cuda_memoryStats", "(i)", i);

        if (!stats)
            continue;
        any = true;
        ret->allocated += number(py, stats, "allocated_bytes", "current");
        ret->reserved += number(py, stats, "reserved_bytes", "current");
        ret->most += number(py, stats, "allocated_bytes", "peak");
        py->Py_DecRef(stats);
    }
    return any;
}
