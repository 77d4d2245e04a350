#include "agent/collect/torch/grad.h"

#include <dlfcn.h>
#include <string.h>

#include "agent/arch/symver.h"
#include "agent/chores.h"
#include "agent/collect/collect.h"
#include "agent/py/gil.h"
#include "base/clock.h"

#define ROUNDS 3

static int enter(struct pb_self *self, struct pb_err *err);
static void look(struct pb_self *self, uint64_t now);
static void leave(struct pb_self *self);
static void forked(struct pb_self *self);

const struct pb_collector pb_collector_torch_grad = {
    .name = "torch_grad",
    .doc = "backward of single modules of PyTorch",
    .on = PB_SET_TORCH_BACKWARD,
    .enter = enter,
    .awaits = "torch",
    .look = look,
    .leave = leave,
    .forked = forked,
    .state_size = sizeof(struct pb_grad),
};

/* Which one of the collectors this is; every backward pass asks for the state. */
enum {
#define PB_COLLECTOR(name) AT_##name,
#include "agent/collect/collectors.def"
#undef PB_COLLECTOR
};

struct pb_grad *pb_grad_state(struct pb_self *self)
{
    return self->collect.runs[AT_torch_grad].memory;
}

static bool find_functions(struct pb_grad *g)
{
    const struct {
        const char *name;
        void *to;
    } list[] = {
        {"_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE", &g->add},
        {"_ZN2at14removeCallbackEm", &g->remove},
        {"_ZN2at15sequence_number4peekEv", &g->next_number},
        {"_ZN2at14RecordFunction15currentThreadIdEv", &g->this_thread},
    };
    void *library = g->looked_for ? NULL : dlopen("libtorch_cpu.so", RTLD_NOLOAD | RTLD_LAZY);

    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        void *f = library ? dlsym(library, list[i].name) : NULL;

        if (library)
            memcpy(list[i].to, &f, sizeof f);
    }
    g->looked_for = true;
    return g->add && g->remove && g->next_number && g->this_thread;
}

/* What object.name() gives, or NULL. Takes the reference to object. */
static struct _object *take(const struct pb_py *py, struct _object *object, const char *name)
{
    struct _object *method = object ? py->PyObject_GetAttrString(object, name) : NULL;
    struct _object *value = method ? py->PyObject_CallFunction(method, NULL) : NULL;

    py->Py_DecRef(method);
    py->Py_DecRef(object);
    return value;
}

static struct _object *make_one(const struct pb_py *py)
{
    struct _object *make = pb_torch_attribute(py, "torch", "ones");
    struct _object *args = py->Py_BuildValue("(i)", 1);
    struct _object *how = py->Py_BuildValue("{s:s}", "device", "cpu");
    struct _object *one = make && args && how ? py->PyObject_Call(make, args, how) : NULL;

    py->Py_DecRef(how);
    py->Py_DecRef(args);
    py->Py_DecRef(make);
    return one;
}

/*
 * Some operations in a row, and their backward. ret_numbers: what each is to be known by. False
 * when torch did not do it, or does not count like that. ret_ns: backward alone.
 */
static bool run_chain(struct pb_torch *t, struct pb_grad *g, uint64_t *ret_numbers,
                      uint64_t *ret_ns)
{
    const struct pb_py *py = &t->self->py;
    struct _object *one = make_one(py), *y = take(py, make_one(py), "requires_grad_");
    struct _object *args = NULL, *how = NULL, *done = NULL;
    bool counts = true;
    uint64_t began;

    for (int i = 0; i < PB_GRAD_TEST && y; i++) {
        ret_numbers[i] = g->next_number();
        y = take(py, y, "neg");
        counts &= g->next_number() == ret_numbers[i] + 1;
    }
    if (one && y && counts) {
        args = py->Py_BuildValue("((O)(O)ii())", y, one, 0, 0);
        how = py->Py_BuildValue("{s:i,s:i}", "allow_unreachable", 1, "accumulate_grad", 1);
    }
    began = pb_clock_ns();
    if (args && how)
        done = py->PyObject_Call(t->run_backward, args, how);
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
        bool fits = word_at(g->samples[PB_GRAD_TEST], at) == UINT64_MAX;

        for (int i = 0; fits && i < PB_GRAD_TEST; i++)
            fits = word_at(g->samples[i], at) == numbers[PB_GRAD_TEST - 1 - i];
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
            fits = word_at(g->samples[i], at) == thread;
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

    g->nsamples = 0;
    g->tester = pthread_self();
    g->testing = true;
    pb_grad_listen(g, true);
    ran = run_chain(t, g, numbers, &ns);
    pb_grad_listen(g, false);
    g->testing = false;
    if (!ran || g->nsamples != PB_GRAD_TEST + 1)
        return false;
    g->number_at = find_number(g, numbers);
    g->thread_at = g->number_at ? find_thread(g) : 0;
    return g->thread_at != 0;
}

/* As in a pass of the program, and what it costs. */
static bool rehearse(struct pb_torch *t, struct pb_grad *g)
{
    uint64_t numbers[PB_GRAD_TEST], bare = UINT64_MAX, noted = UINT64_MAX, ns;
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
        noted = ns < noted ? ns : noted;
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
    g->node_ns = noted > bare ? (double)(noted - bare) / (PB_GRAD_TEST + 1) : 100;
    return good;
}

/* It allows one pass at a time in the whole process: ours would make the program's own fail. */
static bool compiles_passes(const struct pb_py *py)
{
    static const char *const places[][2] = {
        {"torch._dynamo.config", "compiled_autograd"},
        {"torch._dynamo.compiled_autograd", "compiled_autograd_enabled"}};
    bool yes = false;

    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        struct _object *flag = pb_torch_attribute(py, places[i][0], places[i][1]);

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
    g->nnodes = g->nranges = g->nholes = 0;
    g->state = why ? -1 : 1;
    pb_collect_say(g->self, "torch_grad", why ? "off" : "on", why ? why : "");
}

static int enter(struct pb_self *self, struct pb_err *err)
{
    struct pb_grad *g = pb_grad_state(self);

    g->self = self;
    if (self->py.free_threaded)
        return pb_err_set(err, PB_FAIL, "not for interpreters without a GIL");
    g->state = 0;
    g->said = false;
    g->every = 0;
    g->spoilt_said = NULL;
    return 0;
}

/* The test runs on the helper's thread, where the program has no modes of its own in force. */
static void look(struct pb_self *self, uint64_t now)
{
    struct pb_torch *t = pb_torch_state(self);
    struct pb_grad *g = pb_grad_state(self);

    (void)now;
    if (g->state)
        return;
    if (!t->engine_runs) {
        if (!g->said)
            pb_collect_say(self, "torch_grad", "waiting", "a backward pass of the program");
        g->said = true;
    } else if (self->collect.may_import || !pb_gil_is_made(self)) {
        test(t, g);
    } else {
        pb_chores_add(self, PB_CHORE_COLLECT);
    }
}

static void leave(struct pb_self *self)
{
    struct pb_torch *t = pb_torch_state(self);
    struct pb_grad *g = pb_grad_state(self);

    t->ranging = false;
    pb_grad_listen(g, false);
    g->open = false;
    g->state = 0;
}

static void forked(struct pb_self *self)
{
    struct pb_grad *g = pb_grad_state(self);

    g->open = g->testing = false;
    g->state = 0;
    g->nlate = g->nevents = 0;
}
