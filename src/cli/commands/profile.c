/*
 * probing TARGET profile - torch's profiler for some steps, from outside.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/embed.h"
#include "cli/cmd.h"
#include "cli/client/link.h"
#include "cli/profile/profile_together.h"
#include "cli/profile/profile_trace.h"
#include "host/text/buf.h"
#include "host/text/json.h"
#include "host/text/json_write.h"
#include "display/table.h"

PB_EMBED(pb_profile_script, "src/cli/scripts/profile.py")

enum {
    ROWS_KEPT = 1000,
    HEAD_MAX = 64 << 10, /* bytes of the line in front of the trace */
    NAMES_TRIED = 1000,
    STORE_MS = 10000,
};

static int run(struct pb_ctx *ctx);

static const struct pb_opt options[] = {
    {.name = "steps", .letter = 'n', .type = PB_OPT_INT, .arg = "N", .min = 1, .max = 1000,
     .help = "how many training steps, or calls of a model that is not trained (default 5)"},
    {.name = "timeout", .type = PB_OPT_NUM, .arg = "SECS", .min = 1, .max = 3600,
     .help = "how long to wait for them (default 60)"},
    {.name = "output", .letter = 'o', .type = PB_OPT_STR, .arg = "FILE",
     .help = "where the trace goes, for Perfetto or chrome://tracing; a new file (default "
             "probing-PID.trace.json, or with a number where that exists); of several ranks "
             "each has one, with its rank in the name"},
    {.name = "max-events", .type = PB_OPT_INT, .arg = "N", .min = 1000, .max = PB_TRACE_EVENTS,
     .help = "stop early before there are more (default 200000); each costs the job some 5 us and "
             "1.5 KB when the profiler stops"},
    {.name = "max-mb", .type = PB_OPT_INT, .arg = "MB", .min = 16, .max = 65536,
     .help = "stop early when the process has grown by this much (default 512)"},
    {.name = "limit-mb", .type = PB_OPT_INT, .arg = "MB", .min = 1, .max = 16384,
     .help = "no trace file larger than this (default 256); the table comes anyway"},
    {.name = "shapes", .help = "tell calls with different shapes apart"},
    {.name = "rows", .type = PB_OPT_INT, .arg = "N", .min = 1, .max = ROWS_KEPT,
     .help = "how many operations to show (default 20)"},
    {.name = NULL},
};

const struct pb_cmd pb_cmd_profile = {
    .name = "profile",
    .summary = "Run torch's profiler in the target for some training steps",
    .details =
        "Nothing is needed in the program. The profiler starts and stops between two training\n"
        "steps, on the thread that trains; where a model is called without gradients and nothing\n"
        "is trained, before a call. The job waits while it starts, stops and writes: the answer\n"
        "says how long. It stops early, also within a step, when a bound is reached. Operations\n"
        "are shown by their own time, and stand in the table python.profile_ops as well; every\n"
        "single one with its place in time is in the trace file. Profiled steps are marked in\n"
        "python.training_logs. The range Optimizer.step of the last step is still open when the\n"
        "profiler stops, and not among the operations. Ctrl-C stops it at the next call or step\n"
        "and leaves nothing behind. Ranks of a job begin with the same step: they are matched by\n"
        "their collectives.",
    .options = options,
    .target = PB_TARGET_PROCESS,
    .job = PB_JOB_TITLED,
    .prepare = pb_profile_agree,
    .remote = true,
    .examples = "probing 4242 profile                      # five steps\n"
                "probing 4242 profile -n 20 --shapes -o trace.json\n"
                "probing cluster profile -n 3              # all ranks, from the same step on\n",
    .run = run,
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

/* What the script sends: one line of JSON, then the trace. */
struct answer {
    struct pb_buf head;
    bool has_head; /* its end has been seen */
    struct pb_trace *trace;
    const char *path;
    int fd;
    bool named; /* it stands under its path */
    uint64_t bytes, limit; /* size of the trace file, and the most it may have */
    int failure;           /* errno of the first write that failed */
};

static void write_file(struct answer *a, const char *data, size_t len)
{
    a->bytes += len;
    if (a->bytes > a->limit || a->failure)
        return;
    while (len) {
        ssize_t n = write(a->fd, data, len);

        if (n < 0 && errno != EINTR) {
            a->failure = errno;
            return;
        }
        if (n > 0) {
            data += n;
            len -= (size_t)n;
        }
    }
}

static void collect_output(int fd, const void *data, size_t len, void *arg)
{
    struct answer *a = arg;
    const char *end;
    size_t head;

    if (fd != STDOUT_FILENO)
        return;
    if (!a->has_head) {
        end = memchr(data, '\n', len);
        head = end ? (size_t)(end - (const char *)data) : len;
        if (a->head.len + head <= HEAD_MAX)
            pb_buf_add(&a->head, data, head);
        if (!end)
            return;
        a->has_head = true;
        data = end + 1;
        len -= head + 1;
    }
    pb_trace_add(a->trace, data, len);
    write_file(a, data, len);
}

static int file_error(struct pb_ctx *ctx, const struct answer *a, int error)
{
    if (error == EEXIST)
        return pb_err_set(&ctx->err, PB_FAIL,
                          "%s: exists already; remove it, or take another name", a->path);
    return pb_err_set(&ctx->err, PB_FAIL, "%s: %s", a->path, strerror(error));
}

/* A file without a name, where there is such a thing: a tool that is killed leaves none. */
static int open_file(struct pb_ctx *ctx, struct answer *a)
{
    const char *slash = strrchr(a->path, '/');
    const char *folder = !slash ? "."
                         : slash == a->path ? "/"
                                            : pb_arena_strndup(&ctx->arena, a->path,
                                                               (size_t)(slash - a->path));

    a->fd = open(folder, O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);
    if (a->fd < 0 && errno != ENOENT && errno != EACCES) {
        a->fd = open(a->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        a->named = a->fd >= 0;
    }
    return a->fd < 0 ? file_error(ctx, a, errno) : 0;
}

static bool exists(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0;
}

/* The user's file alone, and never one that is there: who looks at a stranger's job may be root. */
static int create_file(struct pb_ctx *ctx, struct answer *a)
{
    const char *wanted = pb_opt_str(ctx, "output", NULL), *who = pb_profile_who(ctx);

    wanted = wanted ? pb_profile_name(ctx, wanted) : NULL;
    a->path = wanted ? wanted : pb_arena_printf(&ctx->arena, "probing-%s.trace.json", who);
    for (int i = 2; exists(a->path); i++) {
        if (wanted || i > NAMES_TRIED)
            return file_error(ctx, a, EEXIST);
        a->path = pb_arena_printf(&ctx->arena, "probing-%s.%d.trace.json", who, i);
    }
    return open_file(ctx, a);
}

static int name_file(struct pb_ctx *ctx, struct answer *a)
{
    const char *self = pb_arena_printf(&ctx->arena, "/proc/self/fd/%d", a->fd);

    if (!a->named && linkat(AT_FDCWD, self, AT_FDCWD, a->path, AT_SYMLINK_FOLLOW) < 0)
        return file_error(ctx, a, errno);
    a->named = true;
    return 0;
}

static void make_code(struct pb_ctx *ctx, double seconds, struct pb_buf *code)
{
    pb_buf_printf(code, "WANTED, SECONDS, EVENTS, GROWTH, SHAPES = %ld, %g, %ld, %ld << 20, %s\n",
                  pb_opt_int(ctx, "steps", 5), seconds, pb_opt_int(ctx, "max-events", 200000),
                  pb_opt_int(ctx, "max-mb", 512), pb_opt_flag(ctx, "shapes") ? "True" : "False");
    pb_buf_printf(code, "BEGIN = %s\n%s", ctx->agreed ? ctx->agreed : "None", pb_profile_script);
}

/* Ctrl-C ends it with ctx->interrupted; the script has cleaned up by then. */
static int ask(struct pb_ctx *ctx, struct pb_agent *agent, struct answer *a, struct pb_json *ret)
{
    double seconds = pb_opt_num(ctx, "timeout", 60) + ctx->agreed_s;
    struct pb_buf code = PB_BUF_INIT;
    struct pb_link_eval how = {.flags = PB_WIRE_OWN,
                               .timeout_ms = (int)((seconds + 60) * 1000),
                               .sink = collect_output,
                               .arg = a};
    enum pb_wire_result result = PB_WIRE_OK;
    const char *why = NULL;
    int rc = -1;

    make_code(ctx, seconds, &code);
    how.code = code.data;
    how.len = code.len;
    if (!atomic_load(&cancelled))
        rc = pb_link_eval(ctx, agent, &how, &result, &why);
    ctx->interrupted = agent->interrupt || atomic_load(&cancelled);
    if (rc == 0 && !ctx->interrupted)
        rc = pb_link_explain(ctx, "profile", &how, agent, result, why);
    if (rc == 0 && !ctx->interrupted)
        rc = pb_json_parse(&ctx->arena, a->head.data ? a->head.data : "", a->head.len, ret,
                           &ctx->err);
    pb_buf_finish(&code);
    return ctx->interrupted ? -1 : rc;
}

static void add_row(struct pb_buf *b, const struct pb_trace_op *op, int64_t steps)
{
    pb_buf_printf(b, "[%lld,", (long long)steps);
    pb_json_string(b, op->name);
    pb_buf_putc(b, ',');
    pb_json_string_or_null(b, op->shapes);
    pb_buf_printf(b, ",%lld,%.6f,%.6f,%.6f,%.6f]", (long long)op->calls, op->self_cpu, op->cpu,
                  op->self_device, op->device);
}

/* The agent itself appends the rows: nobody else writes into the target's folder. */
static int store(struct pb_ctx *ctx, struct pb_agent *agent, const struct pb_trace_op *ops,
                 size_t n, int64_t steps)
{
    struct pb_buf rows = PB_BUF_INIT, code = PB_BUF_INIT;
    struct pb_link_eval how = {.flags = PB_WIRE_OWN, .timeout_ms = STORE_MS};
    enum pb_wire_result result = PB_WIRE_OK;
    const char *why = NULL;
    int rc;

    for (size_t i = 0; i < n && i < ROWS_KEPT; i++) {
        pb_buf_puts(&rows, i ? "," : "[");
        add_row(&rows, &ops[i], steps);
    }
    pb_buf_puts(&rows, n ? "]" : "[]");
    pb_buf_puts(&code, "import json\nfor row in json.loads(");
    pb_json_string(&code, rows.data); /* a JSON string is a Python string as well */
    pb_buf_puts(&code, "):\n    profile_row(*row)\n");
    how.code = code.data;
    how.len = code.len;
    rc = pb_link_eval(ctx, agent, &how, &result, &why);
    if (rc == 0)
        rc = pb_link_explain(ctx, "python.profile_ops", &how, agent, result, why);
    pb_buf_finish(&code);
    pb_buf_finish(&rows);
    return rc;
}

static const char *ms_text(struct pb_ctx *ctx, double v)
{
    return pb_arena_printf(&ctx->arena, "%.2f", v);
}

static void show(struct pb_ctx *ctx, const struct pb_trace_op *ops, size_t n)
{
    static const struct pb_column columns[] = {
        {"operation", false, 0, true}, {"shapes", false, 0, true}, {"calls", true, 0, false},
        {"self cpu ms", true, 0, false}, {"cpu ms", true, 0, false},
        {"self device ms", true, 0, false}, {"device ms", true, 0, false},
    };
    enum { FIELDS = sizeof columns / sizeof *columns };
    size_t limit = (size_t)pb_opt_int(ctx, "rows", 20);
    const char **cells = PB_NEW_N(&ctx->arena, const char *, (limit + 1) * FIELDS), **at = cells;
    struct pb_table t = {columns, FIELDS, cells, n < limit ? n : limit};

    for (size_t i = 0; i < t.nrows; i++) {
        *at++ = ops[i].name;
        *at++ = ops[i].shapes;
        *at++ = pb_arena_printf(&ctx->arena, "%lld", (long long)ops[i].calls);
        *at++ = ms_text(ctx, ops[i].self_cpu);
        *at++ = ms_text(ctx, ops[i].cpu);
        *at++ = ms_text(ctx, ops[i].self_device);
        *at++ = ms_text(ctx, ops[i].device);
    }
    pb_table_print(&ctx->out, &t);
}

/* How much there is, what it cost, and whether it is all that was asked for. */
static void show_cost(struct pb_ctx *ctx, const struct pb_json *head, size_t events)
{
    const char *unit = pb_json_str(head, "unit", "steps"), *why = pb_json_str(head, "why", "");
    double start = pb_json_number(head, "start_s", 0), stop = pb_json_number(head, "stop_s", 0);
    double save = pb_json_number(head, "save_s", 0);
    long long count = (long long)pb_json_whole(head, "count", 0);

    unit = strcmp(unit, "calls") == 0 ? "calls" : "steps";
    pb_print_f(&ctx->out, "%lld %s in %.2f s, %zu events; the job waited %.2f s (start %.3f, stop "
                          "%.3f, write %.3f)\n",
               count, unit, pb_json_number(head, "took_s", 0), events, start + stop + save, start,
               stop, save);
    pb_profile_show_first(ctx, head);
    if (*why)
        pb_ctx_notice(ctx, pb_arena_printf(&ctx->arena, "probing: stopped after %lld of %ld %s: %s",
                                           count, pb_opt_int(ctx, "steps", 5), unit, why));
}

static int show_file(struct pb_ctx *ctx, struct answer *a)
{
    if (a->failure)
        return pb_err_set(&ctx->err, PB_FAIL, "%s: %s", a->path, strerror(a->failure));
    if (a->bytes > a->limit) {
        if (a->named)
            unlink(a->path);
        pb_ctx_notice(ctx, pb_arena_printf(&ctx->arena, "the trace of %llu MB is over the limit "
                                           "and was dropped", (unsigned long long)a->bytes >> 20));
        return 0;
    }
    if (name_file(ctx, a) < 0)
        return -1;
    pb_print_f(&ctx->out, "trace: %s (open it in https://ui.perfetto.dev)\n", a->path);
    return 0;
}

static int profile(struct pb_ctx *ctx, struct pb_agent *agent, struct answer *a)
{
    const struct pb_trace_op *ops;
    const char *error;
    struct pb_json head;
    size_t n, events;

    if (ask(ctx, agent, a, &head) < 0)
        return -1;
    error = pb_json_str(&head, "error", NULL);
    if (error)
        return pb_err_set(&ctx->err, PB_FAIL, "%s: %s", pb_link_who(ctx), error);
    events = pb_trace_events(a->trace);
    ops = pb_trace_ops(a->trace, &n);
    show(ctx, ops, n);
    show_cost(ctx, &head, events);
    if (show_file(ctx, a) < 0)
        return -1;
    return store(ctx, agent, ops, n, pb_json_whole(&head, "count", 0));
}

static int run_profile(struct pb_ctx *ctx)
{
    struct answer a = {.fd = -1, .limit = (uint64_t)pb_opt_int(ctx, "limit-mb", 256) << 20};
    struct pb_agent agent = {.fd = -1};
    int rc;

    if (create_file(ctx, &a) < 0)
        return -1;
    a.trace = pb_trace_create(pb_opt_flag(ctx, "shapes"));
    rc = pb_link_open(ctx, &agent);
    if (rc == 0)
        rc = profile(ctx, &agent, &a);
    if ((rc < 0 || ctx->interrupted) && a.named)
        unlink(a.path);
    close(a.fd);
    pb_agent_close(&agent);
    pb_trace_destroy(a.trace);
    pb_buf_finish(&a.head);
    return rc;
}

static int run(struct pb_ctx *ctx)
{
    struct sigaction act = {.sa_handler = on_interrupt}, old;
    int rc;

    sigaction(SIGINT, NULL, &old);
    if (old.sa_handler != SIG_IGN)
        sigaction(SIGINT, &act, NULL);
    rc = run_profile(ctx);
    sigaction(SIGINT, &old, NULL);
    ctx->interrupted |= atomic_load(&cancelled);
    if (ctx->interrupted)
        ctx->err.msg[0] = '\0'; /* who pressed it knows */
    return ctx->interrupted ? -1 : rc;
}
