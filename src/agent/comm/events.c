#include "agent/comm/events.h"

#include <string.h>

#include "agent/arch/hidden_return.h"
#include "agent/collectors/collect.h"
#include "agent/comm/comm.h"

#define TRIES 64
#define TEST_NAME "gloo:probing_self_test"

static struct pb_comm *comm(void)
{
    return pb_comm_state(pb_self());
}

/* An operation is not under way any more. */
static void stop_counting(struct pb_comm *c, struct pb_comm_op *op, uint64_t now)
{
    if (op->counts) {
        op->counts = false;
        c->events.in_flight--;
        pb_comm_time_end(c, now);
    }
}

/* Torch has deleted the event without ending it. */
static void abandon(struct pb_comm *c, struct pb_comm_op *op)
{
    op->by_torch = false;
    stop_counting(c, op, pb_clock_ns());
    pb_comm_op_release(op);
}

/* The complete and the deleting destructor of what C++ takes for an object of its own. */
static void delete_context(void *context)
{
    struct pb_comm_context *x = context;
    struct pb_comm_op *op = atomic_exchange(&x->op, NULL);

    if (op)
        abandon(comm(), op);
    x->taken = false;
}

static void (*const functions[])(void *) = {delete_context, delete_context};

/* The same for the self-test. */
static void delete_test(void *context)
{
    (void)context;
    comm()->events.tested++;
}

static void (*const test_functions[])(void *) = {delete_test, delete_test};
static const void *const test_object[] = {test_functions};

/*
 * What a name says: the backend in front of it, and some go by another name in Python. "send 0->1"
 * is what NCCL's are called; "coalesced" are those that were told one by one.
 */
static const char *operation(const char *name, bool *ret_device)
{
    static const char *const others[][2] = {
        {"all_reduce_barrier", "barrier"},
        {"_all_gather_base", "all_gather_into_tensor"},
        {"_reduce_scatter_base", "reduce_scatter_tensor"},
        {"_broadcast_oop", "broadcast"},
        {"_reduce_oop", "reduce"},
        {"allreduce_coalesced", "all_reduce_coalesced"},
        {"sparse_all_reduce", "all_reduce"},
        {"recvAnySource", "recv"},
    };

    *ret_device = strncmp(name, "nccl:", 5) == 0;
    if ((!*ret_device && strncmp(name, "gloo:", 5) != 0) || strcmp(name + 5, "coalesced") == 0)
        return NULL;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(name + 5, others[i][0]) == 0)
            return others[i][1];
    if (strncmp(name + 5, "send ", 5) == 0)
        return "send";
    return strncmp(name + 5, "recv ", 5) == 0 ? "recv" : name + 5;
}

static struct pb_comm_context *claim_context(struct pb_comm *c)
{
    for (int i = 0; i < TRIES; i++) {
        unsigned at = c->events.next_context++ % PB_COMM_CONTEXTS;

        if (!atomic_exchange(&c->events.contexts[at].taken, true))
            return &c->events.contexts[at];
    }
    return NULL;
}

/* From now on torch says when it is over; the context is a keeper. NULL: it will not say. */
static struct pb_comm_context *follow(struct pb_comm *c, struct pb_comm_op *op)
{
    struct pb_comm_context *t = claim_context(c);

    if (!t) {
        pb_comm_op_release(op);
        return NULL;
    }
    t->functions = functions;
    t->op = op;
    op->coalesced = op->device && op->name && c->gpu.coalescing > 0;
    if (op->device) {
        pb_comm_gpu_begins(c, op);
        return t;
    }
    op->by_torch = true;
    op->counts = true;
    c->events.in_flight++;
    pb_comm_time_begin(c, pb_clock_ns());
    return t;
}

void pb_comm_event_began(const void *record, void **ret);
void pb_comm_event_began(const void *record, void **ret)
{
    struct pb_comm *c = comm();
    const char *name = c->events.record.name(record), *op_name;
    struct pb_comm_op *op;
    bool device = false;

    *ret = NULL;
    op_name = name ? operation(name, &device) : NULL;
    if (!op_name)
        return;
    if (strcmp(name, TEST_NAME) == 0) {
        c->events.tested++;
        *ret = (void *)(uintptr_t)test_object;
        return;
    }
    op = pb_comm_match(c, op_name, device, record);
    if (op)
        *ret = follow(c, op);
}
PB_HIDDEN_RETURN(pb_comm_event_start, pb_comm_event_began)

static void finish(struct pb_comm *c, struct pb_comm_op *op)
{
    uint64_t now = pb_clock_ns();

    if (op->device) {
        /* With others it goes to the GPU later, and its handle knows more. */
        if (!op->coalesced)
            pb_comm_gpu_ends(c, op);
        return;
    }
    pb_comm_op_end(c, op, c->states.done, now);
    stop_counting(c, op, now);
}

static void ended(const void *record, void *context)
{
    struct pb_comm *c = comm();
    struct pb_comm_context *x = context;
    struct pb_comm_op *op;

    (void)record;
    if (context == (const void *)test_object) {
        c->events.tested++;
        return;
    }
    op = x ? atomic_exchange(&x->op, NULL) : NULL;
    if (op) {
        finish(c, op);
        pb_comm_op_release(op);
    }
}

bool pb_comm_events_is_ours(uintptr_t start, uintptr_t end)
{
    return start == (uintptr_t)pb_comm_event_start && end == (uintptr_t)ended;
}

/* GIL. One event of our own, as a program can make them: begins, ends, and is forgotten. */
static bool passes_test(struct pb_comm *c)
{
    const struct pb_py *py = &c->self->py;
    struct _object *module = pb_collect_module(c->self, "torch.autograd.profiler");
    struct _object *type = module ? py->PyObject_GetAttrString(module, "record_function") : NULL;
    struct _object *event = type ? py->PyObject_CallFunction(type, "s", TEST_NAME) : NULL;
    struct _object *in = event ? py->PyObject_GetAttrString(event, "__enter__") : NULL;
    struct _object *out = event ? py->PyObject_GetAttrString(event, "__exit__") : NULL;
    struct _object *a = NULL, *b = NULL;

    c->events.tested = 0;
    a = in && out ? py->PyObject_CallFunction(in, NULL) : NULL;
    b = a ? py->PyObject_CallFunction(out, "OOO", py->none, py->none, py->none) : NULL;
    py->PyErr_Clear();
    py->Py_DecRef(b);
    py->Py_DecRef(a);
    py->Py_DecRef(out);
    py->Py_DecRef(in);
    py->Py_DecRef(event);
    py->Py_DecRef(type);
    py->Py_DecRef(module);
    return c->events.tested == 3;
}

int pb_comm_events_enter(struct pb_comm *c, struct pb_err *err)
{
    struct pb_record_callback ours = {.start = pb_comm_event_start, .end = ended, .probability = 1};

    pb_comm_events_poll(c);
    if (c->events.installed)
        return 0;
    if (!pb_record_find(&c->events.record))
        return pb_err_set(err, PB_FAIL, "torch's events were not found: what it sends by itself "
                                        "is not seen");
    ours.scopes[PB_RECORD_USER] = 1;
    c->events.callback = c->events.record.add(ours);
    c->events.installed = true;
    if (passes_test(c)) {
        pb_comm_tensor_learn(c);
        return 0;
    }
    pb_comm_events_leave(c);
    return pb_err_set(err, PB_FAIL, "torch's events did not pass their test: what it sends by "
                                    "itself is not seen");
}

void pb_comm_events_leave(struct pb_comm *c)
{
    if (c->events.installed)
        c->events.record.remove(c->events.callback);
    c->events.installed = false;
    c->events.only = false;
}

/* Torch may be between its counting and ours: a difference that stays is ours to mend. */
static void follow_count(struct pb_comm *c, int64_t count)
{
    int64_t behind = count - c->events.seq;

    if (behind && behind == c->events.behind)
        c->events.seq = count;
    c->events.behind = behind;
}

static void watch_group(struct pb_comm *c, struct _object *group)
{
    struct pb_comm_group *g = pb_comm_group(c, group);

    if (g)
        pb_comm_watch(c, g, group);
}

void pb_comm_events_poll(struct pb_comm *c)
{
    const struct pb_py *py = &c->self->py;
    struct _object *group = NULL;
    struct pb_comm_group *g = NULL;
    int64_t count;
    int found = 0;

    pb_comm_groups_each(c, watch_group);
    for (int i = 0; i < PB_COMM_GROUPS; i++)
        if (c->groups.list[i].weak) {
            g = &c->groups.list[i];
            found++;
        }
    if (found == 1)
        group = py->PyObject_CallFunction(g->weak, NULL);
    py->PyErr_Clear();
    count = group && group != py->none ? pb_comm_sequence(c, group, true) : -1;
    py->Py_DecRef(group);
    pb_comm_match_poll(c);
    if (count < 0) {
        c->events.only = false;
    } else if (!c->events.only) {
        c->events.group = g->name;
        c->events.size = g->size;
        c->events.seq = count - g->skew[0];
        c->events.behind = 0;
        c->events.only = true;
    } else {
        c->events.group = g->name;
        follow_count(c, count - g->skew[0]);
    }
}
