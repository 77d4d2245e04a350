/* What a call of a process group's method is about: group, ranks, bytes. */
#include <string.h>

#include "agent/collect/collect.h"
#include "agent/collect/torch.h"
#include "agent/collect/torch_comm.h"

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
    int64_t bytes;
    struct _object *dtype; /* of the first tensor; a reference */
    bool device;
};

static int64_t int_attribute(const struct pb_py *py, struct _object *o, const char *name,
                             bool call)
{
    struct _object *v = py->PyObject_GetAttrString(o, name), *called = NULL;
    int64_t n = -1;

    if (v && call) {
        called = py->PyObject_CallFunction(v, NULL);
        py->Py_DecRef(v);
        v = called;
    }
    if (v)
        n = py->PyLong_AsLongLong(v);
    if (py->PyErr_Occurred())
        n = -1;
    py->PyErr_Clear();
    py->Py_DecRef(v);
    return n;
}

static void measure_tensor(const struct pb_py *py, struct _object *tensor, struct data *d)
{
    int64_t count = int_attribute(py, tensor, "numel", true);
    int64_t size = count < 0 ? -1 : int_attribute(py, tensor, "element_size", true);
    struct _object *flag;

    if (size < 0)
        return;
    d->bytes += count * size;
    if (d->dtype)
        return;
    d->dtype = py->PyObject_GetAttrString(tensor, "dtype");
    flag = py->PyObject_GetAttrString(tensor, "is_cpu");
    d->device = flag && py->PyObject_IsTrue(flag) == 0;
    py->PyErr_Clear();
    py->Py_DecRef(flag);
}

/* A tensor, or lists of them in lists. */
static void measure(const struct pb_py *py, struct _object *o, struct data *d, int depth)
{
    ssize_t n = py->PyList_Size(o);
    bool tuple = n < 0;

    py->PyErr_Clear();
    if (tuple)
        n = py->PyTuple_Size(o);
    py->PyErr_Clear();
    if (n < 0) {
        measure_tensor(py, o, d);
        return;
    }
    for (ssize_t i = 0; depth < NESTING_MAX && i < n && i < LIST_MAX; i++)
        measure(py, tuple ? py->PyTuple_GetItem(o, i) : py->PyList_GetItem(o, i), d, depth + 1);
}

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
        name = pb_ring_name(c->ring, s + 6, (size_t)len - 6);
    py->PyErr_Clear();
    py->Py_DecRef(text);
    if (at < PB_COMM_DTYPES) {
        py->Py_IncRef(dtype);
        c->dtypes[at].dtype = dtype;
        c->dtypes[at].name = name;
    }
    return name;
}

/* value of a dict that is an attribute of the module, by key; a reference, or NULL */
static struct _object *looked_up(struct pb_comm *c, const char *dict_name, struct _object *key)
{
    const struct pb_py *py = &c->self->py;
    struct _object *dict = c->module ? py->PyObject_GetAttrString(c->module, dict_name) : NULL;
    struct _object *get = dict ? py->PyObject_GetAttrString(dict, "get") : NULL;
    struct _object *value = get ? py->PyObject_CallFunction(get, "O", key) : NULL;

    py->PyErr_Clear();
    py->Py_DecRef(get);
    py->Py_DecRef(dict);
    if (value == py->none) {
        py->Py_DecRef(value);
        value = NULL;
    }
    return value;
}

/* torch calls the group of all ranks "0". */
static uint32_t group_name(struct pb_comm *c, struct _object *group, bool *ret_all)
{
    const struct pb_py *py = &c->self->py;
    struct _object *name = py->PyObject_GetAttrString(group, "group_name");
    uint32_t id = PB_NULL_NAME;
    ssize_t len = 0;
    const char *s;

    py->PyErr_Clear();
    if (!name)
        name = looked_up(c, "_pg_names", group);
    s = name ? py->PyUnicode_AsUTF8AndSize(name, &len) : NULL;
    *ret_all = s && strcmp(s, "0") == 0;
    if (*ret_all)
        id = pb_ring_name(c->ring, "default_pg", 10);
    else if (s)
        id = pb_ring_name(c->ring, s, (size_t)len);
    py->PyErr_Clear();
    py->Py_DecRef(name);
    return id;
}

static void forget(struct pb_comm *c, struct pb_comm_group *g)
{
    const struct pb_py *py = &c->self->py;

    py->Py_DecRef(g->weak);
    py->Py_DecRef(g->ranks);
    *g = (struct pb_comm_group){0};
}

void pb_comm_groups_forget(struct pb_comm *c)
{
    for (int i = 0; i < PB_COMM_GROUPS; i++)
        forget(c, &c->groups[i]);
    for (int i = 0; i < PB_COMM_DTYPES; i++) {
        c->self->py.Py_DecRef(c->dtypes[i].dtype);
        c->dtypes[i].dtype = NULL;
    }
}

static struct pb_comm_group *meet(struct pb_comm *c, struct pb_comm_group *g,
                                  struct _object *group)
{
    const struct pb_py *py = &c->self->py;
    bool all = false;

    g->weak = py->PyWeakref_NewRef(group, NULL);
    py->PyErr_Clear();
    if (!g->weak)
        return NULL;
    g->name = group_name(c, group, &all);
    g->size = int_attribute(py, group, "size", true);
    g->rank = int_attribute(py, group, "rank", true);
    g->ranks = all ? NULL : looked_up(c, "_pg_group_ranks", group);
    /* A program may have its rank from elsewhere than the environment. */
    if (all && g->rank >= 0 && c->self->collect.rank < 0)
        pb_collect_rank(c->self, g->rank, g->size, -1);
    return g;
}

struct pb_comm_group *pb_comm_group(struct pb_comm *c, struct _object *group)
{
    const struct pb_py *py = &c->self->py;
    struct pb_comm_group *room = NULL;

    for (int i = 0; i < PB_COMM_GROUPS; i++) {
        struct pb_comm_group *g = &c->groups[i];
        struct _object *now = g->weak ? py->PyObject_CallFunction(g->weak, NULL) : NULL;

        py->PyErr_Clear();
        py->Py_DecRef(now); /* somebody else holds it, or it is None */
        if (now == group)
            return g;
        if (now == py->none)
            forget(c, g);
        if (!g->weak && !room)
            room = g;
    }
    return room ? meet(c, room, group) : NULL;
}

/* From a rank in a group to the rank in the job. */
static int64_t job_rank(const struct pb_py *py, const struct pb_comm_group *g, int64_t rank)
{
    struct _object *key, *value;
    int64_t found = PB_NULL_INT;
    ssize_t at = 0;

    if (rank < 0)
        return PB_NULL_INT;
    if (!g->ranks)
        return rank;
    while (py->PyDict_Next(g->ranks, &at, &key, &value))
        if (py->PyLong_AsLongLong(value) == rank)
            found = py->PyLong_AsLongLong(key);
    py->PyErr_Clear();
    return found;
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
        rank = options ? int_attribute(py, options, "rootRank", false) : -1;
    }
    py->PyErr_Clear();
    return rank;
}

int64_t pb_comm_sequence(struct pb_comm *c, struct _object *group)
{
    const struct pb_py *py = &c->self->py;
    struct _object *v = c->sequence ? py->PyObject_CallFunction(c->sequence, "O", group) : NULL;
    int64_t n = v ? py->PyLong_AsLongLong(v) : -1;

    if (py->PyErr_Occurred())
        n = -1;
    py->PyErr_Clear();
    py->Py_DecRef(v);
    return n;
}

static void describe_ranks(struct pb_comm *c, const struct pb_comm_kind *k,
                           struct pb_comm_group *g, int64_t named, union pb_cell *row)
{
    const struct pb_py *py = &c->self->py;
    int64_t mine = job_rank(py, g, g->rank), other = job_rank(py, g, named);
    bool from_other = k->role == PB_COMM_FROM_ROOT || k->role == PB_COMM_RECV;

    row[PB_COMM_AT_src_rank].i = from_other ? other : mine;
    if (k->role == PB_COMM_RECV)
        row[PB_COMM_AT_dst_rank].i = mine;
    else if (k->role == PB_COMM_TO_ROOT || k->role == PB_COMM_SEND)
        row[PB_COMM_AT_dst_rank].i = other;
}

static bool is_pair(const struct pb_comm_kind *k)
{
    return k->role == PB_COMM_SEND || k->role == PB_COMM_RECV;
}

static void describe_group(struct pb_comm *c, const struct pb_comm_kind *k,
                           struct _object *group, int64_t named, struct pb_comm_op *op)
{
    struct pb_comm_group *g = pb_comm_group(c, group);
    union pb_cell *row = op->row;

    if (!g)
        return;
    op->before = pb_comm_sequence(c, group);
    row[PB_COMM_AT_group_name].name = g->name;
    row[PB_COMM_AT_group_size].i = g->size;
    if (!is_pair(k)) {
        g->counted++;
        row[PB_COMM_AT_seq].i = op->before >= 0 ? op->before + 1 - g->skew : g->counted;
        if (c->cxx.only)
            c->cxx.seq = row[PB_COMM_AT_seq].i;
    } else if (named >= 0 && named < PB_COMM_PEERS) {
        /* Both sides count what goes from one to the other. */
        row[PB_COMM_AT_seq].i = ++g->pairs[k->role == PB_COMM_SEND][named];
    }
    describe_ranks(c, k, g, named, row);
}

void pb_comm_settle(struct pb_comm *c, size_t kind, struct _object *args,
                    const struct pb_comm_op *op)
{
    const struct pb_comm_kind *k = &pb_comm_kinds[kind];
    bool pair = is_pair(k);
    struct pb_comm_group *g;
    int64_t now;

    /* A monitored barrier is made of messages. */
    if (op->before < 0 || (!pair && strcmp(k->method, "monitored_barrier") != 0))
        return;
    g = pb_comm_group(c, c->self->py.PyTuple_GetItem(args, 0));
    now = g ? pb_comm_sequence(c, c->self->py.PyTuple_GetItem(args, 0)) : -1;
    if (now >= 0)
        g->skew += now - op->before - !pair;
}

void pb_comm_blank(struct pb_comm *c, union pb_cell *row)
{
    const struct pb_torch *t = pb_torch_state(c->self);

    row[PB_COMM_AT_step].i = t && t->on ? __atomic_load_n(&t->step, __ATOMIC_RELAXED)
                                        : PB_NULL_INT;
    row[PB_COMM_AT_op].name = PB_NULL_NAME;
    row[PB_COMM_AT_src_rank].i = row[PB_COMM_AT_dst_rank].i = PB_NULL_INT;
    row[PB_COMM_AT_group_name].name = PB_NULL_NAME;
    row[PB_COMM_AT_group_size].i = row[PB_COMM_AT_seq].i = PB_NULL_INT;
    row[PB_COMM_AT_bytes].i = PB_NULL_INT;
    row[PB_COMM_AT_dtype].name = PB_NULL_NAME;
    row[PB_COMM_AT_job].name = c->job;
}

void pb_comm_describe(struct pb_comm *c, size_t kind, struct _object *args,
                      struct _object *kwargs, struct pb_comm_op *op, bool *ret_device)
{
    const struct pb_comm_kind *k = &pb_comm_kinds[kind];
    const struct pb_py *py = &c->self->py;
    union pb_cell *row = op->row;
    struct data d = {0};

    op->before = -1;
    pb_comm_blank(c, row);
    row[PB_COMM_AT_op].name = c->ops_named[kind];
    if (!k->data)
        row[PB_COMM_AT_bytes].i = 0;
    if (py->PyTuple_Size(args) < 1)
        return;
    if (k->data && py->PyTuple_Size(args) > k->data)
        measure(py, py->PyTuple_GetItem(args, k->data), &d, 0);
    if (d.dtype) {
        row[PB_COMM_AT_bytes].i = d.bytes;
        row[PB_COMM_AT_dtype].name = dtype_name(c, d.dtype);
        py->Py_DecRef(d.dtype);
    }
    *ret_device = d.device;
    describe_group(c, k, py->PyTuple_GetItem(args, 0), named_rank(py, k, args, kwargs), op);
    py->PyErr_Clear();
}
