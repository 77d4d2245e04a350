/*
 * python.flight_recorder - what torch itself has noted of its latest collectives.
 *
 * Torch keeps a list of them in each process (NCCL always, gloo in newer versions) and gives it as
 * JSON to Python code. So a query of this table evaluates one expression in each process in scope
 * that has an agent; one that does not answer soon has no rows.
 */
#include <string.h>

#include "base/clock.h"
#include "host/agent.h"
#include "host/buf.h"
#include "host/json.h"
#include "node/tables/common.h"

#define ONE_MS 1500
#define ALL_NS 6000000000ull
#define ANSWER_MAX (32u << 20)

static int fill(struct pb_node *n, const struct pb_scope *scope, const bool *wanted,
                struct pb_rows *rows, struct pb_err *err);

enum {
    TIMESTAMP,
    OP,
    GROUP_NAME,
    GROUP_DESC,
    SEQ,
    P2P_SEQ,
    STATE,
    STARTED,
    COMPLETED,
    DURATION_MS,
    DTYPE,
    SIZES,
    TIMEOUT_MS,
    RETIRED,
    RECORD,
    THREAD,
};

static const struct pb_column_spec columns[] = {
    [TIMESTAMP] = {"timestamp", PB_TIME, "", "when it was called"},
    [OP] = {"op", PB_NAME, "", "as torch calls it: nccl:all_reduce, …"},
    [GROUP_NAME] = {"group_name", PB_NAME, "", "process group"},
    [GROUP_DESC] = {"group_desc", PB_NAME, "", "what the group is for"},
    [SEQ] = {"seq", PB_INT, "", "number of the collective in its group"},
    [P2P_SEQ] = {"p2p_seq", PB_INT, "", "number of the message in its group"},
    [STATE] = {"state", PB_NAME, "", "scheduled, started, completed"},
    [STARTED] = {"started", PB_TIME, "", "when torch's watchdog found it started"},
    [COMPLETED] = {"completed", PB_TIME, "", "when torch's watchdog found it completed"},
    [DURATION_MS] = {"duration_ms", PB_REAL, "ms", "on the GPU, where torch times it"},
    [DTYPE] = {"dtype", PB_NAME, "", "type of the elements, of the first tensor"},
    [SIZES] = {"sizes", PB_TEXT, "", "sizes of the tensors of this rank"},
    [TIMEOUT_MS] = {"timeout_ms", PB_INT, "ms", "how long torch waits for it"},
    [RETIRED] = {"retired", PB_BOOL, "", "torch does not look at it any more"},
    [RECORD] = {"record", PB_INT, "", "number of the note in its process"},
    [THREAD] = {"thread", PB_NAME, "", "name of the thread that called it"},
    PB_LIVE_COMMON,
};

const struct pb_live pb_live_python_flight_recorder = {
    .name = "python.flight_recorder",
    .doc = "what torch itself has noted of its latest collectives",
    .columns = columns,
    .ncolumns = PB_COUNT_OF(columns),
    .fill = fill,
};

/* A JSON text for each recorder, on a line of its own. Leaves nothing behind in the process. */
static const char code[] =
    "(lambda m: m and [print((lambda b: b if isinstance(b, str) else b.decode())"
    "(getattr(m, f)(True, False)).replace('\\n', ' ')) "
    "for f in ('_dump_nccl_trace_json', '_dump_fr_trace_json') if hasattr(m, f)] and None)"
    "(__import__('sys').modules.get('torch._C._distributed_c10d'))";

static void keep(int fd, const void *data, size_t len, void *arg)
{
    struct pb_buf *text = arg;

    if (fd == 1 && text->len + len <= ANSWER_MAX)
        pb_buf_add(text, data, len);
}

static void ask(pid_t pid, struct pb_buf *text, struct pb_arena *a)
{
    struct pb_wire_eval head = {.timeout_ms = ONE_MS};
    struct pb_agent agent = {.fd = -1};
    enum pb_wire_result result;
    struct pb_err err = {0};
    const char *why;

    if (pb_agent_present(pid) && pb_agent_open(&agent, pid, ONE_MS, &err) == 0)
        pb_agent_ask(&agent, PB_WIRE_EVAL, &head, sizeof head, code, sizeof code - 1, 2 * ONE_MS,
                     keep, text, a, &result, &why, &err);
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
    pb_rows_text(rows, row, SIZES, b.data);
    pb_buf_finish(&b);
}

static void add_entry(struct pb_node *n, const struct pb_live_process *p,
                      const struct pb_json *entry, struct pb_rows *rows)
{
    const struct pb_json *duration = pb_json_get(entry, "duration_ms");
    bool message = pb_json_flag(entry, "is_p2p", false);
    struct pb_row_cell *row = pb_rows_add(rows);

    add_time(row, TIMESTAMP, pb_json_whole(entry, "time_created_ns", 0));
    add_time(row, STARTED, pb_json_whole(entry, "time_discovered_started_ns", 0));
    add_time(row, COMPLETED, pb_json_whole(entry, "time_discovered_completed_ns", 0));
    pb_rows_text(rows, row, OP, pb_json_str(entry, "profiling_name", NULL));
    pb_rows_text(rows, row, GROUP_NAME, text_of(item(entry, "process_group", 0)));
    pb_rows_text(rows, row, GROUP_DESC, text_of(item(entry, "process_group", 1)));
    pb_rows_int(row, message ? P2P_SEQ : SEQ,
                pb_json_whole(entry, message ? "p2p_seq_id" : "collective_seq_id", 0));
    pb_rows_text(rows, row, STATE, pb_json_str(entry, "state", NULL));
    if (duration && (duration->type == PB_J_REAL || duration->type == PB_J_INT))
        pb_rows_real(row, DURATION_MS, pb_json_number(entry, "duration_ms", 0));
    pb_rows_text(rows, row, DTYPE, text_of(item(entry, "input_dtypes", 0)));
    add_sizes(rows, row, entry);
    pb_rows_int(row, TIMEOUT_MS, pb_json_whole(entry, "timeout_ms", 0));
    pb_rows_bool(row, RETIRED, pb_json_flag(entry, "retired", false));
    pb_rows_int(row, RECORD, pb_json_whole(entry, "record_id", 0));
    pb_rows_text(rows, row, THREAD, pb_json_str(entry, "thread_name", NULL));
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
    size_t count = pb_live_processes(n, scope, wanted[PB_COUNT_OF(columns) - 1], &a, &v);
    uint64_t until = pb_clock_ns() + ALL_NS;

    (void)err;
    for (size_t i = 0; i < count && pb_clock_ns() < until; i++)
        add_process(n, &v[i], rows);
    pb_arena_finish(&a);
    return 0;
}
