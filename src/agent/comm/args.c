/* What a call of a process group's method is about: group, ranks, bytes. */
#include <string.h>

#include "agent/comm/comm.h"

#define NESTING_MAX 3
#define LIST_MAX 4096

const struct pb_comm_kind pb_comm_kinds[] = {
#define X(method, op, data, role) {#method, #op, data, role},
    PB_COMM_METHODS(X)
#undef X
    {NULL, NULL, 0, PB_COMM_ALL},
};
_Static_assert(sizeof pb_comm_kinds / sizeof *pb_comm_kinds <= PB_COMM_KINDS + 1, "room");

struct data {
    bool any;
    int64_t bytes;
    uint32_t dtype; /* this one and the next: of the first tensor */
    bool device;
};

static uint32_t dtype_name(struct pb_comm *c, struct _object *dtype)
{
    const struct pb_py *py = &c->self->py;
    struct _object *text;
    uint32_t name = PB_NULL_NAME;
    const char *s;
    ssize_t len = 0;
    int at = 0;

    while (at < PB_COMM_DTYPES && c->dtypes[at].dtype && c->dtypes[at].dtype != dtype)
        at++;
    if (at < PB_COMM_DTYPES && c->dtypes[at].dtype)
        return c->dtypes[at].name;
    text = py->PyObject_Str(dtype);
    s = text ? py->PyUnicode_AsUTF8AndSize(text, &len) : NULL;
    if (s && len > 6 && strncmp(s, "torch.", 6) == 0)
        name = pb_comm_name(c, s + 6, (size_t)len - 6);
    py->PyErr_Clear();
    py->Py_DecRef(text);
    if (at < PB_COMM_DTYPES) {
        py->Py_IncRef(dtype);
        c->dtypes[at].dtype = dtype;
        c->dtypes[at].name = name;
    }
    return name;
}

static void add(struct data *d, int64_t bytes, uint32_t dtype, bool device)
{
    d->bytes += bytes;
    if (!d->any) {
        d->dtype = dtype;
        d->device = device;
    }
    d->any = true;
}

/* Of any class. */
static void measure_tensor(struct pb_comm *c, struct _object *tensor, struct data *d)
{
    const struct pb_py *py = &c->self->py;
    int64_t count = pb_py_call_int(py, tensor, "numel");
    int64_t size = count < 0 ? -1 : pb_py_call_int(py, tensor, "element_size");
    struct _object *dtype = size < 0 ? NULL : py->PyObject_GetAttrString(tensor, "dtype");
    struct _object *flag = dtype ? py->PyObject_GetAttrString(tensor, "is_cpu") : NULL;

    py->PyErr_Clear();
    if (dtype)
        add(d, count * size, dtype_name(c, dtype), flag && py->PyObject_IsTrue(flag) == 0);
    py->PyErr_Clear();
    py->Py_DecRef(flag);
    py->Py_DecRef(dtype);
}

/* A tensor, or lists of them in lists. */
static void measure(struct pb_comm *c, struct _object *o, struct data *d, int depth)
{
    const struct pb_py *py = &c->self->py;
    bool tuple = false, device;
    uint32_t dtype;
    int64_t bytes;
    ssize_t n;

    if (pb_comm_tensor_held(c, o, &bytes, &dtype, &device)) {
        add(d, bytes, dtype, device);
        return;
    }
    n = py->PyList_Size(o);
    if (n < 0) {
        py->PyErr_Clear();
        n = py->PyTuple_Size(o);
        tuple = true;
    }
    if (n < 0) {
        py->PyErr_Clear();
        measure_tensor(c, o, d);
        return;
    }
    for (ssize_t i = 0; depth < NESTING_MAX && i < n && i < LIST_MAX; i++)
        measure(c, tuple ? py->PyTuple_GetItem(o, i) : py->PyList_GetItem(o, i), d, depth + 1);
}

/* The rank that a call names: a root among its options, or the other side. */
static int64_t named_rank(const struct pb_py *py, const struct pb_comm_kind *k,
                          struct _object *args, struct _object *kwargs)
{
    ssize_t n = py->PyTuple_Size(args);
    struct _object *options;
    int64_t rank = -1;

    if (k->role == PB_COMM_SEND || k->role == PB_COMM_RECV) {
        if (n > 2 && strcmp(k->method, "recv_anysource") != 0)
            rank = py->PyLong_AsLongLong(py->PyTuple_GetItem(args, 2));
    } else if (k->role != PB_COMM_ALL) {
        options = kwargs ? py->PyDict_GetItemString(kwargs, "opts") : NULL;
        if (!options && n > 1)
            options = py->PyTuple_GetItem(args, n - 1);
        rank = options ? pb_py_int(py, options, "rootRank") : -1;
    }
    py->PyErr_Clear();
    return rank;
}

static void describe_ranks(struct pb_comm *c, const struct pb_comm_kind *k,
                           struct pb_comm_group *g, int64_t named, union pb_cell *row)
{
    bool from_other = k->role == PB_COMM_FROM_ROOT || k->role == PB_COMM_RECV;

    if (g->asked != named || named < 0) {
        g->found = pb_comm_job_rank(c, g, named);
        g->asked = named;
    }
    row[PB_COMM_AT_src_rank].i = from_other ? g->found : g->job_rank;
    if (k->role == PB_COMM_RECV)
        row[PB_COMM_AT_dst_rank].i = g->job_rank;
    else if (k->role == PB_COMM_TO_ROOT || k->role == PB_COMM_SEND)
        row[PB_COMM_AT_dst_rank].i = g->found;
}

static bool is_pair(const struct pb_comm_kind *k)
{
    return k->role == PB_COMM_SEND || k->role == PB_COMM_RECV;
}

/* Torch's own count of the operations of a group. */
static int64_t count_now(struct pb_comm *c, const struct pb_comm_group *g, struct _object *group,
                         bool device)
{
    int64_t count = pb_comm_watched(c, g, device);

    return count >= 0 ? count : pb_comm_sequence(c, group, device);
}

static void describe_group(struct pb_comm *c, const struct pb_comm_kind *k,
                           struct _object *group, int64_t named, struct pb_comm_op *op)
{
    struct pb_comm_group *g = pb_comm_group(c, group);
    union pb_cell *row = op->row;

    if (!g)
        return;
    op->before = count_now(c, g, group, op->device);
    op->watch = &c->groups.watches[g - c->groups.list][pb_comm_backend(g, op->device)];
    op->shown_group = g->shown;
    row[PB_COMM_AT_group_name].name = g->name;
    row[PB_COMM_AT_group_size].i = g->size;
    if (!is_pair(k)) {
        g->counted++;
        row[PB_COMM_AT_seq].i = op->before < 0 ? g->counted
                                : op->before + 1 - g->skew[pb_comm_backend(g, op->device)];
        if (c->events.only)
            c->events.seq = row[PB_COMM_AT_seq].i;
        if (op->before >= 0)
            pb_comm_watch_mark(op->watch, op->before + 1, op->before + 1);
    } else if (named >= 0 && named < PB_COMM_PEERS) {
        /* Both sides count what goes from one to the other. */
        row[PB_COMM_AT_seq].i = ++g->pairs[k->role == PB_COMM_SEND][named];
    }
    describe_ranks(c, k, g, named, row);
}

void pb_comm_describe_after(struct pb_comm *c, size_t kind, struct _object *args,
                    const struct pb_comm_op *op)
{
    const struct pb_comm_kind *k = &pb_comm_kinds[kind];
    struct _object *group = c->self->py.PyTuple_GetItem(args, 0);
    struct pb_comm_group *g;
    bool pair = is_pair(k), plain = !pair && strcmp(k->method, "monitored_barrier") != 0;
    int backend;
    int64_t now;

    if (op->before < 0 || (plain && op->watch && op->watch->at))
        return;
    g = pb_comm_group(c, group);
    if (!g)
        return;
    if (op->watch && !op->watch->at)
        pb_comm_watch(c, g, group);
    backend = pb_comm_backend(g, op->device);
    if (plain) /* a monitored barrier is made of messages */
        return;
    now = count_now(c, g, group, op->device);
    if (now < 0)
        return;
    pb_comm_watch_mark(op->watch, op->before + 1, now);
    g->skew[backend] += now - op->before - !pair;
    c->groups.watches[g - c->groups.list][backend].skew = g->skew[backend];
}

void pb_comm_clear_row(struct pb_comm *c, union pb_cell *row)
{
    row[PB_COMM_AT_step].i = c->self->collect->progress.page->head.step;
    row[PB_COMM_AT_op].name = PB_NULL_NAME;
    row[PB_COMM_AT_src_rank].i = row[PB_COMM_AT_dst_rank].i = PB_NULL_INT;
    row[PB_COMM_AT_group_name].name = PB_NULL_NAME;
    row[PB_COMM_AT_group_size].i = row[PB_COMM_AT_seq].i = PB_NULL_INT;
    row[PB_COMM_AT_bytes].i = PB_NULL_INT;
    row[PB_COMM_AT_dtype].name = PB_NULL_NAME;
    row[PB_COMM_AT_job].name = c->job;
}

/* A barrier has no data: it is made on the GPU where the group has nothing else. */
static bool is_on_device(struct pb_comm *c, struct _object *group)
{
    const struct pb_py *py = &c->self->py;
    const struct pb_comm_group *g = pb_comm_group(c, group);
    struct _object *get, *cpu;

    if (g && g->backends[0])
        return !g->has_cpu;
    get = c->groups.devices[1] ? py->PyObject_GetAttrString(group, "_get_backend") : NULL;
    cpu = get ? py->PyObject_CallFunction(get, "O", c->groups.devices[1]) : NULL;
    py->PyErr_Clear();
    py->Py_DecRef(get);
    py->Py_DecRef(cpu);
    return get && !cpu;
}

void pb_comm_describe(struct pb_comm *c, size_t kind, struct _object *args,
                      struct _object *kwargs, struct pb_comm_op *op)
{
    const struct pb_comm_kind *k = &pb_comm_kinds[kind];
    const struct pb_py *py = &c->self->py;
    union pb_cell *row = op->row;
    struct data d = {0};

    pb_comm_clear_row(c, row);
    row[PB_COMM_AT_op].name = c->ops_named[kind];
    if (!k->data)
        row[PB_COMM_AT_bytes].i = 0;
    if (py->PyTuple_Size(args) < 1)
        return;
    if (k->data && py->PyTuple_Size(args) > k->data)
        measure(c, py->PyTuple_GetItem(args, k->data), &d, 0);
    else if (!k->data)
        d.device = is_on_device(c, py->PyTuple_GetItem(args, 0));
    if (d.any) {
        row[PB_COMM_AT_bytes].i = d.bytes;
        row[PB_COMM_AT_dtype].name = d.dtype;
    }
    op->device = d.device;
    describe_group(c, k, py->PyTuple_GetItem(args, 0), named_rank(py, k, args, kwargs), op);
    py->PyErr_Clear();
}
