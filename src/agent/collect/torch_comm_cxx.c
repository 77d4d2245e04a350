/*
 * Operations that torch begins by itself, as DistributedDataParallel does in C++: torch's own
 * profiling events say when they begin and end. They name the operation, but neither its group
 * nor its size: the group is told where the process has only one.
 *
 * Torch calls these functions from any thread and without the GIL, and may call `ended` for one
 * that is under way long after the callback was removed. So what they need is found once and
 * stays.
 */
#include <dlfcn.h>
#include <string.h>

#include "agent/arch/hidden_return.h"
#include "agent/arch/symver.h"
#include "agent/collect/collect.h"
#include "agent/collect/torch.h"
#include "agent/collect/torch_comm.h"
#include "base/clock.h"

#define SCOPE_USER 7
#define TEST_NAME "gloo:probing_self_test"

static struct pb_comm *comm(void)
{
    return pb_comm_state(pb_self());
}

/* The complete and the deleting destructor of an object that C++ believes to be its own. */
static void forget(void *context)
{
    pb_comm_drop(context);
}

static void (*const functions[])(void *) = {forget, forget};

/* The self-test's own. */
static void forget_test(void *context)
{
    (void)context;
    comm()->cxx.tested++;
}

static void (*const test_functions[])(void *) = {forget_test, forget_test};
static const void *const test_object[] = {test_functions};

static void describe(struct pb_comm *c, struct pb_comm_op *op, const char *name)
{
    pb_comm_blank(c, op->row);
    op->row[PB_COMM_AT_op].name = pb_ring_name(c->ring, name, strlen(name));
    /* Whom a message is for is not known; which rank has sent it only then. */
    if (strcmp(name, "recv") != 0 && c->self->collect.rank >= 0)
        op->row[PB_COMM_AT_src_rank].i = c->self->collect.rank;
    if (c->cxx.only) {
        op->row[PB_COMM_AT_group_name].name = c->cxx.group;
        op->row[PB_COMM_AT_group_size].i = c->cxx.size;
        if (strcmp(name, "send") != 0 && strcmp(name, "recv") != 0)
            op->row[PB_COMM_AT_seq].i = ++c->cxx.seq;
    }
}

/* What a name says: the backend in front of it, and some go by another name in Python. */
static const char *operation(const char *name, bool *ret_device)
{
    static const char *const others[][2] = {
        {"all_reduce_barrier", "barrier"},
        {"_all_gather_base", "all_gather_into_tensor"},
        {"_reduce_scatter_base", "reduce_scatter_tensor"},
    };

    *ret_device = strncmp(name, "nccl:", 5) == 0;
    if (!*ret_device && strncmp(name, "gloo:", 5) != 0)
        return NULL;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(name + 5, others[i][0]) == 0)
            return others[i][1];
    return name + 5;
}

/* One holder more, of an operation that has not been given up meanwhile. */
static bool hold(struct pb_comm_op *op)
{
    int n = op->holders;

    while (n > 0)
        if (atomic_compare_exchange_weak(&op->holders, &n, n + 1))
            return true;
    return false;
}

/*
 * The operation that Python began and torch now speaks of, from the thread that does the work: the
 * oldest one of that name. "all_gather" stands for "all_gather_into_tensor", too. Held, or NULL.
 */
static struct pb_comm_op *match(struct pb_comm *c, const char *name)
{
    size_t n = c->ops_used, len = strlen(name);
    struct pb_comm_op *best = NULL;

    for (size_t i = 0; i < n; i++) {
        struct pb_comm_op *op = &c->ops[i];

        if (op->life != PB_COMM_OPEN || op->matched || !hold(op))
            continue;
        if (op->life == PB_COMM_OPEN && op->name && strncmp(op->name, name, len) == 0 &&
            (!best || op->began_ns < best->began_ns)) {
            if (best)
                pb_comm_drop(best);
            best = op;
        } else {
            pb_comm_drop(op);
        }
    }
    if (best && atomic_exchange(&best->matched, true)) {
        pb_comm_drop(best);
        return NULL;
    }
    return best;
}

/* One that Python knows nothing of. */
static struct pb_comm_op *begin(struct pb_comm *c, const char *name, bool device)
{
    struct pb_comm_op *op = c->on && c->ring ? pb_comm_take(c) : NULL;

    if (op) {
        op->matched = true;
        describe(c, op, name);
        if (!device && atomic_fetch_add(&c->cxx.in_flight, 1) == 0)
            c->cxx.busy_ns = pb_clock_ns();
        pb_comm_begin(c, op, device ? c->enqueued : c->started);
    }
    return op;
}

void pb_comm_cxx_began(const void *record, void **ret);
void pb_comm_cxx_began(const void *record, void **ret)
{
    struct pb_comm *c = comm();
    const char *name = c->cxx.name(record), *op_name;
    struct pb_comm_op *op;
    bool device = false;

    *ret = NULL;
    op_name = name ? operation(name, &device) : NULL;
    if (!op_name)
        return;
    if (strcmp(name, TEST_NAME) == 0) {
        c->cxx.tested++;
        *ret = (void *)(uintptr_t)test_object;
        return;
    }
    op = match(c, op_name);
    if (!op)
        op = begin(c, op_name, device);
    if (!op)
        return;
    if (device) { /* its work is not over when torch has handed it to the GPU */
        pb_comm_drop(op);
        return;
    }
    op->functions = functions;
    op->by_torch = true;
    *ret = op;
}
PB_HIDDEN_RETURN(pb_comm_cxx_start, pb_comm_cxx_began)

static void finish(struct pb_comm *c, struct pb_comm_op *op, uint64_t now)
{
    struct pb_torch *t = pb_torch_state(c->self);
    uint64_t since = c->cxx.busy_ns;

    pb_comm_end(c, op, c->done, now);
    /* Time with any under way, not the sum: they overlap. */
    if (!op->name && atomic_fetch_sub(&c->cxx.in_flight, 1) == 1 && t && t->on)
        __atomic_fetch_add(&t->sums.comm_ns, now - since, __ATOMIC_RELAXED);
}

static void ended(const void *record, void *context)
{
    struct pb_comm *c = comm();

    (void)record;
    if (context == (const void *)test_object)
        c->cxx.tested++;
    else if (context)
        finish(c, context, pb_clock_ns());
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

    c->cxx.tested = 0;
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
    return c->cxx.tested == 3;
}

static bool find_functions(struct pb_comm_cxx *x)
{
    void *library;

    if (x->looked_for)
        return x->add && x->remove && x->name;
    x->looked_for = true;
    library = dlopen("libtorch_cpu.so", RTLD_NOLOAD | RTLD_LAZY);
    if (!library)
        return false;
    x->add = (uint64_t(*)(struct pb_comm_callback))(uintptr_t)dlsym(
        library, "_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE");
    x->remove = (void (*)(uint64_t))(uintptr_t)dlsym(library, "_ZN2at14removeCallbackEm");
    x->name = (const char *(*)(const void *))(uintptr_t)dlsym(library,
                                                             "_ZNK2at14RecordFunction4nameEv");
    return x->add && x->remove && x->name;
}

int pb_comm_cxx_enter(struct pb_comm *c, struct pb_err *err)
{
    struct pb_comm_callback ours = {.start = pb_comm_cxx_start, .end = ended, .probability = 1};

    pb_comm_cxx_look(c);
    if (c->cxx.in)
        return 0;
    if (!find_functions(&c->cxx))
        return pb_err_set(err, PB_FAIL, "torch's events were not found: what it sends by itself "
                                        "is not seen");
    ours.scopes[SCOPE_USER] = 1;
    c->cxx.callback = c->cxx.add(ours);
    c->cxx.in = true;
    if (passes_test(c))
        return 0;
    pb_comm_cxx_leave(c);
    return pb_err_set(err, PB_FAIL, "torch's events did not pass their test: what it sends by "
                                    "itself is not seen");
}

void pb_comm_cxx_leave(struct pb_comm *c)
{
    if (c->cxx.in)
        c->cxx.remove(c->cxx.callback);
    c->cxx.in = false;
    c->cxx.only = false;
}

/* The only group there is; a reference, or NULL. */
static struct _object *only_group(struct pb_comm *c)
{
    const struct pb_py *py = &c->self->py;
    struct _object *names = py->PyObject_GetAttrString(c->module, "_pg_names");
    struct _object *group = NULL, *value;
    ssize_t at = 0;

    py->PyErr_Clear();
    if (names && py->PyDict_Size(names) == 1 && py->PyDict_Next(names, &at, &group, &value))
        py->Py_IncRef(group);
    py->PyErr_Clear();
    py->Py_DecRef(names);
    return group;
}

/* Torch may be between its counting and ours: what differs twice alike is wrong. */
static void follow_count(struct pb_comm *c, int64_t count)
{
    int64_t behind = count - c->cxx.seq;

    if (behind && behind == c->cxx.behind)
        c->cxx.seq = count;
    c->cxx.behind = behind;
}

void pb_comm_cxx_look(struct pb_comm *c)
{
    const struct pb_py *py = &c->self->py;
    struct _object *group = only_group(c);
    struct pb_comm_group *g = group ? pb_comm_group(c, group) : NULL;
    int64_t count = g ? pb_comm_sequence(c, group) : -1;

    if (count < 0) {
        c->cxx.only = false;
    } else if (!c->cxx.only) {
        c->cxx.group = g->name;
        c->cxx.size = g->size;
        c->cxx.seq = count - g->skew;
        c->cxx.behind = 0;
        c->cxx.only = true;
    } else {
        follow_count(c, count - g->skew);
    }
    py->Py_DecRef(group);
}
