#include "agent/torch/backward/grad.h"

#include <string.h>

#include "agent/collectors/collect.h"
#include "agent/core/gil_tasks.h"
#include "agent/core/gil.h"

#define ROUNDS 3

static int enter(struct pb_self *self, struct pb_err *err);
static void poll(struct pb_self *self, uint64_t now);
static void leave(struct pb_self *self);
static void forked(struct pb_self *self);

const struct pb_collector pb_collector_torch_grad = {
    .name = "torch_grad",
    .doc = "backward of single modules of PyTorch",
    .on = PB_SET_TORCH_BACKWARD,
    .enter = enter,
    .awaits = "torch",
    .poll = poll,
    .leave = leave,
    .forked = forked,
    .state_size = sizeof(struct pb_grad),
};

struct pb_grad *pb_grad_state(struct pb_self *self)
{
    return pb_collect_state(self, PB_COLLECTOR_ID_torch_grad);
}

static bool find_functions(struct pb_grad *g)
{
    const struct {
        const char *name;
        void *to;
    } list[] = {
        {"_ZN2at15sequence_number4peekEv", &g->next_number},
        {"_ZN2at14RecordFunction15currentThreadIdEv", &g->this_thread},
    };

    for (size_t i = 0; !g->this_thread && i < sizeof list / sizeof *list; i++) {
        void *function = pb_record_symbol(list[i].name);

        memcpy(list[i].to, &function, sizeof function);
    }
    return pb_record_find(&g->record) && g->next_number && g->this_thread;
}

/* object.name(), or NULL. Takes over the reference to object. */
static struct _object *consume_call(const struct pb_py *py, struct _object *object,
                                    const char *name)
{
    struct _object *value = object ? pb_py_call(py, object, name) : NULL;

    py->Py_DecRef(object);
    return value;
}

static struct _object *make_one(const struct pb_py *py)
{
    struct _object *make = pb_py_attribute(py, "torch", "ones");
    struct _object *args = py->Py_BuildValue("(i)", 1);
    struct _object *how = py->Py_BuildValue("{s:s}", "device", "cpu");
    struct _object *one = make && args && how ? py->PyObject_Call(make, args, how) : NULL;

    py->Py_DecRef(how);
    py->Py_DecRef(args);
    py->Py_DecRef(make);
    return one;
}

/*
 * Some operations in a row, and their backward. ret_numbers: the number of each operation. ret_ns:
 * time of backward alone. False when torch did not do it, or does not count like that.
 */
static bool run_chain(struct pb_torch *t, struct pb_grad *g, uint64_t *ret_numbers,
                      uint64_t *ret_ns)
{
    const struct pb_py *py = &t->self->py;
    struct _object *one = make_one(py), *y = consume_call(py, make_one(py), "requires_grad_");
    struct _object *args = NULL, *how = NULL, *done = NULL;
    bool counts = true;
    uint64_t began;

    for (int i = 0; i < PB_GRAD_TEST && y; i++) {
        ret_numbers[i] = g->next_number();
        y = consume_call(py, y, "neg");
        counts &= g->next_number() == ret_numbers[i] + 1;
    }
    if (one && y && counts) {
        args = py->Py_BuildValue("((O)(O)ii())", y, one, 0, 0);
        how = py->Py_BuildValue("{s:i,s:i}", "allow_unreachable", 1, "accumulate_grad", 1);
    }
    began = pb_clock_ns();
    if (args && how)
        done = py->PyObject_Call(t->backward.run, args, how);
    *ret_ns = pb_clock_ns() - began;
    py->PyErr_Clear();
    py->Py_DecRef(how);
    py->Py_DecRef(args);
    py->Py_DecRef(y);
    py->Py_DecRef(one);
    py->Py_DecRef(done);
    return done != NULL;
}

static uint64_t word_at(const unsigned char *bytes, size_t at)
{
    uint64_t word;

    memcpy(&word, bytes + at, sizeof word);
    return word;
}

/* The only place where each event has the number of its operation; the last one has none. */
static size_t find_number(const struct pb_grad *g, const uint64_t *numbers)
{
    size_t found = 0;

    for (size_t at = 8; at < PB_GRAD_BYTES; at += 8) {
        bool fits = word_at(g->test.samples[PB_GRAD_TEST], at) == UINT64_MAX;

        for (int i = 0; fits && i < PB_GRAD_TEST; i++)
            fits = word_at(g->test.samples[i], at) == numbers[PB_GRAD_TEST - 1 - i];
        if (fits && found)
            return 0;
        if (fits)
            found = at;
    }
    return found;
}

/* Behind it: the only place that has the number of this thread in each event. */
static size_t find_thread(const struct pb_grad *g)
{
    uint64_t thread = g->this_thread();
    size_t found = 0;

    for (size_t at = g->number_at + 8; at < PB_GRAD_BYTES && at < g->number_at + 128; at += 8) {
        bool fits = true;

        for (int i = 0; fits && i < PB_GRAD_TEST; i++)
            fits = word_at(g->test.samples[i], at) == thread;
        if (fits && found)
            return 0;
        if (fits)
            found = at;
    }
    return found;
}

static bool calibrate(struct pb_torch *t, struct pb_grad *g)
{
    uint64_t numbers[PB_GRAD_TEST], ns;
    bool ran;

    g->test.nsamples = 0;
    g->test.thread = pthread_self();
    g->test.running = true;
    pb_grad_listen(g, true);
    ran = run_chain(t, g, numbers, &ns);
    pb_grad_listen(g, false);
    g->test.running = false;
    if (!ran || g->test.nsamples != PB_GRAD_TEST + 1)
        return false;
    g->number_at = find_number(g, numbers);
    g->thread_at = g->number_at ? find_thread(g) : 0;
    return g->thread_at != 0;
}

/* Records as in a pass of the program, and measures what that costs. */
static bool rehearse(struct pb_torch *t, struct pb_grad *g)
{
    uint64_t numbers[PB_GRAD_TEST], bare = UINT64_MAX, recorded = UINT64_MAX, ns;
    bool good = true;

    for (int round = 0; good && round < ROUNDS; round++) {
        good = run_chain(t, g, numbers, &ns);
        bare = ns < bare ? ns : bare;
        g->nnodes = 0;
        g->pass++;
        pb_grad_listen(g, true);
        g->open = true;
        good = good && run_chain(t, g, numbers, &ns);
        g->open = false;
        pb_grad_listen(g, false);
        recorded = ns < recorded ? ns : recorded;
    }
    /* The program may have a pass of its own in another thread: its operations are among them. */
    for (uint32_t i = 0, k = 0; good && k < PB_GRAD_TEST; i++) {
        if (i >= g->nnodes || i >= PB_GRAD_NODES)
            return false;
        if (!pthread_equal(g->nodes[i].runs_on, pthread_self()))
            continue;
        good = g->nodes[i].number == numbers[PB_GRAD_TEST - 1 - k++] &&
               g->nodes[i].thread == g->this_thread();
    }
    g->node_ns = recorded > bare ? (double)(recorded - bare) / (PB_GRAD_TEST + 1) : 100;
    return good;
}

/* Compiled autograd allows one pass at a time: ours would make the program's own fail. */
static bool compiles_passes(const struct pb_py *py)
{
    static const char *const flags[][2] = {
        {"torch._dynamo.config", "compiled_autograd"},
        {"torch._dynamo.compiled_autograd", "compiled_autograd_enabled"}};
    bool yes = false;

    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        struct _object *flag = pb_py_attribute(py, flags[i][0], flags[i][1]);

        yes |= flag && py->PyObject_IsTrue(flag) == 1;
        py->PyErr_Clear();
        py->Py_DecRef(flag);
    }
    return yes;
}

static void test(struct pb_torch *t, struct pb_grad *g)
{
    const char *why = NULL;

    if (compiles_passes(&t->self->py))
        why = "the program compiles its backward passes";
    else if (!find_functions(g))
        why = "torch's events were not found";
    else if (!calibrate(t, g))
        why = "the numbers in torch's events were not found";
    else if (!rehearse(t, g))
        why = "torch's events did not pass their test";
    g->nnodes = g->nranges = g->ngaps = 0;
    g->state = why ? -1 : 1;
    pb_collect_set_state(g->self, PB_COLLECTOR_ID_torch_grad, why ? "off" : "on", why ? why : "");
}

static int enter(struct pb_self *self, struct pb_err *err)
{
    struct pb_grad *g = pb_grad_state(self);

    g->self = self;
    if (self->py.free_threaded)
        return pb_err_set(err, PB_FAIL, "not for interpreters without a GIL");
    g->state = 0;
    g->reported = false;
    g->every = 0;
    g->reported_spoilt = NULL;
    return 0;
}

/* The test runs on the helper's thread, where the program has no modes of its own in force. */
static void poll(struct pb_self *self, uint64_t now)
{
    struct pb_torch *t = pb_torch_state(self);
    struct pb_grad *g = pb_grad_state(self);

    (void)now;
    if (g->state)
        return;
    if (!t->backward.engine_ran) {
        if (!g->reported)
            pb_collect_set_state(self, PB_COLLECTOR_ID_torch_grad, "waiting",
                                 "a backward pass of the program");
        g->reported = true;
    } else if (self->collect->may_import || !pb_gil_is_made(self)) {
        test(t, g);
    } else {
        pb_gil_task_add(self, PB_GIL_TASK_COLLECT);
    }
}

static void leave(struct pb_self *self)
{
    struct pb_torch *t = pb_torch_state(self);
    struct pb_grad *g = pb_grad_state(self);

    t->splitting = false;
    pb_grad_listen(g, false);
    g->open = false;
    g->state = 0;
}

static void forked(struct pb_self *self)
{
    struct pb_grad *g = pb_grad_state(self);

    g->open = g->test.running = false;
    g->state = 0;
    g->gpu.nwaiting = g->gpu.nevents = 0;
}
