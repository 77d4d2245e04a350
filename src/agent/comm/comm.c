#include "agent/comm/comm.h"

#include <string.h>
#include <unistd.h>

#include "agent/collectors/collect.h"
#include "schema/table.h"

static int enter(struct pb_self *self, struct pb_err *err);
static void poll(struct pb_self *self, uint64_t now);
static void leave(struct pb_self *self);
static void forked(struct pb_self *self);

const struct pb_collector pb_collector_torch_comm = {
    .name = "torch_comm",
    .doc = "communication between ranks through torch.distributed",
    .on = PB_SET_TORCH_COMM,
    .enter = enter,
    .awaits = "torch",
    .poll = poll,
    .leave = leave,
    .forked = forked,
    .state_size = sizeof(struct pb_comm),
};

PB_TABLE_COLUMNS(PB_PYTHON_COMM);
static const struct pb_ring_spec table = {
    PB_TABLE_SPEC(PB_PYTHON_COMM_NAME, PB_PYTHON_COMM_DOC),
    .rows = 32768,
    .flags = PB_RING_KEEP,
};

struct pb_comm *pb_comm_state(struct pb_self *self)
{
    return pb_collect_state(self, PB_COLLECTOR_ID_torch_comm);
}

/* Copies an environment variable; its length, 0 when it is not set or too long. */
static size_t read_variable(struct pb_comm *c, struct _object *get, const char *name, char *to,
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

/* Dictionary: address of the master, which all ranks of a job have in common. */
static uint32_t job_name(struct pb_comm *c)
{
    const struct pb_py *py = &c->self->py;
    struct _object *os = pb_collect_module(c->self, "os");
    struct _object *env = os ? py->PyObject_GetAttrString(os, "environ") : NULL;
    struct _object *get = env ? py->PyObject_GetAttrString(env, "get") : NULL;
    char job[256];
    size_t len = get ? read_variable(c, get, "MASTER_ADDR", job, sizeof job - 32) : 0;
    uint32_t name = PB_NULL_NAME;

    if (len) {
        job[len++] = ':';
        len += read_variable(c, get, "MASTER_PORT", job + len, 16);
        name = pb_comm_name(c, job, len);
    }
    py->PyErr_Clear();
    py->Py_DecRef(get);
    py->Py_DecRef(env);
    py->Py_DecRef(os);
    return name;
}

/* Row of a group as it stood at the start: who waits already has begun one operation more. */
static void write_group(struct pb_comm *c, struct _object *group)
{
    struct pb_comm_op op = {.ring_number = c->ring_number};
    struct pb_comm_group *g = pb_comm_group(c, group);

    if (!g)
        return;
    pb_comm_clear_row(c, op.row);
    op.row[PB_COMM_AT_group_name].name = g->name;
    op.row[PB_COMM_AT_group_size].i = g->size;
    op.row[PB_COMM_AT_seq].i = pb_comm_sequence(c, group, true);
    if (op.row[PB_COMM_AT_seq].i >= 0)
        pb_comm_op_begin(c, &op, c->states.seen);
}

static void set_names(struct pb_comm *c)
{
    struct pb_comm_states *s = &c->states;
    const struct {
        uint32_t *to;
        const char *text;
    } states[] = {{&s->started, "started"}, {&s->enqueued, "enqueued"}, {&s->done, "done"},
                  {&s->failed, "failed"},   {&s->dropped, "dropped"},   {&s->captured, "captured"},
                  {&s->seen, "seen"}};

    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        *states[i].to = pb_comm_name(c, states[i].text, strlen(states[i].text));
    c->job = job_name(c);
    for (size_t i = 0; pb_comm_kinds[i].method; i++) {
        const char *op = pb_comm_kinds[i].op;

        c->ops_named[i] = pb_comm_name(c, op, strlen(op));
        c->ops_shown[i] = pb_progress_name(c->self, op, strlen(op));
    }
}

/* A program may have its rank from elsewhere than the environment. */
static void learn_rank(struct pb_comm *c)
{
    const struct pb_py *py = &c->self->py;
    int64_t rank = -1, world;

    if (c->self->collect->rank < 0)
        rank = pb_py_call_int(py, c->groups.module, "get_rank");
    if (rank < 0)
        return;
    world = pb_py_call_int(py, c->groups.module, "get_world_size");
    pb_collect_set_rank(c->self, rank, world, -1);
}

/* Devices that name a backend of a group: from torch 2.0 on a group may have several. */
static void make_devices(struct pb_comm *c, struct _object *group)
{
    static const char *const names[PB_COMM_BACKENDS] = {"cuda", "cpu"};
    const struct pb_py *py = &c->self->py;
    struct _object *has = py->PyObject_GetAttrString(group, "_get_backend");
    struct _object *torch = has ? pb_collect_module(c->self, "torch") : NULL;
    struct _object *device = torch ? py->PyObject_GetAttrString(torch, "device") : NULL;

    for (int i = 0; device && i < PB_COMM_BACKENDS; i++)
        c->groups.devices[i] = py->PyObject_CallFunction(device, "s", names[i]);
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
    if (!c->groups.module) {
        c->groups.module = module;
        py->Py_IncRef(module);
        c->groups.sequence = py->PyObject_GetAttrString(group, "_get_sequence_number_for_group");
        py->PyErr_Clear();
        make_devices(c, group);
    }
    pb_progress_publish(self);
    pb_comm_groups_forget(c);
    c->ring_number++;
    learn_rank(c);
    c->ring = pb_collect_ring(self, &table);
    if (!c->ring) {
        pb_err_set(err, PB_FAIL, "there is no room for python.comm");
        goto out;
    }
    set_names(c);
    if (pb_comm_calls_enter(c, group, work, err) < 0)
        goto out;
    if (pb_comm_events_enter(c, &part) < 0)
        pb_collect_set_note(self, part.msg);
    c->on = true;
    pb_comm_groups_each(c, write_group);
    rc = 0;
out:
    py->Py_DecRef(work);
    py->Py_DecRef(group);
    py->Py_DecRef(module);
    return rc;
}

static void poll(struct pb_self *self, uint64_t now)
{
    struct pb_comm *c = pb_comm_state(self);

    pb_comm_calls_poll(c, now);
    pb_comm_gpu_poll(c);
    pb_comm_events_poll(c);
}

static void leave(struct pb_self *self)
{
    struct pb_comm *c = pb_comm_state(self);

    pb_comm_gpu_poll(c);
    c->on = false;
    pb_comm_events_leave(c);
    pb_comm_calls_leave(c);
    pb_comm_gpu_forget(c);
    pb_comm_groups_forget(c);
    c->ring = NULL;
}

/* Nobody else is here: what was under way is the parent's. */
static void forked(struct pb_self *self)
{
    struct pb_comm *c = pb_comm_state(self);

    c->pid = getpid();
    c->on = false;
    c->ring = NULL;
    c->ops.calls = c->ops.handles = 0;
    c->time.since_and_count = c->time.sum_ns = 0;
    c->events.in_flight = 0;
    pb_comm_gpu_forked(c);
    for (size_t i = 0; i < c->ops.used; i++) {
        struct pb_comm_op *op = &c->ops.list[i];

        op->work = op->weak = NULL;
        op->caller = 0;
        op->keepers = 0;
        op->life = PB_COMM_FREE;
    }
    for (size_t i = 0; i < PB_COMM_CONTEXTS && i < c->events.next_context; i++)
        c->events.contexts[i].op = NULL;
}
