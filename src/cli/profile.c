/*
 * probing TARGET profile - torch's profiler for some steps, from outside.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/home.h"
#include "cli/cmd.h"
#include "cli/link.h"
#include "cli/profile_script.h"
#include "host/buf.h"
#include "host/json.h"
#include "show/table.h"
#include "store/tables/python_profile_ops.h"
#include "store/tables/table.h"
#include "store/writer.h"

#define ROWS_KEPT 1000
#define ANSWER_MAX (8 << 20)

static int run(struct pb_ctx *ctx);

static const struct pb_opt options[] = {
    {.name = "steps", .letter = 'n', .type = PB_OPT_INT, .arg = "N", .min = 1, .max = 1000,
     .help = "how many training steps (default 5)"},
    {.name = "timeout", .type = PB_OPT_NUM, .arg = "SECS", .min = 1, .max = 3600,
     .help = "how long to wait for them (default 60)"},
    {.name = "output", .letter = 'o', .type = PB_OPT_STR, .arg = "FILE",
     .help = "where the trace goes, for Perfetto or chrome://tracing (default "
             "probing-PID.trace.json)"},
    {.name = "limit-mb", .type = PB_OPT_INT, .arg = "MB", .min = 1, .max = 16384,
     .help = "no trace larger than this (default 256); the table comes anyway"},
    {.name = "shapes", .help = "tell calls with different shapes apart"},
    {.name = "rows", .type = PB_OPT_INT, .arg = "N", .min = 1, .max = ROWS_KEPT,
     .help = "how many operations to show (default 20)"},
    {.name = NULL},
};

const struct pb_cmd pb_cmd_profile = {
    .name = "profile",
    .summary = "Run torch's profiler in the target for some training steps",
    .details =
        "Nothing is needed in the program. The profiler starts and stops between two steps of an\n"
        "optimizer, on the thread that trains; these steps are slower than others. Operations are\n"
        "shown by their own time, and stand in the table python.profile_ops as well; every single\n"
        "one with its place in time is in the trace file. The range Optimizer.step of the last\n"
        "step is still open when the profiler stops, and not among them. Ctrl-C stops it at the\n"
        "end of the step and leaves nothing behind.",
    .options = options,
    .target = PB_TARGET_PROCESS,
    .examples = "probing 4242 profile                      # five steps\n"
                "probing 4242 profile -n 20 --shapes -o trace.json\n",
    .run = run,
};

static const struct pb_column_spec ring_columns[] = {PB_PYTHON_PROFILE_OPS(PB_TABLE_COLUMN)};
static const struct pb_ring_spec ring_spec = {
    .name = PB_PYTHON_PROFILE_OPS_NAME,
    .doc = PB_PYTHON_PROFILE_OPS_DOC,
    .columns = ring_columns,
    .ncolumns = sizeof ring_columns / sizeof *ring_columns,
    .rows = ROWS_KEPT,
    .flags = PB_RING_KEEP,
};
enum {
#define X(name, type, unit, doc) AT_##name,
    PB_PYTHON_PROFILE_OPS(X)
#undef X
        NCOLUMNS
};

#define EXIT_INTERRUPTED 130

/* All that a signal handler can get at. */
static _Atomic bool cancelled;

/* Before and after the script runs, when there may be a file to take away. */
static void on_interrupt(int signo)
{
    (void)signo;
    if (atomic_exchange(&cancelled, true))
        _exit(EXIT_INTERRUPTED); /* the second time: no more waiting */
}

/* A row as the script gives it. */
enum { OP, SHAPES, CALLS, SELF_CPU, CPU, SELF_DEVICE, DEVICE, FIELDS };

static void collect(int fd, const void *data, size_t len, void *arg)
{
    struct pb_buf *answer = arg;

    if (fd == STDOUT_FILENO && answer->len + len <= ANSWER_MAX)
        pb_buf_add(answer, data, len);
}

/* In a namespace of its own: evaluated code shares the program's. */
static void make_code(struct pb_ctx *ctx, double seconds, struct pb_buf *code)
{
    pb_buf_printf(code,
                  "exec(r\"\"\"%s\"\"\", {'STEPS': %ld, 'SECONDS': %g, 'SHAPES': %s, "
                  "'LIMIT': %ld, 'KEEP': %d})",
                  profile_script, pb_opt_int(ctx, "steps", 5), seconds,
                  pb_opt_flag(ctx, "shapes") ? "True" : "False",
                  pb_opt_int(ctx, "limit-mb", 256) << 20, ROWS_KEPT);
}

/* Ctrl-C ends it with ctx->interrupted; the script has cleaned up by then. */
static int ask(struct pb_ctx *ctx, struct pb_json *ret)
{
    double seconds = pb_opt_num(ctx, "timeout", 60);
    struct pb_buf code = PB_BUF_INIT, answer = PB_BUF_INIT;
    struct pb_link_eval how = {.timeout_ms = (int)((seconds + 30) * 1000), .sink = collect,
                               .arg = &answer};
    struct pb_agent agent = {.fd = -1};
    enum pb_wire_result result = PB_WIRE_OK;
    const char *why = NULL;
    int rc = -1;

    make_code(ctx, seconds, &code);
    how.code = code.data;
    how.len = code.len;
    if (pb_link_open(ctx, &agent) < 0)
        goto out;
    if (!atomic_load(&cancelled))
        rc = pb_link_eval(ctx, &agent, &how, &result, &why);
    ctx->interrupted = agent.interrupt || atomic_load(&cancelled);
    /* Where the answer came in the same moment, there is a trace to take away. */
    if (rc == 0 && (!ctx->interrupted || result == PB_WIRE_OK))
        rc = pb_link_explain(ctx, "profile", &how, &agent, result, why);
    if (rc == 0)
        rc = pb_json_parse(&ctx->arena, answer.data ? answer.data : "", answer.len, ret,
                           ctx->interrupted ? NULL : &ctx->err);
out:
    pb_agent_close(&agent);
    pb_buf_finish(&answer);
    pb_buf_finish(&code);
    return rc;
}

static double number(const struct pb_json *row, int field)
{
    const struct pb_json *v = &row->items[field];

    return v->type == PB_J_REAL ? v->v.d : v->type == PB_J_INT ? (double)v->v.i : pb_null_real();
}

static bool is_row(const struct pb_json *row)
{
    return row->type == PB_J_ARRAY && row->n == FIELDS && row->items[OP].type == PB_J_STRING;
}

/* Into the target's own folder, where the node finds it. */
static int store(struct pb_ctx *ctx, const struct pb_json *rows, int64_t steps)
{
    char path[PB_HOME_MAX];
    struct pb_ring *ring = NULL;
    struct stat st;
    int folder = -1, rc;

    if (stat(pb_arena_printf(&ctx->arena, "/proc/%d", (int)ctx->pid), &st) < 0)
        return pb_err_set(&ctx->err, PB_NO_TARGET, "%d: it has ended", (int)ctx->pid);
    for (int i = 0; folder < 0 && pb_home_roots[i]; i++) {
        pb_home_path(path, pb_home_roots[i], st.st_uid, ctx->pid, pb_home_start_time(ctx->pid));
        folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (folder < 0)
        return pb_err_set(&ctx->err, PB_FAIL, "%d: its folder was not found: the table is not in "
                                              "python.profile_ops", (int)ctx->pid);
    rc = pb_ring_create(&ring, folder, &ring_spec, NULL, &ctx->err);
    for (size_t i = 0; rc == 0 && i < rows->n; i++) {
        const struct pb_json *row = &rows->items[i];
        union pb_cell cells[NCOLUMNS];

        if (!is_row(row))
            continue;
        cells[AT_timestamp].i = pb_clock_wall_ns();
        cells[AT_steps].i = steps;
        cells[AT_op].name = pb_ring_name(ring, row->items[OP].s, row->items[OP].len);
        cells[AT_shapes].text.s = row->items[SHAPES].s;
        cells[AT_shapes].text.len = row->items[SHAPES].len;
        cells[AT_calls].i = (int64_t)number(row, CALLS);
        cells[AT_self_cpu_ms].d = number(row, SELF_CPU);
        cells[AT_cpu_ms].d = number(row, CPU);
        cells[AT_self_device_ms].d = number(row, SELF_DEVICE);
        cells[AT_device_ms].d = number(row, DEVICE);
        pb_ring_append(ring, cells);
    }
    pb_ring_close(ring);
    close(folder);
    return rc;
}

static const char *cell_of(struct pb_ctx *ctx, const struct pb_json *row, int field)
{
    double v = number(row, field);

    return v == v ? pb_arena_printf(&ctx->arena, "%.2f", v) : NULL;
}

static void show(struct pb_ctx *ctx, const struct pb_json *rows)
{
    static const struct pb_column columns[] = {
        {"operation", false, 0, true}, {"shapes", false, 0, true}, {"calls", true, 0, false},
        {"self cpu ms", true, 0, false}, {"cpu ms", true, 0, false},
        {"self device ms", true, 0, false}, {"device ms", true, 0, false},
    };
    size_t limit = (size_t)pb_opt_int(ctx, "rows", 20), n = 0;
    const char **cells = pb_arena_alloc(&ctx->arena, (limit + 1) * FIELDS * sizeof *cells);
    struct pb_table t = {columns, FIELDS, cells, 0};

    for (size_t i = 0; i < rows->n && n < limit; i++) {
        const struct pb_json *row = &rows->items[i];
        const char **at = &cells[n * FIELDS];

        if (!is_row(row))
            continue;
        at[OP] = row->items[OP].s;
        at[SHAPES] = row->items[SHAPES].type == PB_J_STRING ? row->items[SHAPES].s : NULL;
        at[CALLS] = pb_arena_printf(&ctx->arena, "%.0f", number(row, CALLS));
        for (int f = SELF_CPU; f < FIELDS; f++)
            at[f] = cell_of(ctx, row, f);
        n++;
    }
    t.nrows = n;
    pb_table_print(&ctx->out, &t);
}

static int copy(int from, int to)
{
    char piece[65536];
    ssize_t n;

    while ((n = read(from, piece, sizeof piece)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 || write(to, piece, (size_t)n) != n)
            return -1;
        if (atomic_load(&cancelled)) {
            errno = EINTR;
            return -1;
        }
    }
    return 0;
}

/* The target has written it where it could; we may see other files than it does. */
static const char *place_of(struct pb_ctx *ctx, const char *trace)
{
    return pb_arena_printf(&ctx->arena, "/proc/%d/root%s", (int)ctx->pid, trace);
}

static int fetch(struct pb_ctx *ctx, const char *trace)
{
    const char *path = pb_opt_str(ctx, "output",
                                  pb_arena_printf(&ctx->arena, "probing-%d.trace.json",
                                                  (int)ctx->pid));
    const char *there = place_of(ctx, trace);
    int from = open(there, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), to = -1, rc = 0;

    if (from < 0)
        return pb_err_set(&ctx->err, PB_FAIL, "%s: %s", there, strerror(errno));
    to = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (to < 0 || copy(from, to) < 0) {
        rc = pb_err_set(&ctx->err, PB_FAIL, "%s: %s", path, strerror(errno));
        if (to >= 0)
            unlink(path);
    } else
        pb_print_f(&ctx->out, "trace: %s (open it in https://ui.perfetto.dev)\n", path);
    if (to >= 0)
        close(to);
    close(from);
    unlink(there);
    return rc;
}

static int profile(struct pb_ctx *ctx)
{
    const char *trace, *error;
    const struct pb_json *rows;
    struct pb_json answer;

    if (ask(ctx, &answer) < 0)
        return -1;
    trace = pb_json_str(&answer, "trace", NULL);
    if (ctx->interrupted) {
        if (trace)
            unlink(place_of(ctx, trace));
        return -1;
    }
    error = pb_json_str(&answer, "error", NULL);
    if (error)
        return pb_err_set(&ctx->err, PB_FAIL, "%d: %s", (int)ctx->pid, error);
    rows = pb_json_get(&answer, "rows");
    if (!rows || rows->type != PB_J_ARRAY)
        return pb_err_set(&ctx->err, PB_FAIL, "%d: the profiler gave no table", (int)ctx->pid);
    show(ctx, rows);
    if (!trace)
        pb_ctx_notice(ctx, pb_arena_printf(&ctx->arena,
                                           "the trace of %ld MB is over the limit and was dropped",
                                           (long)(pb_json_whole(&answer, "bytes", 0) >> 20)));
    else if (fetch(ctx, trace) < 0)
        return -1;
    return store(ctx, rows, pb_json_whole(&answer, "steps", 0));
}

static int run(struct pb_ctx *ctx)
{
    struct sigaction act = {.sa_handler = on_interrupt}, old;
    int rc;

    sigaction(SIGINT, NULL, &old);
    if (old.sa_handler != SIG_IGN)
        sigaction(SIGINT, &act, NULL);
    rc = profile(ctx);
    sigaction(SIGINT, &old, NULL);
    ctx->interrupted |= atomic_load(&cancelled);
    if (ctx->interrupted)
        ctx->err.msg[0] = '\0'; /* who pressed it knows */
    return ctx->interrupted ? -1 : rc;
}
