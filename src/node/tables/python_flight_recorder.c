/*
 * python.flight_recorder - what torch itself has noted of its latest collectives.
 *
 * Torch keeps a list of them in each process (NCCL always, gloo in newer versions) and gives it as
 * JSON to Python code. So a query of this table runs a small script in each process in scope
 * that has an agent; one that does not answer soon has no rows.
 */
#include <string.h>

#include "base/clock.h"
#include "base/embed.h"
#include "host/net/agent_socket.h"
#include "host/text/buf.h"
#include "host/text/json.h"
#include "node/tables/read/common.h"

#define ONE_MS 1500
#define ALL_NS 6000000000ull
#define ANSWER_MAX (32u << 20)

static pb_live_fill fill;

#define COLUMNS(X)                                                                                 \
    X(timestamp, TIME, "", "when it was called")                                                   \
    X(op, NAME, "", "as torch calls it: nccl:all_reduce, …")                                       \
    X(group_name, NAME, "", "process group")                                                       \
    X(group_desc, NAME, "", "what the group is for")                                               \
    X(seq, INT, "", "number of the collective in its group")                                       \
    X(p2p_seq, INT, "", "number of the message in its group")                                      \
    X(state, NAME, "", "scheduled, started, completed")                                            \
    X(started, TIME, "", "when torch's watchdog found it started")                                 \
    X(completed, TIME, "", "when torch's watchdog found it completed")                             \
    X(duration_ms, REAL, "ms", "on the GPU, where torch times it")                                 \
    X(dtype, NAME, "", "type of the elements, of the first tensor")                                \
    X(sizes, TEXT, "", "sizes of the tensors of this rank")                                        \
    X(timeout_ms, INT, "ms", "how long torch waits for it")                                        \
    X(retired, BOOL, "", "torch does not look at it any more")                                     \
    X(record, INT, "", "number of the note in its process")                                        \
    X(thread, NAME, "", "name of the thread that called it")                                       \
    PB_LIVE_COMMON(X)

PB_TABLE_COLUMNS(COLUMNS);

const struct pb_live pb_live_python_flight_recorder = {
    PB_TABLE_SPEC("python.flight_recorder",
                  "what torch itself has noted of its latest collectives"),
    .fill = fill,
};

PB_EMBED(code, "src/node/tables/flight_recorder.py")

static void append(int fd, const void *data, size_t len, void *arg)
{
    struct pb_buf *text = arg;

    if (fd == 1 && text->len + len <= ANSWER_MAX)
        pb_buf_add(text, data, len);
}

static void ask(pid_t pid, struct pb_buf *text, struct pb_arena *a)
{
    struct pb_wire_eval head = {.timeout_ms = ONE_MS, .flags = PB_WIRE_OWN};
    struct pb_agent agent = {.fd = -1};
    enum pb_wire_result result;
    struct pb_err err = {0};
    const char *why;

    if (pb_agent_present(pid) && pb_agent_open(&agent, pid, ONE_MS, &err) == 0)
        pb_agent_ask(&agent, PB_WIRE_EVAL, &head, sizeof head, code, strlen(code), 2 * ONE_MS,
                     append, text, a, &result, &why, &err);
    pb_agent_close(&agent);
}

static const struct pb_json *item(const struct pb_json *entry, const char *key, size_t i)
{
    const struct pb_json *list = pb_json_get(entry, key);

    return list && list->type == PB_J_ARRAY && i < list->n ? &list->items[i] : NULL;
}

static const char *text_of(const struct pb_json *value)
{
    return value && value->type == PB_J_STRING ? value->s : NULL;
}

static void add_time(struct pb_row_cell *row, int column, int64_t ns)
{
    if (ns > 0)
        pb_rows_int(row, (size_t)column, ns);
}

/* [[3, 4], [5]] */
static void add_sizes(struct pb_rows *rows, struct pb_row_cell *row, const struct pb_json *entry)
{
    const struct pb_json *list = pb_json_get(entry, "input_sizes"), *one;
    struct pb_buf b = PB_BUF_INIT;

    if (!list || list->type != PB_J_ARRAY)
        return;
    pb_buf_putc(&b, '[');
    for (size_t i = 0; i < list->n; i++) {
        one = &list->items[i];
        pb_buf_puts(&b, i ? ", [" : "[");
        for (size_t k = 0; one->type == PB_J_ARRAY && k < one->n; k++)
            pb_buf_printf(&b, "%s%s", k ? ", " : "", one->items[k].s ? one->items[k].s : "?");
        pb_buf_putc(&b, ']');
    }
    pb_buf_putc(&b, ']');
    pb_rows_text(rows, row, AT_sizes, b.data);
    pb_buf_finish(&b);
}

static void add_entry(struct pb_node *n, const struct pb_live_process *p,
                      const struct pb_json *entry, struct pb_rows *rows)
{
    const struct pb_json *duration = pb_json_get(entry, "duration_ms");
    bool message = pb_json_flag(entry, "is_p2p", false);
    struct pb_row_cell *row = pb_rows_add(rows);

    add_time(row, AT_timestamp, pb_json_whole(entry, "time_created_ns", 0));
    add_time(row, AT_started, pb_json_whole(entry, "time_discovered_started_ns", 0));
    add_time(row, AT_completed, pb_json_whole(entry, "time_discovered_completed_ns", 0));
    pb_rows_text(rows, row, AT_op, pb_json_str(entry, "profiling_name", NULL));
    pb_rows_text(rows, row, AT_group_name, text_of(item(entry, "process_group", 0)));
    pb_rows_text(rows, row, AT_group_desc, text_of(item(entry, "process_group", 1)));
    pb_rows_int(row, message ? AT_p2p_seq : AT_seq,
                pb_json_whole(entry, message ? "p2p_seq_id" : "collective_seq_id", 0));
    pb_rows_text(rows, row, AT_state, pb_json_str(entry, "state", NULL));
    if (duration && (duration->type == PB_J_REAL || duration->type == PB_J_INT))
        pb_rows_real(row, AT_duration_ms, pb_json_number(entry, "duration_ms", 0));
    pb_rows_text(rows, row, AT_dtype, text_of(item(entry, "input_dtypes", 0)));
    add_sizes(rows, row, entry);
    pb_rows_int(row, AT_timeout_ms, pb_json_whole(entry, "timeout_ms", 0));
    pb_rows_bool(row, AT_retired, pb_json_flag(entry, "retired", false));
    pb_rows_int(row, AT_record, pb_json_whole(entry, "record_id", 0));
    pb_rows_text(rows, row, AT_thread, pb_json_str(entry, "thread_name", NULL));
    pb_live_common(rows, row, n->host, p->pid, p->rank);
}

static void add_process(struct pb_node *n, const struct pb_live_process *p, struct pb_rows *rows)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_buf text = PB_BUF_INIT;
    char *rest, *line;

    ask(p->pid, &text, &a);
    rest = text.data;
    while (rest && (line = strsep(&rest, "\n"))) {
        const struct pb_json *entries;
        struct pb_err err = {0};
        struct pb_json json;

        if (!*line || pb_json_parse(&a, line, strlen(line), &json, &err) < 0)
            continue;
        entries = pb_json_get(&json, "entries");
        for (size_t i = 0; entries && entries->type == PB_J_ARRAY && i < entries->n; i++)
            add_entry(n, p, &entries->items[i], rows);
    }
    pb_buf_finish(&text);
    pb_arena_finish(&a);
}

static int fill(struct pb_node *n, const struct pb_scope *scope, const bool *wanted,
                struct pb_rows *rows, struct pb_err *err)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_live_process *v = NULL;
    size_t count = pb_live_processes(n, scope, wanted[AT_rank], &a, &v);
    uint64_t until = pb_clock_ns() + ALL_NS;

    (void)err;
    for (size_t i = 0; i < count && pb_clock_ns() < until; i++)
        add_process(n, &v[i], rows);
    pb_arena_finish(&a);
    return 0;
}
