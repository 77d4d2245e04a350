#include "recording/history.h"

#include <stdlib.h>
#include <string.h>

#include "host/text/alloc.h"
#include "host/text/json.h"

/* How long a row may reach: a thread that does one thing has rows of a minute. */
#define ROW_MAX_MS 75000
#define SLOTS_MAX 3600
#define SLOT_MIN_MS 1000

enum { PROCESSES, FRAMES, STACKS, SAMPLES, STATEMENTS };

struct process {
    const char *host;
    int64_t pid, rank; /* -1: unknown */
};

struct frame {
    int64_t key;
    struct pb_prof_frame is;
};

struct stack {
    int64_t id;
    uint32_t *frames; /* outermost first */
    size_t n;
};

/* A thread of the recording, and where its next entry may begin. */
struct thread {
    size_t process;
    int64_t tid;
    uint32_t number;
    uint64_t end_ns;
};

struct pb_history {
    struct pb_recording *rec;
    struct pb_history_window window;
    bool by_function, by_process;
    int statement; /* statement of the line before; -1 at first */
    int64_t slot_ms;
    struct pb_arena arena, line;
    struct process *processes;
    struct frame *frames; /* by key */
    struct stack *stacks; /* by id */
    struct thread *threads;
    uint32_t *nodes; /* nprocesses for each stack; 0: not made yet */
    size_t nprocesses, nframes, nstacks, nthreads;
    size_t frames_cap, stacks_cap, threads_cap;
    size_t latest; /* thread of the row before */
};

static int64_t slot_of(const struct pb_history_window *w)
{
    int64_t slot = (w->to_ms - w->from_ms + SLOTS_MAX - 1) / SLOTS_MAX;

    return slot < SLOT_MIN_MS ? SLOT_MIN_MS : slot;
}

static void add_from(struct pb_buf *out, const struct pb_history_window *w, const char *where)
{
    long long from = (long long)w->from_ms, to = (long long)w->to_ms;

    pb_buf_printf(out,
                  "FROM python.samples WHERE timestamp >= make_timestamptz(%lld) AND timestamp < "
                  "make_timestamptz(%lld) AND epoch_ms(timestamp) + weight_ms > %lld%s%s",
                  (from - ROW_MAX_MS) * 1000, to * 1000, from, *where ? " AND " : "", where);
}

void pb_history_extent_sql(struct pb_buf *out, const struct pb_history_window *w,
                           const char *where)
{
    pb_buf_puts(out, "SELECT min(epoch_ms(timestamp)), max(epoch_ms(timestamp) + "
                     "ceil(weight_ms)::BIGINT) ");
    add_from(out, w, where);
}

void pb_history_sql(struct pb_buf *out, const struct pb_history_window *w, const char *where)
{
    struct pb_buf in = PB_BUF_INIT;
    long long from = (long long)w->from_ms, to = (long long)w->to_ms;

    add_from(&in, w, where);
    pb_buf_printf(out, "SELECT DISTINCT host, pid, rank %s ORDER BY rank, host, pid;\n", in.data);
    pb_buf_printf(out,
                  "SELECT DISTINCT (hash(func, file, lineno, frame_type) >> 1)::BIGINT AS key, "
                  "func, file, lineno, frame_type FROM python.stack_frames WHERE stack_id IN "
                  "(SELECT stack_id %s) ORDER BY key;\n", in.data);
    pb_buf_printf(out,
                  "SELECT stack_id, list(key ORDER BY depth DESC) FROM (SELECT DISTINCT stack_id, "
                  "depth, (hash(func, file, lineno, frame_type) >> 1)::BIGINT AS key FROM "
                  "python.stack_frames WHERE stack_id IN (SELECT stack_id %s)) GROUP BY stack_id "
                  "ORDER BY stack_id;\n", in.data);
    pb_buf_printf(out,
                  "SELECT host, pid, tid, any_value(thread), slot, stack_id, state, on_cpu, "
                  "holds_gil, waits_gil, torn, sum(ms) AS ms, sum(samples)::BIGINT FROM (SELECT *, "
                  "greatest(epoch_ms(timestamp), %lld) AS begin, least(epoch_ms(timestamp) + "
                  "weight_ms, %lld) - begin AS ms, (begin - %lld) // %lld AS slot %s) WHERE ms > 0 "
                  "GROUP BY host, pid, tid, slot, stack_id, state, on_cpu, holds_gil, waits_gil, "
                  "torn ORDER BY host, pid, tid, slot, ms DESC",
                  from, to, from, (long long)slot_of(w), in.data);
    pb_buf_finish(&in);
}

struct pb_history *pb_history_begin(struct pb_recording *r, const struct pb_history_window *w,
                                    bool by_function, bool by_process)
{
    struct pb_history *h = pb_alloc_resize(NULL, sizeof *h);

    memset(h, 0, sizeof *h);
    h->rec = r;
    h->window = *w;
    h->by_function = by_function;
    h->by_process = by_process;
    h->statement = -1;
    h->slot_ms = slot_of(w);
    r->started_ns = w->from_ms * 1000000;
    r->length_ns = (uint64_t)(w->to_ms - w->from_ms) * 1000000;
    return h;
}

void pb_history_end(struct pb_history *h)
{
    if (!h)
        return;
    free(h->processes);
    free(h->frames);
    free(h->stacks);
    free(h->threads);
    free(h->nodes);
    pb_arena_finish(&h->line);
    pb_arena_finish(&h->arena);
    free(h);
}

size_t pb_history_processes(const struct pb_history *h)
{
    return h->nprocesses;
}

static const char *text_of(const struct pb_json *v)
{
    return v->type == PB_J_STRING ? v->s : "";
}

static int64_t number_of(const struct pb_json *v, int64_t unknown)
{
    return v->type == PB_J_INT ? v->v.i : v->type == PB_J_REAL ? (int64_t)v->v.d : unknown;
}

static bool is_true(const struct pb_json *v)
{
    return v->type == PB_J_BOOL && v->v.b;
}

static void *grown(void *v, size_t n, size_t *cap, size_t size)
{
    if (n < *cap)
        return v;
    *cap = *cap ? *cap * 2 : 64;
    return pb_alloc_resize(v, *cap * size);
}

static void add_process(struct pb_history *h, const struct pb_json *row)
{
    h->processes = pb_alloc_resize(h->processes, (h->nprocesses + 1) * sizeof *h->processes);
    h->processes[h->nprocesses++] =
        (struct process){pb_arena_strdup(&h->arena, text_of(&row[0])), number_of(&row[1], 0),
                         number_of(&row[2], -1)};
}

static void add_frame(struct pb_history *h, const struct pb_json *row)
{
    bool python = strcmp(text_of(&row[4]), "python") == 0;
    struct pb_prof_frame f = {pb_arena_strdup(&h->arena, text_of(&row[1])),
                              pb_arena_strdup(&h->arena, text_of(&row[2])),
                              h->by_function ? 0 : (int)number_of(&row[3], 0), !python};

    h->frames = grown(h->frames, h->nframes, &h->frames_cap, sizeof *h->frames);
    h->frames[h->nframes++] = (struct frame){number_of(&row[0], 0), f};
}

static int by_key(const void *key, const void *at)
{
    int64_t a = *(const int64_t *)key, b = *(const int64_t *)at;

    return (a > b) - (a < b);
}

static void add_stack(struct pb_history *h, const struct pb_json *row)
{
    const struct pb_json *list = &row[1];
    struct stack s = {.id = number_of(&row[0], 0)};

    s.frames = PB_NEW_N(&h->arena, uint32_t, list->n + 1);
    for (size_t i = 0; list->type == PB_J_ARRAY && i < list->n; i++) {
        int64_t key = number_of(&list->items[i], 0);
        const struct frame *f = h->nframes ? bsearch(&key, h->frames, h->nframes,
                                                     sizeof *h->frames, by_key)
                                           : NULL;

        if (f)
            s.frames[s.n++] = (uint32_t)(f - h->frames);
    }
    h->stacks = grown(h->stacks, h->nstacks, &h->stacks_cap, sizeof *h->stacks);
    h->stacks[h->nstacks++] = s;
}

/* "rank 3, process 4242", or the machine as well where there are several. */
static uint32_t root_of(struct pb_history *h, size_t process)
{
    const struct process *p = &h->processes[process];
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_prof_frame f = {.file = ""};
    bool hosts = false;
    uint32_t node;

    if (h->nprocesses < 2 && !h->by_process)
        return 0;
    for (size_t i = 1; i < h->nprocesses; i++)
        hosts |= strcmp(h->processes[i].host, h->processes[0].host) != 0;
    f.func = pb_arena_printf(&a, "process %lld%s%s", (long long)p->pid, hosts ? ", " : "",
                             hosts ? p->host : "");
    if (p->rank >= 0)
        f.func = pb_arena_printf(&a, "rank %lld, %s", (long long)p->rank, f.func);
    node = pb_stacks_child(&h->rec->stacks, 0, &f);
    pb_arena_finish(&a);
    return node;
}

static uint32_t make_node(struct pb_history *h, size_t process, const struct stack *s)
{
    static const struct pb_prof_frame lost = {"<frames were not kept>", "", 0, true};
    uint32_t node = root_of(h, process);

    if (!s || !s->n)
        return pb_stacks_child(&h->rec->stacks, node, &lost);
    for (size_t i = 0; i < s->n; i++)
        node = pb_stacks_child(&h->rec->stacks, node, &h->frames[s->frames[i]].is);
    return node;
}

static uint32_t node_of(struct pb_history *h, size_t process, int64_t id)
{
    const struct stack *s =
        h->nstacks ? bsearch(&id, h->stacks, h->nstacks, sizeof *h->stacks, by_key) : NULL;
    uint32_t *known;

    if (!s)
        return make_node(h, process, NULL);
    known = &h->nodes[(size_t)(s - h->stacks) * h->nprocesses + process];
    if (!*known)
        *known = make_node(h, process, s);
    return *known;
}

static size_t find_process(const struct pb_history *h, const char *host, int64_t pid)
{
    for (size_t i = 0; i < h->nprocesses; i++)
        if (h->processes[i].pid == pid && strcmp(h->processes[i].host, host) == 0)
            return i;
    return SIZE_MAX;
}

/* Rows come by process and thread: it is the one before, or a new one. */
static struct thread *thread_of(struct pb_history *h, size_t process, int64_t tid, const char *name)
{
    struct thread *t = h->nthreads ? &h->threads[h->latest] : NULL;

    if (t && t->process == process && t->tid == tid)
        return t;
    h->threads = grown(h->threads, h->nthreads, &h->threads_cap, sizeof *h->threads);
    t = &h->threads[h->nthreads];
    *t = (struct thread){
        process, tid,
        pb_recording_thread(h->rec, (pid_t)h->processes[process].pid, (pid_t)tid, name), 0};
    h->latest = h->nthreads++;
    return t;
}

static uint8_t state_of(const char *name)
{
    for (int i = PB_RUNNING; i <= PB_STOPPED; i++)
        if (strcmp(pb_state_name((enum pb_state)i), name) == 0)
            return (uint8_t)i;
    return PB_WAITING;
}

static void add_sample(struct pb_history *h, const struct pb_json *row)
{
    size_t process = find_process(h, text_of(&row[0]), number_of(&row[1], 0));
    struct pb_rec_sample s = {.state = state_of(text_of(&row[6])), .on_cpu = is_true(&row[7]),
                              .holds_gil = is_true(&row[8]), .waits_gil = is_true(&row[9]),
                              .torn = is_true(&row[10])};
    double ms = row[11].type == PB_J_REAL ? row[11].v.d : (double)number_of(&row[11], 0);
    uint64_t slot_ns = (uint64_t)number_of(&row[4], 0) * (uint64_t)h->slot_ms * 1000000;
    int64_t count = number_of(&row[12], 1);
    struct thread *t;

    if (process == SIZE_MAX || !(ms > 0))
        return;
    t = thread_of(h, process, number_of(&row[2], 0), text_of(&row[3]));
    s.thread = t->number;
    s.node = node_of(h, process, number_of(&row[5], 0));
    s.weight_ns = (uint64_t)(ms * 1e6);
    s.at_ns = slot_ns > t->end_ns ? slot_ns : t->end_ns;
    s.count = count > 0 ? (uint32_t)count : 1;
    t->end_ns = s.at_ns + s.weight_ns;
    pb_recording_add(h->rec, &s);
}

static int next_statement(struct pb_history *h, struct pb_err *err)
{
    if (++h->statement >= STATEMENTS)
        return pb_err_set(err, PB_FAIL, "more answers than questions");
    if (h->statement == SAMPLES) {
        size_t n = h->nstacks * h->nprocesses + 1;

        h->nodes = pb_alloc_resize(NULL, n * sizeof *h->nodes);
        memset(h->nodes, 0, n * sizeof *h->nodes);
        if (h->nprocesses)
            h->rec->pid = (pid_t)h->processes[0].pid;
    }
    return 0;
}

int pb_history_line(struct pb_history *h, const char *line, size_t len, struct pb_err *err)
{
    static const size_t cells[STATEMENTS] = {3, 5, 2, 13};
    static void (*const add[STATEMENTS])(struct pb_history *h, const struct pb_json *row) = {
        add_process, add_frame, add_stack, add_sample};
    struct pb_json row;
    int rc = 0;

    if (!len)
        return 0;
    if (line[0] == '{')
        return next_statement(h, err);
    if (h->statement < 0 || pb_json_parse(&h->line, line, len, &row, err) < 0 ||
        row.type != PB_J_ARRAY || row.n != cells[h->statement])
        rc = pb_err_set(err, PB_FAIL, "no rows of samples in the answer");
    else
        add[h->statement](h, row.items);
    pb_arena_finish(&h->line);
    h->line = (struct pb_arena)PB_ARENA_INIT;
    return rc;
}
