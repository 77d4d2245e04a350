#include "cli/profile/profile_trace.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "host/text/alloc.h"
#include "host/text/buf.h"
#include "host/text/json.h"

enum {
    EVENT_DEPTH = 3,     /* an event is an object in an array in an object */
    EVENT_MAX = 1 << 20, /* bytes */
    NAME_MAX_BYTES = 4096,
    NESTED_MAX = 256, /* operations around a kernel's launch that get its time */
    SLOTS = 2 * PB_TRACE_OPS, /* a power of two */
};

enum kind { HOST, DEVICE };

struct event {
    int64_t thread;
    double from, to; /* us */
    int64_t external; /* links a kernel to the operation that launched it; 0: none */
    uint32_t op;
    int32_t parent; /* index of the host event around it, or -1 */
    enum kind kind;
};

struct pb_trace {
    struct pb_arena arena; /* this struct, operations and their texts */
    bool by_shapes;
    struct pb_buf text; /* the event that is being read */
    int depth;
    bool in_string, escaped, too_long;
    struct event *events;
    size_t nevents, cap;
    struct pb_trace_op *ops;
    uint32_t nops;
    uint32_t *slots; /* by hash: number of the operation, from 1 on */
};

struct pb_trace *pb_trace_create(bool shapes)
{
    struct pb_arena arena = PB_ARENA_INIT;
    struct pb_trace *t = PB_NEW(&arena, struct pb_trace);

    t->by_shapes = shapes;
    t->ops = PB_NEW_N(&arena, struct pb_trace_op, PB_TRACE_OPS);
    t->slots = PB_NEW_N(&arena, uint32_t, SLOTS);
    t->arena = arena;
    return t;
}

void pb_trace_destroy(struct pb_trace *t)
{
    struct pb_arena arena;

    if (!t)
        return;
    pb_buf_finish(&t->text);
    free(t->events);
    arena = t->arena; /* t itself lies in it */
    pb_arena_finish(&arena);
}

static bool is_op(const struct pb_trace_op *op, const char *name, const char *shapes)
{
    return strcmp(op->name, name) == 0 && (!shapes || strcmp(op->shapes, shapes) == 0);
}

/* Its number, or -1 when there are too many. */
static int64_t find_op(struct pb_trace *t, const char *name, const char *shapes)
{
    uint64_t h = pb_hash_text(pb_hash_text(PB_HASH_SEED, name), shapes ? shapes : "");
    uint32_t at;

    for (at = (uint32_t)(h % SLOTS); t->slots[at]; at = (at + 1) % SLOTS)
        if (is_op(&t->ops[t->slots[at] - 1], name, shapes))
            return t->slots[at] - 1;
    if (t->nops == PB_TRACE_OPS)
        return -1;
    t->ops[t->nops] = (struct pb_trace_op){
        .name = pb_arena_strndup(&t->arena, name, NAME_MAX_BYTES),
        .shapes = shapes ? pb_arena_strndup(&t->arena, shapes, NAME_MAX_BYTES) : NULL};
    t->slots[at] = ++t->nops;
    return t->nops - 1;
}

static bool kind_of(const char *category, enum kind *ret)
{
    static const struct {
        const char *name;
        enum kind kind;
    } kinds[] = {
        {"cpu_op", HOST},       {"Operator", HOST},    {"user_annotation", HOST},
        {"cuda_runtime", HOST}, {"cuda_driver", HOST}, {"kernel", DEVICE},
        {"gpu_memcpy", DEVICE}, {"gpu_memset", DEVICE},
    };

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, category) == 0) {
            *ret = kinds[i].kind;
            return true;
        }
    return false;
}

static void write_shape(struct pb_buf *b, const struct pb_json *v)
{
    if (v->type != PB_J_ARRAY) {
        pb_buf_puts(b, v->s ? v->s : "");
        return;
    }
    pb_buf_putc(b, '[');
    for (size_t i = 0; i < v->n; i++) {
        if (i)
            pb_buf_puts(b, ", ");
        write_shape(b, &v->items[i]);
    }
    pb_buf_putc(b, ']');
}

static void add_event(struct pb_trace *t, const struct event *e)
{
    if (t->nevents == t->cap) {
        t->cap = t->cap ? 2 * t->cap : 4096;
        t->events = pb_alloc_resize(t->events, t->cap * sizeof *t->events);
    }
    t->events[t->nevents++] = *e;
}

static void read_event(struct pb_trace *t, const struct pb_json *e)
{
    const char *name = pb_json_str(e, "name", NULL), *category = pb_json_str(e, "cat", NULL);
    const struct pb_json *args = pb_json_get(e, "args"), *dims = NULL;
    double from = pb_json_number(e, "ts", -1), dur = pb_json_number(e, "dur", -1);
    struct pb_buf shapes = PB_BUF_INIT;
    struct event made = {.parent = -1};
    int64_t op;

    if (strcmp(pb_json_str(e, "ph", ""), "X") != 0 || !name || !category ||
        !kind_of(category, &made.kind) || !(from >= 0 && dur >= 0 && dur < 1e15) ||
        strlen(name) >= NAME_MAX_BYTES)
        return;
    if (t->by_shapes) {
        dims = args ? pb_json_get(args, "Input Dims") : NULL;
        pb_buf_puts(&shapes, "");
        if (dims)
            write_shape(&shapes, dims);
        if (shapes.len >= NAME_MAX_BYTES)
            shapes.data[NAME_MAX_BYTES - 1] = '\0';
    }
    op = find_op(t, name, t->by_shapes ? (shapes.data ? shapes.data : "") : NULL);
    pb_buf_finish(&shapes);
    if (op < 0)
        return;
    made.op = (uint32_t)op;
    made.from = from;
    made.to = from + dur;
    made.thread = pb_json_whole(e, "tid", 0);
    made.external = args ? pb_json_whole(args, "External id", 0) : 0;
    add_event(t, &made);
}

static void end_event(struct pb_trace *t)
{
    struct pb_arena arena = PB_ARENA_INIT;
    struct pb_json event;

    if (!t->too_long && t->nevents < PB_TRACE_EVENTS &&
        pb_json_parse(&arena, t->text.data, t->text.len, &event, NULL) == 0)
        read_event(t, &event);
    pb_arena_finish(&arena);
    t->too_long = false;
    pb_buf_clear(&t->text);
}

/* Follows quotes and brackets, and keeps what lies in an event. */
static void add_byte(struct pb_trace *t, char c)
{
    bool closes = !t->in_string && (c == '}' || c == ']');

    if (t->in_string) {
        t->in_string = t->escaped || c != '"';
        t->escaped = !t->escaped && c == '\\';
    } else if (c == '"') {
        t->in_string = true;
    } else if (c == '{' || c == '[') {
        t->depth++;
    }
    if (t->depth >= EVENT_DEPTH) {
        if (t->text.len < EVENT_MAX)
            pb_buf_putc(&t->text, c);
        else
            t->too_long = true;
    }
    if (closes && t->depth > 0 && t->depth-- == EVENT_DEPTH)
        end_event(t);
}

void pb_trace_add(struct pb_trace *t, const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++)
        add_byte(t, data[i]);
}

size_t pb_trace_events(const struct pb_trace *t)
{
    return t->nevents;
}

/* Host events first, by thread and time; one that is around others comes before them. */
static int by_thread_and_time(const void *a, const void *b)
{
    const struct event *x = a, *y = b;

    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->thread != y->thread)
        return x->thread < y->thread ? -1 : 1;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return x->to > y->to ? -1 : x->to < y->to;
}

/* The event around this one: the nearest before it that is not over yet. */
static int32_t parent_of(const struct event *events, int32_t at)
{
    int32_t p = at - 1;

    if (at == 0 || events[p].thread != events[at].thread)
        return -1;
    while (p >= 0 && events[p].to < events[at].to)
        p = events[p].parent;
    return p;
}

static size_t sum_host(struct pb_trace *t)
{
    size_t n = 0;

    for (; n < t->nevents && t->events[n].kind == HOST; n++) {
        struct event *e = &t->events[n];
        double ms = (e->to - e->from) / 1000;

        e->parent = parent_of(t->events, (int32_t)n);
        t->ops[e->op].calls++;
        t->ops[e->op].cpu += ms;
        t->ops[e->op].self_cpu += ms;
        if (e->parent >= 0)
            t->ops[t->events[e->parent].op].self_cpu -= ms;
    }
    return n;
}

struct link {
    int64_t external;
    int32_t event;
};

static int by_external(const void *a, const void *b)
{
    const struct link *x = a, *y = b;

    if (x->external != y->external)
        return x->external < y->external ? -1 : 1;
    return x->event < y->event ? -1 : x->event > y->event;
}

static const struct link *find_link(const struct link *links, size_t n, int64_t external)
{
    size_t low = 0, high = n;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (links[mid].external < external)
            low = mid + 1;
        else
            high = mid;
    }
    return low < n && links[low].external == external ? &links[low] : NULL;
}

/* A kernel's time is its own, and that of the operations around its launch. */
static void sum_device(struct pb_trace *t, size_t nhost)
{
    struct link *links = pb_alloc_resize(NULL, (nhost + 1) * sizeof *links);
    size_t n = 0;

    for (size_t i = 0; i < nhost; i++)
        if (t->events[i].external)
            links[n++] = (struct link){t->events[i].external, (int32_t)i};
    qsort(links, n, sizeof *links, by_external);
    for (size_t i = nhost; i < t->nevents; i++) {
        const struct event *e = &t->events[i];
        double ms = (e->to - e->from) / 1000;
        const struct link *l = e->external ? find_link(links, n, e->external) : NULL;

        t->ops[e->op].calls++;
        t->ops[e->op].self_device += ms;
        t->ops[e->op].device += ms;
        if (l)
            t->ops[t->events[l->event].op].self_device += ms;
        for (int32_t p = l ? l->event : -1, depth = 0; p >= 0 && depth < NESTED_MAX;
             p = t->events[p].parent, depth++)
            t->ops[t->events[p].op].device += ms;
    }
    free(links);
}

static int by_own_time(const void *a, const void *b)
{
    const struct pb_trace_op *x = a, *y = b;
    double mine = x->self_cpu + x->self_device, other = y->self_cpu + y->self_device;

    return mine > other ? -1 : mine < other ? 1 : strcmp(x->name, y->name);
}

const struct pb_trace_op *pb_trace_ops(struct pb_trace *t, size_t *ret_n)
{
    if (t->nevents)
        qsort(t->events, t->nevents, sizeof *t->events, by_thread_and_time);
    sum_device(t, sum_host(t));
    t->nevents = 0;
    qsort(t->ops, t->nops, sizeof *t->ops, by_own_time);
    *ret_n = t->nops;
    return t->ops;
}
