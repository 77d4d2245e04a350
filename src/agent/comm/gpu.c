#include "agent/comm/gpu.h"

#include <dlfcn.h>

#include "agent/arch/symver.h"
#include "agent/comm/comm.h"

/* After so many that are not over, those behind them hardly are. */
#define NOT_READY_MAX 4
#define ASKED_MAX 64
#define POLL_NS UINT64_C(1000000)
#define BASE_NS UINT64_C(10000000000) /* a float of milliseconds is exact to a microsecond */

/* When an operation was at work, in ms. */
struct work {
    double from, to;
};

/* c10::cuda::CUDAStream: two words, returned in registers. */
struct stream {
    uint64_t device, id;
};

static bool find_functions(struct pb_comm_gpu *g)
{
    void *torch = dlopen("libc10_cuda.so", RTLD_NOLOAD | RTLD_LAZY);

    g->get_stream = torch ? dlsym(torch, "_ZN3c104cuda20getCurrentCUDAStreamEa") : NULL;
    g->to_raw = torch ? dlsym(torch, "_ZNK3c104cuda10CUDAStream6streamEv") : NULL;
    return g->get_stream && g->to_raw && pb_driver_find(&g->driver);
}

/* Is there a context in this thread, and the one that our events are of? */
static bool is_ready(struct pb_comm_gpu *g)
{
    void *context = NULL, *none = NULL;

    if (g->state == 0)
        g->state = find_functions(g) ? 1 : -1;
    if (g->state < 0 || g->driver.context_current(&context) != 0 || !context)
        return false;
    atomic_compare_exchange_strong(&g->context, &none, context);
    return context == g->context;
}

static void *current_stream(const struct pb_comm_gpu *g)
{
    struct stream (*get)(signed char) = (struct stream(*)(signed char))(uintptr_t)g->get_stream;
    void *(*raw)(const struct stream *) = (void *(*)(const struct stream *))(uintptr_t)g->to_raw;
    struct stream s = get(-1);

    return raw(&s);
}

static bool make(struct pb_comm_gpu *g, void **event)
{
    int mode = PB_DRIVER_CAPTURE_RELAXED, rc = 0;

    if (*event)
        return true;
    g->driver.capture_mode(&mode);
    rc = g->driver.event_create(event, 0);
    g->driver.capture_mode(&mode);
    if (rc != 0)
        *event = NULL;
    return rc == 0;
}

void pb_comm_gpu_ends(struct pb_comm *c, struct pb_comm_op *op)
{
    struct pb_comm_gpu *g = &c->gpu;
    int status = 1;
    void *stream;

    if (op->marks != PB_COMM_FROM || op->life != PB_COMM_OPEN || !is_ready(g))
        return;
    stream = current_stream(g);
    if (g->driver.capturing(stream, &status) != 0 || status != 0 ||
        g->driver.event_record(op->to, stream) != 0 || !pb_comm_op_retain(op))
        return;
    op->marks = PB_COMM_BOTH;
    g->waiting++;
}

/* The GPU is not a keeper any more. */
static void release_marks(struct pb_comm_gpu *g, struct pb_comm_op *op)
{
    int both = PB_COMM_BOTH;

    if (atomic_compare_exchange_strong(&op->marks, &both, PB_COMM_UNMARKED)) {
        g->waiting--;
        pb_comm_op_release(op);
    }
}

static bool is_over(struct pb_comm_gpu *g, struct pb_comm_op *op, double *ret_ms)
{
    float ms = 0;

    if (g->driver.event_query(op->to) != 0)
        return false;
    if (g->driver.event_elapsed(&ms, op->from, op->to) != 0)
        *ret_ms = pb_null_real();
    else /* they lie on two streams: what took no time may end a microsecond before it began */
        *ret_ms = ms > 0 ? (double)ms : 0;
    return true;
}

/* Adds it to the others, which are in the order of their beginning. */
static void add_work(struct pb_comm_gpu *g, struct work *list, int *n, void *to, double ms)
{
    float end;
    int i = *n;

    if (i == ASKED_MAX || !(ms >= 0) || !g->base || g->driver.event_elapsed(&end, g->base, to) != 0)
        return;
    for (; i > 0 && list[i - 1].from > (double)end - ms; i--)
        list[i] = list[i - 1];
    list[i] = (struct work){(double)end - ms, (double)end};
    ++*n;
}

/* Several may be at work at once, and those that wait for another have begun as well. */
static void count_work(struct pb_comm_gpu *g, const struct work *list, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++) {
        double from = list[i].from > g->last_ms ? list[i].from : g->last_ms;

        if (list[i].to > from) {
            sum += list[i].to - from;
            g->last_ms = list[i].to;
        }
    }
    g->busy_ns += (uint64_t)(sum * 1e6);
}

/* An event to count from, when none of those that are waited for was counted from another. */
static void renew_base(struct pb_comm_gpu *g, void *stream)
{
    uint64_t now;

    if (g->waiting > 0 || atomic_flag_test_and_set(&g->lock))
        return;
    now = pb_clock_ns();
    if ((!g->base || now - g->base_ns > BASE_NS) && make(g, &g->base) &&
        g->driver.event_record(g->base, stream) == 0) {
        g->base_ns = now;
        g->last_ms = 0;
    }
    atomic_flag_clear(&g->lock);
}

uint64_t pb_comm_gpu_window_ns(struct pb_self *self)
{
    struct pb_comm *c = pb_comm_state(self);

    return c ? atomic_exchange(&c->gpu.busy_ns, 0) : 0;
}

/* Some of them, or all. */
static void poll(struct pb_comm *c, bool all)
{
    struct pb_comm_gpu *g = &c->gpu;
    int asked = 0, not_ready = 0, mode = PB_DRIVER_CAPTURE_RELAXED, n = 0;
    struct work list[ASKED_MAX];
    double ms;

    if (atomic_flag_test_and_set(&g->lock))
        return;
    g->driver.capture_mode(&mode);
    for (size_t i = 0; i < c->ops.used && (all || asked < ASKED_MAX); i++) {
        struct pb_comm_op *op = &c->ops.list[i];

        if (op->marks != PB_COMM_BOTH)
            continue;
        asked++;
        if (is_over(g, op, &ms)) {
            add_work(g, list, &n, op->to, ms);
            pb_comm_op_end_ms(c, op, c->states.done, ms);
            release_marks(g, op);
        } else if (++not_ready >= NOT_READY_MAX && !all) {
            break;
        }
    }
    g->driver.capture_mode(&mode);
    count_work(g, list, n);
    atomic_flag_clear(&g->lock);
}

void pb_comm_gpu_poll(struct pb_comm *c)
{
    if (c->gpu.waiting > 0 && is_ready(&c->gpu))
        poll(c, true);
}

/* Now and then: who begins an operation has other things to do. */
static void poll_some(struct pb_comm *c)
{
    struct pb_comm_gpu *g = &c->gpu;
    uint64_t now;

    if (g->waiting <= 0)
        return;
    now = pb_clock_ns();
    if (now - g->polled_ns < POLL_NS && g->waiting < ASKED_MAX)
        return;
    g->polled_ns = now;
    poll(c, false);
}

void pb_comm_gpu_begins(struct pb_comm *c, struct pb_comm_op *op)
{
    struct pb_comm_gpu *g = &c->gpu;
    int status = 1;
    void *stream;

    if (!is_ready(g))
        return;
    poll_some(c);
    stream = current_stream(g);
    if (g->driver.capturing(stream, &status) != 0)
        return;
    if (status != 0) { /* a graph will do it, how often and when nobody knows */
        pb_comm_op_end_ms(c, op, c->states.captured, pb_null_real());
        return;
    }
    renew_base(g, stream);
    if (make(g, &op->from) && make(g, &op->to) && g->driver.event_record(op->from, stream) == 0)
        op->marks = PB_COMM_FROM;
}

void pb_comm_gpu_forget(struct pb_comm *c)
{
    for (size_t i = 0; i < c->ops.used; i++)
        if (c->ops.list[i].marks == PB_COMM_BOTH)
            release_marks(&c->gpu, &c->ops.list[i]);
    c->gpu.coalescing = 0;
}

void pb_comm_gpu_forked(struct pb_comm *c)
{
    c->gpu.state = -1;
    c->gpu.waiting = c->gpu.coalescing = 0;
    atomic_flag_clear(&c->gpu.lock);
}
