/*
 * Operations that torch begins by itself, as DistributedDataParallel does in C++: torch's own
 * profiling events say when they begin and end, and have their tensors. They do not name the
 * group: that is the one whose counter has moved (watch.c), or the only one there is.
 *
 * Torch calls these functions from any thread and without the GIL, and may call `ended` for one
 * that is under way long after the callback was removed. So what they need is found once and
 * stays.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "agent/arch/hidden_return.h"
#include "agent/arch/symver.h"
#include "agent/collect/collect.h"
#include "agent/collect/comm/comm.h"
#include "agent/collect/torch/torch.h"
#include "base/clock.h"

#define SCOPE_USER 7
#define TRIES 64
#define TEST_NAME "gloo:probing_self_test"

static struct pb_comm *comm(void)
{
    return pb_comm_state(pb_self());
}

/* Torch counts it no longer among what is under way. */
static void stop_counting(struct pb_comm *c, struct pb_comm_op *op, uint64_t now)
{
    if (op->counts) {
        op->counts = false;
        c->cxx.in_flight--;
        pb_comm_idle(c, now);
    }
}

/* Torch has forgotten it and said nothing. */
static void give_up(struct pb_comm *c, struct pb_comm_op *op)
{
    op->by_torch = false;
    stop_counting(c, op, pb_clock_ns());
    pb_comm_drop(op);
}

/* The complete and the deleting destructor of an object that C++ believes to be its own. */
static void forget(void *context)
{
    struct pb_comm_ticket *t = context;
    struct pb_comm_op *op = atomic_exchange(&t->op, NULL);

    if (op)
        give_up(comm(), op);
    t->taken = false;
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

/* A message is numbered by the pair that it is between, which is not told. */
static bool is_message(const char *name)
{
    return strcmp(name, "send") == 0 || strcmp(name, "recv") == 0;
}

/* Which group it is of, and its number there. */
static void describe_group(struct pb_comm *c, union pb_cell *row, const char *name)
{
    struct pb_comm_watch *w = NULL;
    int64_t seq = -1;

    /* Torch may tell of it before it has counted it: then nothing has moved yet. */
    if (c->cxx.counts_first)
        seq = pb_comm_watch_moved(c, &w);
    if (w) {
        row[PB_COMM_AT_group_name].name = w->name;
        row[PB_COMM_AT_group_size].i = w->size;
        if (c->cxx.only)
            c->cxx.seq = seq;
    } else if (c->cxx.only) {
        row[PB_COMM_AT_group_name].name = c->cxx.group;
        row[PB_COMM_AT_group_size].i = c->cxx.size;
        seq = is_message(name) ? -1 : ++c->cxx.seq;
    }
    if (seq >= 0 && !is_message(name))
        row[PB_COMM_AT_seq].i = seq;
}

static void describe(struct pb_comm *c, struct pb_comm_op *op, const char *name)
{
    op->row[PB_COMM_AT_op].name = pb_comm_name(c, name, strlen(name));
    /* Whom a message is for is not known; which rank has sent it only then. */
    if (strcmp(name, "recv") != 0 && c->self->collect.rank >= 0)
        op->row[PB_COMM_AT_src_rank].i = c->self->collect.rank;
    if (strcmp(name, "barrier") == 0)
        op->row[PB_COMM_AT_bytes].i = 0;
    describe_group(c, op->row, name);
}

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

/* The operation whose call from Python this thread is in: torch begins it within. Held, or NULL. */
static struct pb_comm_op *caller_of(struct pb_comm *c)
{
    uintptr_t self = (uintptr_t)pthread_self();
    size_t n = c->calls > 0 ? c->ops_used : 0;

    for (size_t i = 0; i < n; i++)
        if (c->ops[i].caller == self && pb_comm_hold(&c->ops[i])) {
            if (c->ops[i].caller == self)
                return &c->ops[i];
            pb_comm_drop(&c->ops[i]);
        }
    return NULL;
}

/*
 * Can an event of this name be for what Python called by that one? "all_gather" stands for
 * "all_gather_into_tensor", too, and gloo reduces before it scatters.
 */
static bool is_called(const char *called, const char *name)
{
    return strncmp(called, name, strlen(name)) == 0 ||
           (strcmp(name, "all_reduce") == 0 && strncmp(called, "reduce_scatter", 14) == 0);
}

/* With as much data as the event has, or else the older one. */
static bool is_better(struct pb_comm *c, const struct pb_comm_op *op,
                      const struct pb_comm_op *than, const void *record)
{
    union pb_cell row[PB_COMM_COLUMNS];
    bool fits, other_fits;

    pb_comm_blank(c, row);
    pb_comm_tensor_measure(c, record, row);
    fits = op->row[PB_COMM_AT_bytes].i == row[PB_COMM_AT_bytes].i;
    other_fits = than->row[PB_COMM_AT_bytes].i == row[PB_COMM_AT_bytes].i;
    return fits > other_fits || (fits == other_fits && op->began_ns < than->began_ns);
}

/*
 * The operation that Python began and torch now speaks of, on a thread that does the work: the
 * oldest one of that name, with as much data if there is one. Held, or NULL.
 */
static struct pb_comm_op *match(struct pb_comm *c, const char *name, const void *record)
{
    size_t n = c->ops_used;
    struct pb_comm_op *best = NULL;

    for (size_t i = 0; i < n; i++) {
        struct pb_comm_op *op = &c->ops[i];

        if (op->life != PB_COMM_OPEN || op->matched || !pb_comm_hold(op))
            continue;
        if (op->life == PB_COMM_OPEN && op->name && is_called(op->name, name) &&
            (!best || is_better(c, op, best, record))) {
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

/* From now on a counter that moves tells whose an event is. */
static void set_order(struct pb_comm *c)
{
    pb_comm_watch_from_here(c);
    c->cxx.counts_first = true;
}

/* Torch has told of an operation that Python began: has it been counted by then? */
static void learn_order(struct pb_comm *c, const struct pb_comm_op *op)
{
    if (c->cxx.counts_first || !op->watch || !op->watch->at || op->before < 0)
        return;
    if (pb_comm_watch_count(c, op->watch) > op->before)
        set_order(c);
}

/* One that Python knows nothing of. */
static struct pb_comm_op *begin(struct pb_comm *c, const char *name, bool device,
                                const union pb_cell *row)
{
    struct pb_comm_op *op = c->on && c->ring ? pb_comm_take(c) : NULL;

    if (op) {
        op->matched = true;
        op->device = device;
        memcpy(op->row, row, sizeof op->row);
        describe(c, op, name);
        pb_comm_begin(c, op, device ? c->enqueued : c->started);
    }
    return op;
}

static struct pb_comm_ticket *take_ticket(struct pb_comm *c)
{
    for (int i = 0; i < TRIES; i++) {
        struct pb_comm_ticket *t = &c->cxx.tickets[c->cxx.next_ticket++ % PB_COMM_TICKETS];

        if (!atomic_exchange(&t->taken, true))
            return t;
    }
    return NULL;
}

/* From now on torch says when it is over; the ticket has the hold. NULL: it says nothing. */
static struct pb_comm_ticket *follow(struct pb_comm *c, struct pb_comm_op *op)
{
    struct pb_comm_ticket *t = take_ticket(c);

    if (!t) {
        pb_comm_drop(op);
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
    c->cxx.in_flight++;
    pb_comm_busy(c, pb_clock_ns());
    return t;
}

/* Of an operation on the GPU that may be made of nothing but parts. */
static void begin_part(struct pb_comm *c, struct pb_comm_op *op)
{
    op->by_wait = true;
    if (op->marks == PB_COMM_UNMARKED)
        pb_comm_gpu_begins(c, op);
}

/* The operation that an event is about; held, or NULL for none of its own. */
static struct pb_comm_op *find(struct pb_comm *c, const char *name, bool device,
                               const void *record)
{
    struct pb_comm_op *op = caller_of(c);
    union pb_cell row[PB_COMM_COLUMNS];

    c->cxx.events++;
    c->cxx.total = c->cxx.counts_first ? 0 : pb_comm_watch_total(c);
    /* Within a call: the operation itself, or a part of it, or a check that all ranks agree. */
    if (op && (!is_called(op->name, name) || atomic_exchange(&op->matched, true))) {
        if (device)
            begin_part(c, op);
        pb_comm_drop(op);
        return NULL;
    }
    if (!op && !device)
        op = match(c, name, record);
    if (!op) {
        pb_comm_blank(c, row);
        pb_comm_tensor_measure(c, record, row);
        return begin(c, name, device, row);
    }
    learn_order(c, op);
    op->device = device;
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
    op = find(c, op_name, device, record);
    if (op)
        *ret = follow(c, op);
}
PB_HIDDEN_RETURN(pb_comm_cxx_start, pb_comm_cxx_began)

static void finish(struct pb_comm *c, struct pb_comm_op *op)
{
    uint64_t now = pb_clock_ns();

    if (op->device) {
        /* With others it goes to the GPU later, and its handle knows more. */
        if (!op->coalesced)
            pb_comm_gpu_ends(c, op);
        return;
    }
    pb_comm_end(c, op, c->done, now);
    stop_counting(c, op, now);
}

static void ended(const void *record, void *context)
{
    struct pb_comm *c = comm();
    struct pb_comm_ticket *t = context;
    struct pb_comm_op *op;

    (void)record;
    if (context == (const void *)test_object) {
        c->cxx.tested++;
        return;
    }
    op = t ? atomic_exchange(&t->op, NULL) : NULL;
    if (op) {
        finish(c, op);
        pb_comm_drop(op);
    }
}

bool pb_comm_cxx_is_ours(uintptr_t start, uintptr_t end)
{
    return start == (uintptr_t)pb_comm_cxx_start && end == (uintptr_t)ended;
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
    if (passes_test(c)) {
        pb_comm_tensor_learn(c);
        return 0;
    }
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

/* Torch may be between its counting and ours: what differs twice alike is wrong. */
static void follow_count(struct pb_comm *c, int64_t count)
{
    int64_t behind = count - c->cxx.seq;

    if (behind && behind == c->cxx.behind)
        c->cxx.seq = count;
    c->cxx.behind = behind;
}

/* When nothing is under way and torch has counted no more than at the last event. */
static void learn_order_late(struct pb_comm *c)
{
    uint64_t events = c->cxx.events;
    int64_t told = c->cxx.total, total;

    if (c->cxx.counts_first || !events || !told || c->cxx.in_flight)
        return;
    total = pb_comm_watch_total(c);
    if (events == c->cxx.events && total == told)
        set_order(c);
}

static void see(struct pb_comm *c, struct _object *group)
{
    struct pb_comm_group *g = pb_comm_group(c, group);

    if (g)
        pb_comm_watch(c, g, group);
}

void pb_comm_cxx_look(struct pb_comm *c)
{
    const struct pb_py *py = &c->self->py;
    struct _object *group = NULL;
    struct pb_comm_group *g = NULL;
    int64_t count;
    int found = 0;

    pb_comm_groups_look(c, see);
    for (int i = 0; i < PB_COMM_GROUPS; i++)
        if (c->groups[i].weak) {
            g = &c->groups[i];
            found++;
        }
    if (found == 1)
        group = py->PyObject_CallFunction(g->weak, NULL);
    py->PyErr_Clear();
    count = group && group != py->none ? pb_comm_sequence(c, group, true) : -1;
    py->Py_DecRef(group);
    learn_order_late(c);
    if (count < 0) {
        c->cxx.only = false;
    } else if (!c->cxx.only) {
        c->cxx.group = g->name;
        c->cxx.size = g->size;
        c->cxx.seq = count - g->skew[0];
        c->cxx.behind = 0;
        c->cxx.only = true;
    } else {
        c->cxx.group = g->name;
        follow_count(c, count - g->skew[0]);
    }
}
