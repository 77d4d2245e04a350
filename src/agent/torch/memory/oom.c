#include "agent/torch/memory/oom.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/arch/symver.h"
#include "agent/collectors/collect.h"
#include "agent/collectors/native/cuda_memory.h"
#include "agent/torch/torch.h"
#include "schema/python_out_of_memory.h"
#include "schema/table.h"

#define BIGGEST 10
#define MESSAGE 500
#define FRAMES_MAX 256
/* Longest time for looking at all modules. */
#define LOOK_NS 50000000u

PB_TABLE_COLUMNS(PB_PYTHON_OUT_OF_MEMORY);
static const struct pb_ring_spec table = {
    PB_TABLE_SPEC(PB_PYTHON_OUT_OF_MEMORY_NAME, PB_PYTHON_OUT_OF_MEMORY_DOC),
    .rows = 512,
    .heap_bytes = 64 << 10,
    .flags = PB_RING_KEEP,
};

enum { ERROR_TORCH, ERROR_PYTHON, ERROR_RUNTIME };

struct event {
    const char *device, *message; /* message may be NULL */
    uint32_t stage, inside;       /* names in the ring of python.torch_trace, or PB_NULL_NAME */
    double wanted_mb, free_mb;
};

struct big {
    uint32_t name, type;
    double parameters, gradients, own, sum; /* MB */
};

static double tensor_mb(const struct pb_py *py, struct _object *tensor)
{
    int64_t count = tensor == py->none ? 0 : pb_py_call_int(py, tensor, "numel");
    int64_t size = count > 0 ? pb_py_call_int(py, tensor, "element_size") : 0;

    return size > 0 ? (double)count * (double)size / PB_TORCH_MB : 0;
}

/* Tensors in one of a module's dictionaries. ret_gradients: added to; or NULL. */
static double dict_mb(const struct pb_py *py, struct _object *module, const char *name,
                      double *ret_gradients)
{
    struct _object *dict = py->PyObject_GetAttrString(module, name), *key, *tensor, *grad;
    double sum = 0;
    ssize_t at = 0;

    while (dict && py->PyDict_Size(dict) > 0 && py->PyDict_Next(dict, &at, &key, &tensor)) {
        py->Py_IncRef(tensor);
        sum += tensor_mb(py, tensor);
        grad = ret_gradients && tensor != py->none ? py->PyObject_GetAttrString(tensor, "grad")
                                                   : NULL;
        if (grad)
            *ret_gradients += tensor_mb(py, grad);
        py->Py_DecRef(grad);
        py->Py_DecRef(tensor);
    }
    py->PyErr_Clear();
    py->Py_DecRef(dict);
    return sum;
}

/* Inserts into a list that is sorted, the biggest first. */
static void insert(struct big *list, int *n, const struct big *b)
{
    int i = *n < BIGGEST ? (*n)++ : BIGGEST - 1;

    if (i == BIGGEST - 1 && *n == BIGGEST && list[i].sum >= b->sum && list[i].name)
        return;
    for (; i > 0 && list[i - 1].sum < b->sum; i--)
        list[i] = list[i - 1];
    list[i] = *b;
}

static int find_biggest(struct pb_torch *t, struct big *list)
{
    const struct pb_py *py = &t->self->py;
    uint64_t end = pb_clock_ns() + LOOK_NS;
    int n = 0;

    for (size_t i = 0; i < PB_TORCH_MODULES && t->on; i++) {
        struct pb_torch_module *m = &t->module_table.list[i];
        struct _object *object = m->weak ? m->object : NULL; /* else it is gone */
        struct big b = {.name = m->name, .type = m->type};

        if (!object || !m->name)
            continue;
        b.own = m->own_mb > 0 ? (double)m->own_mb : 0;
        py->Py_IncRef(object);
        b.parameters = dict_mb(py, object, "_parameters", &b.gradients);
        b.parameters += dict_mb(py, object, "_buffers", NULL);
        py->Py_DecRef(object);
        b.sum = b.parameters + b.gradients + b.own;
        if (b.sum > 0)
            insert(list, &n, &b);
        if (pb_clock_ns() > end)
            break;
    }
    return n;
}

static void fill_event(struct pb_torch *t, struct pb_ring *ring, const struct event *e,
                       union pb_cell *row)
{
    struct pb_cuda_memory m;
    bool gpu = strcmp(e->device, "cpu") != 0 && pb_cuda_memory(&t->self->py, &m);

    row[AT_timestamp].i = pb_clock_wall_ns();
    row[AT_step].i = t->steps.number;
    row[AT_device].name = pb_ring_name(ring, e->device, strlen(e->device));
    row[AT_stage].name = pb_torch_carry_name(t, ring, e->stage);
    row[AT_inside].name = pb_torch_carry_name(t, ring, e->inside);
    row[AT_wanted].d = e->wanted_mb;
    row[AT_free].d = e->free_mb;
    row[AT_allocated].d = gpu ? m.allocated / PB_TORCH_MB
                              : pb_torch_mb(pb_torch_memory_bytes(&t->memory));
    row[AT_cached].d = gpu ? m.reserved / PB_TORCH_MB : pb_null_real();
    row[AT_message].text.s = e->message;
    row[AT_message].text.len = e->message ? strlen(e->message) : 0;
}

static void fill_module(struct pb_torch *t, struct pb_ring *ring, const struct big *b, int place,
                        union pb_cell *row)
{
    row[AT_place].i = place;
    row[AT_module].name = pb_torch_carry_name(t, ring, b->name);
    row[AT_module_type].name = pb_torch_carry_name(t, ring, b->type);
    row[AT_parameters].d = b->parameters;
    row[AT_gradients].d = b->gradients;
    row[AT_activations].d = b->own;
}

/* Rows of one event: the biggest modules, or one row without. No exception pending. */
static void write_event(struct pb_torch *t, const struct event *e)
{
    struct pb_ring *ring = pb_collect_ring(t->self, &table);
    struct big list[BIGGEST] = {{0}};
    union pb_cell row[NCOLUMNS];
    int n;

    if (!ring)
        return;
    fill_event(t, ring, e, row);
    n = find_biggest(t, list);
    for (int i = 0; i < n && t->on; i++) {
        fill_module(t, ring, &list[i], i + 1, row);
        pb_ring_append(ring, row);
    }
    if (n)
        return;
    row[AT_place].i = PB_NULL_INT;
    row[AT_module].name = row[AT_module_type].name = PB_NULL_NAME;
    row[AT_parameters].d = row[AT_gradients].d = row[AT_activations].d = pb_null_real();
    pb_ring_append(ring, row);
}

/* "… Tried to allocate 2.50 GiB …", "… you tried to allocate 4096 bytes. …" */
static double wanted_mb_of(const char *message)
{
    static const struct {
        const char *unit;
        double mb;
    } units[] = {{"GiB", 1024},          {"MiB", 1},          {"KiB", 1 / 1024.0},
                 {"bytes", 1 / PB_TORCH_MB}, {"B", 1 / PB_TORCH_MB}};
    static const char before[] = "ried to allocate ";
    const char *p = strstr(message, before);
    char *end;
    double v;

    if (!p)
        return pb_null_real();
    v = strtod(p + sizeof before - 1, &end);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (*end == ' ' && strncmp(end + 1, units[i].unit, strlen(units[i].unit)) == 0)
            return v * units[i].mb;
    return pb_null_real();
}

/* Text of an exception; those that are asked here run no Python code for it. */
static void read_message(const struct pb_py *py, struct _object *value, char *ret, size_t size)
{
    struct _object *text = value ? py->PyObject_Str(value) : NULL;
    const char *s = text ? py->PyUnicode_AsUTF8AndSize(text, NULL) : NULL;

    snprintf(ret, size, "%s", s ? s : "");
    py->PyErr_Clear();
    py->Py_DecRef(text);
}

static bool is_about_memory(int kind, const char *message)
{
    return kind != ERROR_RUNTIME || strstr(message, "memory: you tried to allocate") ||
           strstr(message, "CUDA out of memory");
}

/* Dictionary: the module whose method a frame runs, if it is known. */
static uint32_t module_of_frame(struct pb_torch *t, struct _object *frame)
{
    const struct pb_py *py = &t->self->py;
    struct _object *locals = frame ? py->PyObject_GetAttrString(frame, "f_locals") : NULL;
    struct _object *object = locals ? py->PyMapping_GetItemString(locals, "self") : NULL;
    struct pb_torch_module *m = object ? pb_torch_module_find(t, object) : NULL;

    py->PyErr_Clear();
    py->Py_DecRef(object);
    py->Py_DecRef(locals);
    return m ? m->name : PB_NULL_NAME;
}

/*
 * Dictionary: the innermost module in a traceback, or from a frame outwards. Takes over the
 * reference to the first link.
 */
static uint32_t innermost_module(struct pb_torch *t, struct _object *link, bool is_traceback)
{
    const struct pb_py *py = &t->self->py;
    uint32_t found = PB_NULL_NAME;

    for (int i = 0; i < FRAMES_MAX && link && link != py->none; i++) {
        struct _object *frame = is_traceback ? py->PyObject_GetAttrString(link, "tb_frame") : link;
        struct _object *next = py->PyObject_GetAttrString(link, is_traceback ? "tb_next"
                                                                             : "f_back");
        uint32_t name = module_of_frame(t, frame);

        if (name != PB_NULL_NAME)
            found = name;
        if (is_traceback)
            py->Py_DecRef(frame);
        py->Py_DecRef(link);
        link = next;
        if (name != PB_NULL_NAME && !is_traceback)
            break;
    }
    py->PyErr_Clear();
    py->Py_DecRef(link);
    return found;
}

/* In a step that is not traced only the outermost call is known. */
static bool is_outermost_only(const struct pb_torch_call *c)
{
    return !c || !c->module || (c->depth == 0 && c->module->has_children);
}

/* The exception comes by at every call that it leaves: it was seen further inside. */
static bool is_reported(const struct pb_torch *t, uint64_t began_ns)
{
    return t->oom.reported_ns >= began_ns && pthread_equal(t->oom.thread, pthread_self());
}

static void examine(struct pb_torch *t, const struct pb_torch_call *call, int kind,
                    const char *message, struct _object *traceback, uint64_t began_ns)
{
    uint32_t inside = PB_NULL_NAME;
    bool gpu = strstr(message, "CUDA") != NULL;
    struct event e = {
        .device = gpu ? "cuda" : "cpu", .message = message[0] ? message : NULL,
        .stage = call ? t->trace.forward : t->trace.backward,
        .inside = call && call->module ? call->module->name : PB_NULL_NAME,
        .wanted_mb = wanted_mb_of(message), .free_mb = pb_null_real()};

    if (!is_about_memory(kind, message) || (gpu && t->oom.observed) || is_reported(t, began_ns))
        return;
    t->oom.reported_ns = pb_clock_ns();
    t->oom.thread = pthread_self();
    if (call && is_outermost_only(call)) {
        t->self->py.Py_IncRef(traceback);
        inside = innermost_module(t, traceback, true);
    }
    if (inside != PB_NULL_NAME)
        e.inside = inside;
    write_event(t, &e);
}

void pb_torch_oom_check(struct pb_torch *t, const struct pb_torch_call *call, uint64_t began_ns)
{
    const struct pb_py *py = &t->self->py;
    struct _object *type = py->PyErr_Occurred(), *value = NULL, *traceback = NULL;
    char message[MESSAGE];
    int kind = 0;

    while (kind < 3 && (!type || type != t->oom.errors[kind]))
        kind++;
    if (kind == 3 || !py->PyErr_Fetch || !py->PyErr_Restore)
        return;
    py->PyErr_Fetch(&type, &value, &traceback);
    read_message(py, value, message, sizeof message);
    examine(t, call, kind, message, traceback, began_ns);
    py->PyErr_Clear();
    py->PyErr_Restore(type, value, traceback);
}

/* Observer: (device, wanted, limit, free), by CUDA's allocator before it raises. */
static struct _object *on_cuda_full(struct _object *unused, struct _object *args)
{
    struct pb_torch *t = pb_torch_state(pb_self());
    const struct pb_py *py = &t->self->py;
    struct pb_torch_thread *th = t->threads.has_key ? pthread_getspecific(t->threads.key) : NULL;
    struct pb_torch_call *top = th ? th->top : NULL;
    struct event e = {.stage = PB_NULL_NAME, .inside = PB_NULL_NAME};
    long long device, wanted, limit, left;
    char name[24];

    (void)unused;
    if (!t->on || !py->PyArg_ParseTuple(args, "LLLL", &device, &wanted, &limit, &left)) {
        py->PyErr_Clear();
        return py->Py_BuildValue("");
    }
    snprintf(name, sizeof name, "cuda:%lld", device);
    e.device = name;
    e.wanted_mb = (double)wanted / PB_TORCH_MB;
    e.free_mb = (double)left / PB_TORCH_MB;
    if (top && top->module) {
        uint32_t inside = PB_NULL_NAME;

        if (is_outermost_only(top))
            inside = innermost_module(t, pb_torch_frame(py, 0), false);
        e.stage = t->trace.forward;
        e.inside = inside != PB_NULL_NAME ? inside : top->module->name;
    } else if (pb_torch_in_pass(t)) {
        e.stage = t->trace.backward;
    }
    write_event(t, &e);
    py->PyErr_Clear();
    return py->Py_BuildValue("");
}

/* torch keeps a pointer to it. */
static struct pb_py_method method = {"probing_out_of_memory", on_cuda_full, PB_PY_VARARGS, NULL};

void pb_torch_oom_poll(struct pb_torch *t)
{
    const struct pb_py *py = &t->self->py;
    struct _object *attach, *function, *done;

    if (t->oom.observed || t->oom.refused || t->cuda.state <= 0)
        return;
    attach = pb_py_attribute(py, "torch._C", "_cuda_attach_out_of_memory_observer");
    function = attach ? py->PyCFunction_NewEx(&method, NULL, NULL) : NULL;
    done = function ? py->PyObject_CallFunction(attach, "(O)", function) : NULL;
    t->oom.observed = done != NULL;
    t->oom.refused = !done;
    py->PyErr_Clear();
    py->Py_DecRef(done);
    py->Py_DecRef(function);
    py->Py_DecRef(attach);
}

void pb_torch_oom_enter(struct pb_torch *t)
{
    const struct pb_py *py = &t->self->py;
    struct _object *builtins = py->PyEval_GetBuiltins();
    struct _object **to = t->oom.errors;

    if (!to[ERROR_TORCH])
        to[ERROR_TORCH] = pb_py_attribute(py, "torch._C", "OutOfMemoryError");
    if (!to[ERROR_TORCH])
        to[ERROR_TORCH] = pb_py_attribute(py, "torch._C", "_OutOfMemoryError");
    to[ERROR_PYTHON] = builtins ? py->PyDict_GetItemString(builtins, "MemoryError") : NULL;
    to[ERROR_RUNTIME] = *py->PyExc_RuntimeError;
    py->PyErr_Clear();
}
