#include "agent/collectors/native/cuda_memory.h"

#include <stddef.h>

#include "agent/py/object.h"

enum { DEVICES_MAX = 16 };

/* Statistics of one device as a dict, or NULL. */
static struct _object *device_stats(const struct pb_py *py, struct _object *native, int device)
{
    struct _object *f = py->PyObject_GetAttrString(native, "_cuda_memoryStats");
    struct _object *value = f ? py->PyObject_CallFunction(f, "(i)", device) : NULL;

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

bool pb_cuda_memory(const struct pb_py *py, struct pb_cuda_memory *ret)
{
    struct _object *cuda = pb_py_loaded(py, "torch.cuda"), *native = pb_py_loaded(py, "torch._C");
    bool any = false;
    int64_t n;

    *ret = (struct pb_cuda_memory){0};
    if (!cuda || !native || !pb_py_consume_true(py, pb_py_call(py, cuda, "is_initialized")))
        return false;
    n = pb_py_call_int(py, native, "_cuda_getDeviceCount");
    for (int i = 0; i < n && i < DEVICES_MAX; i++) {
        struct _object *stats = device_stats(py, native, i);

        if (!stats)
            continue;
        any = true;
        ret->allocated += number(py, stats, "allocated_bytes", "current");
        ret->reserved += number(py, stats, "reserved_bytes", "current");
        ret->peak += number(py, stats, "allocated_bytes", "peak");
        py->Py_DecRef(stats);
    }
    return any;
}
