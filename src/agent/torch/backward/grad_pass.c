/* One backward pass, told apart by module. */
#include <string.h>

#include "agent/arch/hidden_return.h"
#include "agent/arch/symver.h"
#include "agent/collectors/collect.h"
#include "agent/torch/backward/grad.h"

/* Share of torch.budget for recording operations, beside what tracing modules takes. */
#define SHARE 0.05
#define EVERY_MAX (1u << 20)
/* One measurement makes it at most so much rarer; if it is true, more will come. */
#define RARER_MAX 4

/*
 * Torch calls these two from any thread, without the GIL, and may call `ended` for an operation
 * that is under way after the callback was removed.
 */
void pb_grad_node_began(const void *record, void **ret);
void pb_grad_node_began(const void *record, void **ret)
{
    struct pb_grad *g = pb_grad_state(pb_self());
    const unsigned char *bytes = record;
    struct pb_grad_node *node;
    uint32_t i;

    *ret = NULL;
    if (g->test.running && pthread_equal(g->test.thread, pthread_self()) &&
        g->test.nsamples < sizeof g->test.samples / sizeof *g->test.samples)
        memcpy(g->test.samples[g->test.nsamples++], record, PB_GRAD_BYTES);
    if (!g->open)
        return;
    i = atomic_fetch_add(&g->nnodes, 1);
    if (i >= PB_GRAD_NODES)
        return;
    node = &g->nodes[i];
    memcpy(&node->number, bytes + g->number_at, sizeof node->number);
    memcpy(&node->thread, bytes + g->thread_at, sizeof node->thread);
    node->runs_on = pthread_self();
    node->event = i;
    node->timed = false;
    if (g->gpu.timed)
        pb_grad_gpu_record(g, node);
    node->bytes = pb_torch_memory_bytes(&pb_torch_state(g->self)->memory);
    node->began_ns = pb_clock_ns();
    atomic_store_explicit(&node->pass, g->pass, memory_order_release);
}
PB_HIDDEN_RETURN(node_starts, pb_grad_node_began)

static void node_ended(const void *record, void *context)
{
    struct pb_grad *g = pb_grad_state(pb_self());

    (void)record;
    (void)context;
    if (!g->open)
        return;
    g->ended_bytes = pb_torch_memory_bytes(&pb_torch_state(g->self)->memory);
    g->ended_ns = pb_clock_ns();
}

void pb_grad_listen(struct pb_grad *g, bool on)
{
    struct pb_record_callback ours = {.start = node_starts, .end = node_ended, .probability = 1};

    if (g->listening)
        g->record.remove(g->callback);
    g->listening = on;
    if (!on)
        return;
    ours.scopes[PB_RECORD_BACKWARD] = 1;
    g->callback = g->record.add(ours);
}

void pb_grad_choose(struct pb_torch *t, uint64_t number, uint64_t took)
{
    struct pb_grad *g = pb_grad_state(t->self);
    double budget = (double)pb_self_setting(t->self, PB_SET_TORCH_BUDGET) / 1000.0 / 100.0;
    double share = took ? g->cost_ns / (double)took / t->budget.period : 0;

    if (t->splitting && took && g->cost_ns > 0) {
        uint32_t max = RARER_MAX * (g->every ? g->every : 1);

        g->every = 1;
        while (g->every < max && g->every < EVERY_MAX && share / g->every > SHARE * budget)
            g->every *= 2;
    }
    g->nranges = 0;
    g->cost_ns = 0;
    t->backward.model_is_old = true;
    /* Where time on the GPU is taken, this is, too. */
    t->splitting = g->state > 0 && t->tracing &&
                 (g->every < 2 || number % g->every == 1 ||
                  (t->timing && g->every <= t->budget.time_every));
}

/* Of a call that failed nothing is known. */
static void add_range(struct pb_torch *t, struct pb_grad *g, const struct pb_torch_call *c)
{
    const struct pb_torch_thread *th = pb_torch_thread(t);
    uint64_t to = g->next_number();
    struct pb_grad_range *r = &g->ranges[g->nranges];

    if (g->nranges >= PB_GRAD_RANGES || to <= c->number)
        return;
    r->from = c->number;
    r->to = to;
    r->thread = g->this_thread();
    r->module = c->module;
    r->object = c->module->object;
    r->root = c->depth == 0;
    r->label = th ? th->root : PB_NULL_NAME;
    g->nranges++;
}

static void add_gap(struct pb_grad *g, const struct pb_torch_call *c, uint64_t now)
{
    if (c->outer && c->outer->began_ns >= g->began_ns)
        return; /* part of another one */
    if (g->ngaps >= PB_GRAD_GAPS) {
        g->spoilt = "too many calls of modules within a backward pass";
        return;
    }
    g->gaps[g->ngaps++] = (struct pb_grad_gap){c->began_ns, now, pthread_self()};
}

void pb_grad_call_ends(struct pb_torch *t, const struct pb_torch_call *c, uint64_t now, bool failed)
{
    struct pb_grad *g = pb_grad_state(t->self);

    if (g->open && c->began_ns >= g->began_ns)
        add_gap(g, c, now);
    else if (!failed)
        add_range(t, g, c);
}

bool pb_grad_pass_begins(struct pb_torch *t)
{
    struct pb_grad *g = pb_grad_state(t->self);

    if (g->state <= 0 || g->open || !g->nranges)
        return false;
    g->nnodes = g->ngaps = 0;
    g->spoilt = NULL;
    g->gpu.timed = false;
    g->pass++;
    if (t->timing)
        pb_grad_gpu_begins(t, g);
    pb_grad_listen(g, true);
    g->began_ns = pb_clock_ns();
    g->ended_ns = g->began_ns;
    g->open = true;
    return true;
}

void pb_grad_pass_disturbed(struct pb_torch *t)
{
    struct pb_grad *g = pb_grad_state(t->self);

    if (g->open)
        g->spoilt = "a backward pass inside of another or beside it";
}

/*
 * Those that have a number and can be of a module, without gaps. 0 when they are not in the order
 * of their numbers, or not all of one thread: then a number may mean two things.
 */
static uint32_t sort_out(struct pb_grad *g)
{
    uint32_t n = g->nnodes, kept = 0;
    uint64_t top = 0;

    if (n > PB_GRAD_NODES) {
        g->spoilt = "too many operations in a backward pass";
        return 0;
    }
    for (uint32_t i = 0; i < g->nranges; i++)
        top = g->ranges[i].to > top ? g->ranges[i].to : top;
    for (uint32_t i = 0; i < n; i++) {
        struct pb_grad_node *node = &g->nodes[i], *last = kept ? &g->nodes[kept - 1] : NULL;

        if (atomic_load_explicit(&node->pass, memory_order_acquire) != g->pass) {
            g->spoilt = "a backward pass beside another";
            return 0;
        }
        if (node->number >= top) /* or none at all */
            continue;
        if (last && (node->number >= last->number || node->thread != last->thread ||
                     !pthread_equal(node->runs_on, last->runs_on))) {
            g->spoilt = "a backward pass over several threads";
            return 0;
        }
        if (kept != i)
            memcpy(&g->nodes[kept], node, sizeof *node);
        kept++;
    }
    return kept;
}

/* The first node below a number; they descend. */
static uint32_t first_below(const struct pb_grad *g, uint32_t n, uint64_t number)
{
    uint32_t low = 0, high = n;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (g->nodes[middle].number < number)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static uint64_t time_in_gaps(const struct pb_grad *g, const struct pb_grad_node *first,
                             uint64_t end)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < g->ngaps; i++) {
        const struct pb_grad_gap *h = &g->gaps[i];

        if (pthread_equal(h->thread, first->runs_on) && h->began_ns >= first->began_ns &&
            h->ended_ns <= end)
            sum += h->ended_ns - h->began_ns;
    }
    return sum;
}

/* "layer.0.backward" from "layer.0". */
static uint32_t operation_of(struct pb_torch *t, struct pb_torch_module *m)
{
    static const char end[] = ".backward";
    char text[PB_TORCH_PATH + sizeof end];
    size_t len = 0;
    const char *name = m->backward ? NULL : pb_ring_text(t->trace.ring, m->name, &len);

    if (name && len < PB_TORCH_PATH) {
        memcpy(text, name, len);
        memcpy(text + len, end, sizeof end - 1);
        m->backward = pb_torch_name(t, text, len + sizeof end - 1);
    }
    return m->backward;
}

/* From the beginning of its first operation to that of the next one which is not its own: ns. */
static uint64_t write_one(struct pb_torch *t, struct pb_grad *g, const struct pb_grad_level *level,
                          uint32_t n)
{
    const struct pb_grad_range *r = level->range;
    const struct pb_torch_thread *th = pb_torch_thread(t);
    uint32_t from = first_below(g, n, r->to), to = first_below(g, n, r->from);
    const struct pb_grad_node *first = &g->nodes[from], *next = &g->nodes[to];
    uint64_t end = to < n ? next->began_ns : g->ended_ns, gaps;
    struct pb_torch_row row = {
        .name = r->module->name, .type = r->module->type, .stage = t->trace.backward,
        .gpu_ms = pb_null_real(), .bytes = to < n ? next->bytes : g->ended_bytes,
        .root = r->label, .phase = t->trace.train, .tid = th ? th->tid : PB_NULL_INT};
    uint64_t took;

    if (from >= to || first->thread != r->thread || end < first->began_ns)
        return 0;
    row.delta = pb_torch_delta(first->bytes, row.bytes);
    gaps = time_in_gaps(g, first, end);
    row.operation = operation_of(t, r->module);
    row.began_ns = first->began_ns;
    row.ended_ns = end - gaps;
    took = row.ended_ns - row.began_ns;
    row.self_ms = took > level->inside_ns ? (double)(took - level->inside_ns) / 1e6 : 0;
    if (!g->gpu.timed || gaps || !first->timed || (to < n && !next->timed))
        pb_torch_trace_append(t, &row);
    else
        pb_torch_trace_append_timed(t, &row, g->gpu.events[first->event],
                      g->gpu.events[to < n ? next->event : g->gpu.last_event], &g->gpu.nwaiting);
    return took;
}

static bool is_inside(const struct pb_grad_range *r, const struct pb_grad_range *outer)
{
    return r->from >= outer->from && r->to <= outer->to && r->thread == outer->thread;
}

/* The row of the pass as a whole has the name of its last root and stands for it. */
static void leave_level(struct pb_torch *t, struct pb_grad *g, uint32_t n)
{
    struct pb_grad_level *level = &g->levels[--g->nlevels];
    uint64_t *outer = g->nlevels ? &level[-1].inside_ns : &g->inside_ns;

    if (level->range->root && level->range->module == t->backward.model)
        *outer += level->inside_ns;
    else
        *outer += write_one(t, g, level, n);
}

/*
 * Ranges are in the order in which the calls ended in forward. Backward ends with what began first,
 * and with a module after those inside of it.
 */
static void write_rows(struct pb_torch *t, struct pb_grad *g)
{
    uint32_t n = g->spoilt ? 0 : sort_out(g);

    g->nlevels = 0;
    g->inside_ns = n ? 0 : UINT64_MAX;
    for (uint32_t i = g->nranges; n && i-- > 0;) {
        const struct pb_grad_range *r = &g->ranges[i];

        if (r->module->object != r->object)
            continue;
        while (g->nlevels && (g->nlevels == PB_GRAD_DEPTH ||
                              !is_inside(r, g->levels[g->nlevels - 1].range)))
            leave_level(t, g, n);
        g->levels[g->nlevels++] = (struct pb_grad_level){r, 0};
    }
    while (g->nlevels)
        leave_level(t, g, n);
}

static void say(struct pb_grad *g)
{
    if (g->spoilt == g->reported_spoilt)
        return;
    g->reported_spoilt = g->spoilt;
    pb_collect_set_state(g->self, PB_COLLECTOR_ID_torch_grad, "on", g->spoilt ? g->spoilt : "");
}

uint64_t pb_grad_pass_ends(struct pb_torch *t, bool good)
{
    struct pb_grad *g = pb_grad_state(t->self);
    uint64_t worked = pb_clock_work_ns(); /* waiting for a processor is not our cost */
    uint32_t pass = g->pass;
    double cost;

    g->open = false;
    g->inside_ns = UINT64_MAX;
    if (g->state <= 0)
        return UINT64_MAX; /* switched off meanwhile */
    pb_grad_listen(g, false);
    if (g->gpu.timed && good) /* else there is an exception */
        pb_grad_gpu_ends(t, g);
    if (good && t->on && t->splitting && g->pass == pass) {
        write_rows(t, g);
        say(g);
    }
    g->last_nodes = g->nnodes;
    cost = (double)g->nnodes * g->node_ns + (double)(pb_clock_work_ns() - worked);
    g->cost_ns += cost;
    t->budget.spent_ns += (uint64_t)cost;
    g->ngaps = 0;
    return g->inside_ns;
}
