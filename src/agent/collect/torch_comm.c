#include "agent/collect/torch_comm.h"

#include <string.h>

#include "agent/collect/collect.h"
#include "agent/collect/torch.h"
#include "base/clock.h"
#include "store/tables/table.h"

static int enter(struct pb_self *self, struct pb_err *err);
static void look(struct pb_self *self, uint64_t now);
static void leave(struct pb_self *self);
static void forked(struct pb_self *self);

const struct pb_collector pb_collector_torch_comm = {
    .name = "torch_comm",
    .doc = "communication between ranks through torch.distributed",
    .on = PB_SET_TORCH_COMM,
    .enter = enter,
    .awaits = "torch",
    .look = look,
    .leave = leave,
    .forked = forked,
    .state_size = sizeof(struct pb_comm),
};

static const struct pb_column_spec columns[] = {PB_PYTHON_COMM(PB_TABLE_COLUMN)};
static const struct pb_ring_spec table = {
    .name = PB_PYTHON_COMM_NAME,
    .doc = PB_PYTHON_COMM_DOC,
    .columns = columns,
    .ncolumns = sizeof columns / sizeof *columns,
    .rows = 32768,
    .flags = PB_RING_KEEP,
};

struct pb_comm *pb_comm_state(struct pb_self *self)
{
    return pb_collect_state(self, &pb_collector_torch_comm);
}

struct pb_comm_op *pb_comm_take(struct pb_comm *c)
{
    for (size_t i = 0; i < PB_COMM_OPS; i++) {
        int expected = PB_COMM_FREE;

        if (!atomic_compare_exchange_strong(&c->ops[i].life, &expected, PB_COMM_TAKEN))
            continue;
        if (i >= c->ops_used)
            c->ops_used = i + 1;
        c->ops[i].matched = false;
        c->ops[i].by_torch = false;
        c->ops[i].name = NULL;
        c->ops[i].holders = 1;
        c->ops[i].work = c->ops[i].weak = NULL;
        c->ops[i].ring_number = c->ring_number;
        return &c->ops[i];
    }
    return NULL;
}

static void append(struct pb_comm *c, const struct pb_comm_op *op)
{
    struct pb_ring *ring = c->ring;

    /* Names in the row are numbers in one ring and mean nothing in another. */
    if (ring && c->on && op->ring_number == c->ring_number)
        pb_ring_append(ring, op->row);
}

static void write_end(struct pb_comm *c, struct pb_comm_op *op, uint32_t state, uint64_t now)
{
    op->row[PB_COMM_AT_state].name = state;
    if (now)
        op->row[PB_COMM_AT_latency_ms].d = (double)(now - op->began_ns) / 1e6;
    append(c, op);
}

void pb_comm_end(struct pb_comm *c, struct pb_comm_op *op, uint32_t state, uint64_t now)
{
    int expected = PB_COMM_OPEN;

    /* Torch's word and the return of a wait may come at once, from two threads. */
    if (atomic_compare_exchange_strong(&op->life, &expected, PB_COMM_ENDED))
        write_end(c, op, state, now);
}

void pb_comm_drop(struct pb_comm_op *op)
{
    if (atomic_fetch_sub(&op->holders, 1) == 1)
        op->life = PB_COMM_FREE;
}

void pb_comm_begin(struct pb_comm *c, struct pb_comm_op *op, uint32_t state)
{
    op->row[PB_COMM_AT_timestamp].i = pb_clock_wall_ns();
    op->row[PB_COMM_AT_latency_ms].d = pb_null_real();
    op->row[PB_COMM_AT_state].name = state;
    op->began_ns = pb_clock_ns();
    append(c, op);
    op->life = PB_COMM_OPEN;
}

/* GIL: Python will say no more of it. */
static void let_go(struct pb_comm *c, struct pb_comm_op *op)
{
    struct _object *weak = op->weak;

    op->work = op->weak = NULL;
    c->self->py.Py_DecRef(weak);
    pb_comm_drop(op);
}

/* Begun on a GPU: its row says so until the end. */
static bool on_device(const struct pb_comm *c, const struct pb_comm_op *op)
{
    return op->row[PB_COMM_AT_state].name == c->enqueued;
}

static void count_time(struct pb_comm *c, uint64_t ns)
{
    struct pb_torch *t = pb_torch_state(c->self);

    if (t && t->on)
        t->sums.comm_ns += ns;
}

/* GIL, no exception pending. */
static struct pb_comm_op *begin(struct pb_comm *c, size_t kind, struct _object *args,
                                struct _object *kwargs)
{
    struct pb_comm_op *op = pb_comm_take(c);
    bool device = false;

    if (!op)
        return NULL;
    pb_comm_describe(c, kind, args, kwargs, op, &device);
    op->name = pb_comm_kinds[kind].op;
    pb_comm_begin(c, op, device ? c->enqueued : c->started);
    return op;
}

/* GIL; an exception is pending when there is no result. */
static void returned(struct pb_comm *c, struct pb_comm_op *op, struct _object *result)
{
    const struct pb_py *py = &c->self->py;
    uint64_t now = pb_clock_ns();

    count_time(c, now - op->began_ns);
    if (result && result != py->none) {
        op->work = result;
        op->weak = py->PyWeakref_NewRef(result, NULL);
        py->PyErr_Clear();
        return;
    }
    if (!result || !on_device(c, op))
        pb_comm_end(c, op, result ? c->done : c->failed, now);
    let_go(c, op);
}

/* In place of a method of ProcessGroup: number of the method, (group, …). */
static struct _object *on_operation(struct _object *number, struct _object *args,
                                    struct _object *kwargs)
{
    struct pb_comm *c = pb_comm_state(pb_self());
    const struct pb_py *py = &c->self->py;
    size_t kind = (size_t)py->PyLong_AsLongLong(number);
    struct pb_comm_op *op = c->on ? begin(c, kind, args, kwargs) : NULL;
    struct _object *result = py->PyObject_Call(c->methods[kind].call, args, kwargs);

    if (op && result)
        pb_comm_settle(c, kind, args, op);
    if (op)
        returned(c, op, result);
    return result;
}

/* GIL; an exception is pending when the wait failed. */
static void waited(struct pb_comm *c, const struct _object *work, bool good, uint64_t now)
{
    for (size_t i = 0; i < c->ops_used; i++) {
        struct pb_comm_op *op = &c->ops[i];

        if (op->work != work)
            continue;
        /*
         * A stream waits, not the host: it is not done. Nor may the GPU be asked: somebody may be
         * capturing a graph, which that would break.
         */
        if (!good || !on_device(c, op))
            pb_comm_end(c, op, good ? c->done : c->failed, now);
        /* Torch says only that it is over. */
        if (!good && op->row[PB_COMM_AT_state].name == c->done)
            write_end(c, op, c->failed, now);
        let_go(c, op);
    }
}

/* In place of a method of Work: number of the method, (work, …). */
static struct _object *on_wait(struct _object *number, struct _object *args,
                               struct _object *kwargs)
{
    struct pb_comm *c = pb_comm_state(pb_self());
    const struct pb_py *py = &c->self->py;
    size_t which = (size_t)py->PyLong_AsLongLong(number);
    struct _object *work = py->PyTuple_Size(args) > 0 ? py->PyTuple_GetItem(args, 0) : NULL;
    uint64_t began = pb_clock_ns(), now;
    struct _object *result = py->PyObject_Call(c->waits[which].call, args, kwargs);

    if (c->on && work) {
        now = pb_clock_ns();
        count_time(c, now - began);
        waited(c, work, result != NULL, now);
    }
    return result;
}

#define CALLABLE(f) \
    ((struct _object * (*)(struct _object *, struct _object *))(uintptr_t)(f))

/* Python keeps pointers to these. */
static struct pb_py_method operations[] = {
#define X(method, op, data, role) \
    {#method, CALLABLE(on_operation), PB_PY_VARARGS | PB_PY_KEYWORDS, NULL},
    PB_COMM_METHODS(X)
#undef X
};
static struct pb_py_method wait_methods[] = {
    {"wait", CALLABLE(on_wait), PB_PY_VARARGS | PB_PY_KEYWORDS, NULL},
    {"synchronize", CALLABLE(on_wait), PB_PY_VARARGS | PB_PY_KEYWORDS, NULL},
};

/* What stands in the class itself; a reference, or NULL. */
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

    m->was = own_attribute(py, type, def->name);
    m->call = m->was ? py->PyObject_GetAttrString(type, def->name) : NULL;
    m->ours = m->call && function ? py->PyInstanceMethod_New(function) : NULL;
    m->type = type;
    py->Py_IncRef(type);
    py->PyErr_Clear();
    py->Py_DecRef(function);
    py->Py_DecRef(index);
}

/* Originals are looked up once and kept for ever: a call may be under way. */
static bool put(const struct pb_py *py, struct pb_comm_method *m, struct _object *type,
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

/* Unless somebody else has put something over it, which then calls ours, which passes on. */
static void take_back(const struct pb_py *py, struct pb_comm_method *m, const char *name)
{
    struct _object *now = m->ours ? own_attribute(py, m->type, name) : NULL;

    if (now && now == m->ours)
        py->PyObject_SetAttrString(m->type, name, m->was);
    py->PyErr_Clear();
    py->Py_DecRef(now);
}

static size_t variable(struct pb_comm *c, struct _object *get, const char *name, char *to,
                       size_t size)
{
    const struct pb_py *py = &c->self->py;
    struct _object *text = py->PyObject_CallFunction(get, "s", name);
    ssize_t len = 0;
    const char *s = text && text != py->none ? py->PyUnicode_AsUTF8AndSize(text, &len) : NULL;

    if (!s || (size_t)len >= size)
        len = 0;
    memcpy(to, s ? s : "", (size_t)len);
    py->PyErr_Clear();
    py->Py_DecRef(text);
    return (size_t)len;
}

/* What all ranks of a job have in common, and no other job at the same time. */
static uint32_t job_name(struct pb_comm *c)
{
    const struct pb_py *py = &c->self->py;
    struct _object *os = pb_collect_module(c->self, "os");
    struct _object *environ = os ? py->PyObject_GetAttrString(os, "environ") : NULL;
    struct _object *get = environ ? py->PyObject_GetAttrString(environ, "get") : NULL;
    char job[256];
    size_t len = get ? variable(c, get, "MASTER_ADDR", job, sizeof job - 32) : 0;
    uint32_t name = PB_NULL_NAME;

    if (len) {
        job[len++] = ':';
        len += variable(c, get, "MASTER_PORT", job + len, 16);
        name = pb_ring_name(c->ring, job, len);
    }
    py->PyErr_Clear();
    py->Py_DecRef(get);
    py->Py_DecRef(environ);
    py->Py_DecRef(os);
    return name;
}

/* Where each group stood when we came: who already waits then has begun one more. */
static void note_groups(struct pb_comm *c)
{
    const struct pb_py *py = &c->self->py;
    struct _object *names = py->PyObject_GetAttrString(c->module, "_pg_names");
    struct _object *group, *value;
    struct pb_comm_op op = {.ring_number = c->ring_number};
    ssize_t at = 0;

    py->PyErr_Clear();
    while (names && py->PyDict_Next(names, &at, &group, &value)) {
        struct pb_comm_group *g = pb_comm_group(c, group);

        pb_comm_blank(c, op.row);
        if (!g)
            continue;
        op.row[PB_COMM_AT_group_name].name = g->name;
        op.row[PB_COMM_AT_group_size].i = g->size;
        op.row[PB_COMM_AT_seq].i = pb_comm_sequence(c, group);
        if (op.row[PB_COMM_AT_seq].i >= 0)
            pb_comm_begin(c, &op, c->seen);
    }
    py->PyErr_Clear();
    py->Py_DecRef(names);
}

static void name_things(struct pb_comm *c)
{
    struct pb_ring *r = c->ring;

    c->started = pb_ring_name(r, "started", 7);
    c->enqueued = pb_ring_name(r, "enqueued", 8);
    c->done = pb_ring_name(r, "done", 4);
    c->failed = pb_ring_name(r, "failed", 6);
    c->dropped = pb_ring_name(r, "dropped", 7);
    c->seen = pb_ring_name(r, "seen", 4);
    c->job = job_name(c);
    for (size_t i = 0; pb_comm_kinds[i].method; i++)
        c->ops_named[i] = pb_ring_name(r, pb_comm_kinds[i].op, strlen(pb_comm_kinds[i].op));
}

static int put_all(struct pb_comm *c, struct _object *group, struct _object *work,
                   struct pb_err *err)
{
    const struct pb_py *py = &c->self->py;
    int found = 0;

    for (size_t i = 0; pb_comm_kinds[i].method; i++)
        found += put(py, &c->methods[i], group, &operations[i], i);
    for (size_t i = 0; i < 2; i++)
        put(py, &c->waits[i], work, &wait_methods[i], i);
    return found ? 0 : pb_err_set(err, PB_FAIL, "torch's process groups have no known methods");
}

static int enter(struct pb_self *self, struct pb_err *err)
{
    struct pb_comm *c = pb_comm_state(self);
    const struct pb_py *py = &self->py;
    struct _object *module, *group, *work;
    struct pb_err part = {0};
    int rc = -1;

    c->self = self;
    if (self->py.free_threaded)
        return pb_err_set(err, PB_FAIL, "not for interpreters without a GIL");
    module = pb_collect_module(self, "torch.distributed.distributed_c10d");
    group = module ? py->PyObject_GetAttrString(module, "ProcessGroup") : NULL;
    work = module ? py->PyObject_GetAttrString(module, "Work") : NULL;
    py->PyErr_Clear();
    if (!group || !work) {
        pb_err_set(err, PB_FAIL, "this torch has no torch.distributed");
        goto out;
    }
    if (!c->module) {
        c->module = module;
        py->Py_IncRef(module);
        c->sequence = py->PyObject_GetAttrString(group, "_get_sequence_number_for_group");
        py->PyErr_Clear();
    }
    pb_comm_groups_forget(c);
    c->ring_number++;
    c->ring = pb_collect_ring(self, &table);
    if (!c->ring) {
        pb_err_set(err, PB_FAIL, "there is no room for python.comm");
        goto out;
    }
    name_things(c);
    if (put_all(c, group, work, err) < 0)
        goto out;
    if (pb_comm_cxx_enter(c, &part) < 0)
        pb_collect_note(self, part.msg);
    c->on = true;
    note_groups(c);
    rc = 0;
out:
    py->Py_DecRef(work);
    py->Py_DecRef(group);
    py->Py_DecRef(module);
    return rc;
}

/* Has an operation that nobody waits for come to its end? */
static bool is_completed(const struct pb_py *py, struct _object *work)
{
    struct _object *method = py->PyObject_GetAttrString(work, "is_completed");
    struct _object *answer = method ? py->PyObject_CallFunction(method, NULL) : NULL;
    bool yes = answer && py->PyObject_IsTrue(answer) == 1;

    py->PyErr_Clear();
    py->Py_DecRef(answer);
    py->Py_DecRef(method);
    return yes;
}

static void look_at(struct pb_comm *c, struct pb_comm_op *op, uint64_t now)
{
    const struct pb_py *py = &c->self->py;
    struct _object *work = op->weak ? py->PyObject_CallFunction(op->weak, NULL) : NULL;

    py->PyErr_Clear();
    if (!work)
        return;
    if (work == py->none) {
        if (!op->by_torch && !on_device(c, op))
            pb_comm_end(c, op, c->dropped, 0);
        let_go(c, op);
    } else if (!op->by_torch && !on_device(c, op) && is_completed(py, work)) {
        pb_comm_end(c, op, c->done, now);
        let_go(c, op);
    }
    py->Py_DecRef(work);
}

static void look(struct pb_self *self, uint64_t now)
{
    struct pb_comm *c = pb_comm_state(self);

    for (size_t i = 0; i < c->ops_used; i++)
        if (c->ops[i].work)
            look_at(c, &c->ops[i], now);
    pb_comm_cxx_look(c);
}

static void leave(struct pb_self *self)
{
    struct pb_comm *c = pb_comm_state(self);

    c->on = false;
    pb_comm_cxx_leave(c);
    for (size_t i = 0; pb_comm_kinds[i].method; i++)
        take_back(&self->py, &c->methods[i], pb_comm_kinds[i].method);
    for (size_t i = 0; i < 2; i++)
        take_back(&self->py, &c->waits[i], wait_methods[i].name);
    for (size_t i = 0; i < c->ops_used; i++)
        if (c->ops[i].work)
            let_go(c, &c->ops[i]);
    pb_comm_groups_forget(c);
    c->ring = NULL;
}

static void forked(struct pb_self *self)
{
    struct pb_comm *c = pb_comm_state(self);

    c->on = false;
    c->ring = NULL;
    /* Nobody else is here: what was under way is the parent's. */
    for (size_t i = 0; i < c->ops_used; i++) {
        c->ops[i].work = c->ops[i].weak = NULL;
        c->ops[i].life = PB_COMM_FREE;
    }
}
