#include "agent/collect/comm/comm.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "agent/collect/collect.h"
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

/* GIL: it is not found by its handle any more. */
static void detach(struct pb_comm *c, struct pb_comm_op *op)
{
    c->handles -= op->work != NULL;
    op->work = NULL;
}

/* GIL: Python will say no more of it. */
static void let_go(struct pb_comm *c, struct pb_comm_op *op)
{
    struct _object *weak = op->weak;

    detach(c, op);
    op->weak = NULL;
    c->self->py.Py_DecRef(weak);
    pb_comm_drop(op);
}

/* GIL, no exception pending. */
static struct pb_comm_op *begin(struct pb_comm *c, size_t kind, struct _object *args,
                                struct _object *kwargs)
{
    struct pb_comm_op *op = pb_comm_take(c);

    if (!op)
        return NULL;
    pb_comm_describe(c, kind, args, kwargs, op);
    op->name = pb_comm_kinds[kind].op;
    pb_comm_begin(c, op, op->device ? c->enqueued : c->started);
    pb_comm_busy(c, op->began_ns);
    op->caller = (uintptr_t)pthread_self();
    c->calls++;
    return op;
}

/* What is put on a stream waits where the GPU is far behind, or hangs: others have the GIL then. */
static void mark(struct pb_comm *c, struct pb_comm_op *op,
                 void (*put)(struct pb_comm *, struct pb_comm_op *))
{
    void *state = c->self->py.PyEval_SaveThread();

    put(c, op);
    c->self->py.PyEval_RestoreThread(state);
}

/*
 * The stream waits for it: what comes behind it there is later than its end. GIL, no exception
 * pending.
 */
static void mark_end(struct pb_comm *c, struct pb_comm_op *op)
{
    mark(c, op, pb_comm_gpu_ends);
    if (op->marks != PB_COMM_BOTH) /* nobody will see it */
        pb_comm_end(c, op, c->dropped, 0);
}

/* GIL, no exception pending. */
static void keep_handle(struct pb_comm *c, struct pb_comm_op *op, struct _object *work)
{
    op->work = work;
    c->handles++;
    op->weak = c->self->py.PyWeakref_NewRef(work, NULL);
    c->self->py.PyErr_Clear();
}

/* GIL; an exception is pending when there is no result. */
static void returned(struct pb_comm *c, struct pb_comm_op *op, struct _object *result)
{
    const struct pb_py *py = &c->self->py;
    uint64_t now = pb_clock_ns();

    pb_comm_idle(c, now);
    if (result && op->coalesced)
        return; /* its handle is that of all of them, when they end */
    if (result && result != py->none) {
        keep_handle(c, op, result);
        return;
    }
    if (result && op->by_wait)
        mark_end(c, op);
    if (!result || !op->device)
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
    bool quiet = op && pb_comm_quiet_begin(c, kind, args, kwargs, op);
    struct _object *result;

    if (quiet && op->device) {
        op->by_wait = true;
        mark(c, op, pb_comm_gpu_begins);
    }
    result = py->PyObject_Call(c->methods[kind].call, args, kwargs);
    if (quiet)
        pb_comm_quiet_end(c);
    if (op) {
        op->caller = 0;
        c->calls--;
    }
    /* The collector may have left meanwhile, and come again. */
    if (op && result && c->on && op->ring_number == c->ring_number)
        pb_comm_settle(c, kind, args, op);
    if (op)
        returned(c, op, result);
    return result;
}

/* The operations that were collected have gone to the GPU; work is the handle of all. */
static void coalesced(struct pb_comm *c, struct _object *work)
{
    const struct pb_py *py = &c->self->py;

    for (size_t i = 0; i < c->ops_used; i++) {
        struct pb_comm_op *op = &c->ops[i];

        if (!op->coalesced || op->caller || op->work || op->life != PB_COMM_OPEN)
            continue;
        if (work && work != py->none) {
            keep_handle(c, op, work);
        } else {
            if (!work)
                pb_comm_end(c, op, c->failed, pb_clock_ns());
            let_go(c, op);
        }
    }
}

enum { START_COALESCING, END_COALESCING, REGISTER, SET_SEQUENCE };

/* In place of other methods of ProcessGroup: number of the method, (group, …). */
static struct _object *on_making(struct _object *number, struct _object *args,
                                 struct _object *kwargs)
{
    struct pb_comm *c = pb_comm_state(pb_self());
    const struct pb_py *py = &c->self->py;
    size_t which = (size_t)py->PyLong_AsLongLong(number);
    struct _object *result;

    if (which == START_COALESCING)
        c->gpu.coalescing++;
    result = py->PyObject_Call(c->makers[which].call, args, kwargs);
    if (which == END_COALESCING || (which == START_COALESCING && !result))
        c->gpu.coalescing -= c->gpu.coalescing > 0;
    if (!c->on)
        return result;
    if (which == END_COALESCING)
        coalesced(c, result);
    if (which == REGISTER && py->PyTuple_Size(args) > 0)
        pb_comm_backends_forget(c, py->PyTuple_GetItem(args, 0));
    if (result && which >= REGISTER)
        pb_comm_cxx_look(c);
    return result;
}

/* GIL; an exception is pending when the wait failed. */
static void waited_for(struct pb_comm *c, struct pb_comm_op *op, bool good, uint64_t now)
{
    bool by_wait = op->coalesced || op->by_wait;

    detach(c, op);
    op->coalesced = false;
    if (good && by_wait)
        mark_end(c, op);
    if (!good || !op->device)
        pb_comm_end(c, op, good ? c->done : c->failed, now);
    /* Torch says only that it is over. */
    if (!good && op->row[PB_COMM_AT_state].name == c->done)
        pb_comm_amend(c, op, c->failed, now);
    let_go(c, op);
}

static void waited(struct pb_comm *c, const struct _object *work, bool good, uint64_t now)
{
    int left = c->handles;

    for (size_t i = 0; left > 0 && i < c->ops_used; i++) {
        left -= c->ops[i].work != NULL;
        if (c->ops[i].work == work)
            waited_for(c, &c->ops[i], good, now);
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
    struct _object *result;
    uint64_t now;

    pb_comm_busy(c, pb_clock_ns());
    result = py->PyObject_Call(c->waits[which].call, args, kwargs);
    now = pb_clock_ns();
    pb_comm_idle(c, now);
    if (c->on && work)
        waited(c, work, result != NULL, now);
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
static struct pb_py_method makings[] = {
    [START_COALESCING] = {"_start_coalescing", CALLABLE(on_making),
                          PB_PY_VARARGS | PB_PY_KEYWORDS, NULL},
    [END_COALESCING] = {"_end_coalescing", CALLABLE(on_making), PB_PY_VARARGS | PB_PY_KEYWORDS,
                        NULL},
    [REGISTER] = {"_register_backend", CALLABLE(on_making), PB_PY_VARARGS | PB_PY_KEYWORDS, NULL},
    [SET_SEQUENCE] = {"_set_sequence_number_for_group", CALLABLE(on_making),
                      PB_PY_VARARGS | PB_PY_KEYWORDS, NULL},
};
#define MAKINGS (sizeof makings / sizeof *makings)

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
        name = pb_comm_name(c, job, len);
    }
    py->PyErr_Clear();
    py->Py_DecRef(get);
    py->Py_DecRef(environ);
    py->Py_DecRef(os);
    return name;
}

/* Where a group stood when we came: who already waits then has begun one more. */
static void note_group(struct pb_comm *c, struct _object *group)
{
    struct pb_comm_op op = {.ring_number = c->ring_number};
    struct pb_comm_group *g = pb_comm_group(c, group);

    if (!g)
        return;
    pb_comm_blank(c, op.row);
    op.row[PB_COMM_AT_group_name].name = g->name;
    op.row[PB_COMM_AT_group_size].i = g->size;
    op.row[PB_COMM_AT_seq].i = pb_comm_sequence(c, group, true);
    if (op.row[PB_COMM_AT_seq].i >= 0)
        pb_comm_begin(c, &op, c->seen);
}

static void name_things(struct pb_comm *c)
{
    c->started = pb_comm_name(c, "started", 7);
    c->enqueued = pb_comm_name(c, "enqueued", 8);
    c->done = pb_comm_name(c, "done", 4);
    c->failed = pb_comm_name(c, "failed", 6);
    c->dropped = pb_comm_name(c, "dropped", 7);
    c->captured = pb_comm_name(c, "captured", 8);
    c->seen = pb_comm_name(c, "seen", 4);
    c->job = job_name(c);
    for (size_t i = 0; pb_comm_kinds[i].method; i++)
        c->ops_named[i] = pb_comm_name(c, pb_comm_kinds[i].op, strlen(pb_comm_kinds[i].op));
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
    for (size_t i = 0; i < MAKINGS; i++)
        put(py, &c->makers[i], group, &makings[i], i);
    return found ? 0 : pb_err_set(err, PB_FAIL, "torch's process groups have no known methods");
}

/* A program may have its rank from elsewhere than the environment. */
static void learn_rank(struct pb_comm *c)
{
    const struct pb_py *py = &c->self->py;
    int64_t rank = -1;

    if (c->self->collect.rank < 0)
        rank = pb_comm_int(py, c->module, "get_rank", true);
    if (rank >= 0)
        pb_collect_rank(c->self, rank, pb_comm_int(py, c->module, "get_world_size", true), -1);
}

/* What names a backend of a group: from torch 2.0 on a group may have several. */
static void make_devices(struct pb_comm *c, struct _object *group)
{
    static const char *const names[PB_COMM_BACKENDS] = {"cuda", "cpu"};
    const struct pb_py *py = &c->self->py;
    struct _object *has = py->PyObject_GetAttrString(group, "_get_backend");
    struct _object *torch = has ? pb_collect_module(c->self, "torch") : NULL;
    struct _object *device = torch ? py->PyObject_GetAttrString(torch, "device") : NULL;

    for (int i = 0; device && i < PB_COMM_BACKENDS; i++)
        c->devices[i] = py->PyObject_CallFunction(device, "s", names[i]);
    py->PyErr_Clear();
    py->Py_DecRef(device);
    py->Py_DecRef(torch);
    py->Py_DecRef(has);
}

static int enter(struct pb_self *self, struct pb_err *err)
{
    struct pb_comm *c = pb_comm_state(self);
    const struct pb_py *py = &self->py;
    struct _object *module, *group, *work;
    struct pb_err part = {0};
    int rc = -1;

    c->self = self;
    c->pid = getpid();
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
        make_devices(c, group);
    }
    pb_comm_groups_forget(c);
    c->ring_number++;
    learn_rank(c);
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
    pb_comm_groups_look(c, note_group);
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

/*
 * A handle of work on a GPU is not asked: it would ask the driver in a way that breaks a graph that
 * somebody captures.
 */
static void look_at(struct pb_comm *c, struct pb_comm_op *op, uint64_t now)
{
    const struct pb_py *py = &c->self->py;
    struct _object *work = op->weak ? py->PyObject_CallFunction(op->weak, NULL) : NULL;
    bool unmarked = !op->by_torch;

    if (op->device)
        unmarked = (op->coalesced || op->by_wait) && op->marks != PB_COMM_BOTH;
    py->PyErr_Clear();
    if (!work)
        return;
    if (work == py->none) {
        if (unmarked)
            pb_comm_end(c, op, c->dropped, 0);
        let_go(c, op);
    } else if (unmarked && !op->device && is_completed(py, work)) {
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
    pb_comm_gpu_poll(c);
    pb_comm_cxx_look(c);
}

static void leave(struct pb_self *self)
{
    struct pb_comm *c = pb_comm_state(self);

    pb_comm_gpu_poll(c);
    c->on = false;
    pb_comm_cxx_leave(c);
    for (size_t i = 0; pb_comm_kinds[i].method; i++)
        take_back(&self->py, &c->methods[i], pb_comm_kinds[i].method);
    for (size_t i = 0; i < 2; i++)
        take_back(&self->py, &c->waits[i], wait_methods[i].name);
    for (size_t i = 0; i < MAKINGS; i++)
        take_back(&self->py, &c->makers[i], makings[i].name);
    for (size_t i = 0; i < c->ops_used; i++)
        if (c->ops[i].work)
            let_go(c, &c->ops[i]);
    pb_comm_gpu_forget(c);
    pb_comm_groups_forget(c);
    c->ring = NULL;
}

static void forked(struct pb_self *self)
{
    struct pb_comm *c = pb_comm_state(self);

    c->pid = getpid();
    c->on = false;
    c->ring = NULL;
    c->calls = c->handles = 0;
    c->busy = c->busy_ns = 0;
    c->cxx.in_flight = 0;
    pb_comm_gpu_forked(c);
    /* Nobody else is here: what was under way is the parent's. */
    for (size_t i = 0; i < c->ops_used; i++) {
        c->ops[i].work = c->ops[i].weak = NULL;
        c->ops[i].caller = 0;
        c->ops[i].holders = 0;
        c->ops[i].life = PB_COMM_FREE;
    }
    for (size_t i = 0; i < PB_COMM_TICKETS && i < c->cxx.next_ticket; i++)
        c->cxx.tickets[i].op = NULL;
}
