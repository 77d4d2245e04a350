#include "agent/profile.h"

#include <string.h>

#include "agent/collectors/collect.h"
#include "agent/torch/profiler/count.h"
#include "agent/torch/profiler/events.h"
#include "agent/core/self.h"
#include "base/clock.h"
#include "schema/python_profile_ops.h"
#include "schema/table.h"

PB_TABLE_COLUMNS(PB_PYTHON_PROFILE_OPS);
static const struct pb_ring_spec table = {
    PB_TABLE_SPEC(PB_PYTHON_PROFILE_OPS_NAME, PB_PYTHON_PROFILE_OPS_DOC),
    .rows = 4096,
    .flags = PB_RING_KEEP,
};

static struct _object *call_listen(struct _object *module, struct _object *args)
{
    struct pb_self *self = pb_self();
    struct _object *function;

    (void)module;
    if (!self->py.PyArg_ParseTuple(args, "O", &function))
        return NULL;
    if (function == self->py.none)
        function = NULL;
    return self->py.Py_BuildValue("i", (int)pb_torch_listen(self, function));
}

static struct _object *call_profiled(struct _object *module, struct _object *args)
{
    struct pb_self *self = pb_self();
    int on;

    (void)module;
    if (!self->py.PyArg_ParseTuple(args, "p", &on))
        return NULL;
    pb_torch_set_profiled(self, on != 0);
    return self->py.Py_BuildValue("");
}

static struct _object *call_count(struct _object *module, struct _object *args)
{
    struct pb_self *self = pb_self();
    long long n;
    int on = -1;

    (void)module;
    if (!self->py.PyArg_ParseTuple(args, "|p", &on))
        return NULL;
    n = on == 1 && !pb_torch_count_begin(self) ? -1 : (long long)pb_torch_counted();
    if (on == 0)
        pb_torch_count_end();
    return self->py.Py_BuildValue("L", n);
}

static struct _object *call_place(struct _object *module, struct _object *args)
{
    struct pb_self *self = pb_self();
    int64_t step, collectives;

    (void)module;
    (void)args;
    pb_torch_place(self, &step, &collectives);
    return self->py.Py_BuildValue("(LL)", (long long)step, (long long)collectives);
}

static struct _object *call_row(struct _object *module, struct _object *args)
{
    struct pb_self *self = pb_self();
    struct pb_ring *ring = pb_collect_ring(self, &table);
    union pb_cell row[NCOLUMNS];
    const char *op, *shapes;
    long long steps, calls;
    double ms[4];

    (void)module;
    if (!self->py.PyArg_ParseTuple(args, "LszLdddd", &steps, &op, &shapes, &calls, &ms[0], &ms[1],
                                   &ms[2], &ms[3]))
        return NULL;
    if (!ring)
        return self->py.Py_BuildValue("");
    row[AT_timestamp].i = pb_clock_wall_ns();
    row[AT_steps].i = steps;
    row[AT_op].name = pb_ring_name(ring, op, strlen(op));
    row[AT_shapes].text.s = shapes;
    row[AT_shapes].text.len = shapes ? strlen(shapes) : 0;
    row[AT_calls].i = calls;
    row[AT_self_cpu_ms].d = ms[0];
    row[AT_cpu_ms].d = ms[1];
    row[AT_self_device_ms].d = ms[2];
    row[AT_device_ms].d = ms[3];
    pb_ring_append(ring, row);
    return self->py.Py_BuildValue("");
}

struct pb_py_method *pb_profile_methods(void)
{
    /* Python keeps pointers to these for as long as a function object lives. */
    static struct pb_py_method methods[] = {
        {"torch_listen", call_listen, PB_PY_VARARGS, NULL},
        {"torch_profiled", call_profiled, PB_PY_VARARGS, NULL},
        {"torch_count", call_count, PB_PY_VARARGS, NULL},
        {"torch_place", call_place, PB_PY_VARARGS, NULL},
        {"profile_row", call_row, PB_PY_VARARGS, NULL},
        {NULL, NULL, 0, NULL},
    };

    return methods;
}
