/*
 * probing [TARGET] query - ask in SQL.
 */
#include "cli/client/query.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/destination.h"
#include "cli/client/nodelink.h"
#include "cli/times.h"
#include "host/text/number.h"
#include "node/query/query.h"
#include "display/result.h"

#define FLUSH_BYTES (256 << 10)
#define SCREEN_LIMIT 10000
#define SQL_MAX (8u << 20)

static int run(struct pb_ctx *ctx);

static const struct pb_opt options[] = {
    {.name = "format", .letter = 'f', .type = PB_OPT_CHOICE, .arg = "FORMAT",
     .choices = "table|json|ndjson|csv|parquet|markdown",
     .help = "how to print rows (default: table, or as the name of -o ends)"},
    {.name = "output", .letter = 'o', .type = PB_OPT_STR, .arg = "FILE",
     .help = "into a file, which appears when it is complete"},
    {.name = "file", .letter = 'F', .type = PB_OPT_STR, .arg = "FILE",
     .help = "read the SQL from a file, - for stdin"},
    {.name = "watch", .letter = 'w', .type = PB_OPT_NUM, .arg = "SECS", .min = 0.05, .max = 86400,
     .help = "ask again every SECS seconds until Ctrl-C"},
    {.name = "count", .type = PB_OPT_INT, .arg = "N", .min = 1, .max = 1000000000,
     .help = "with -w: end after N times"},
    {.name = "limit", .type = PB_OPT_INT, .arg = "N", .min = 0, .max = 1e15,
     .help = "rows shown of each statement (default 10000 for a table on a terminal; 0: all)"},
    {.name = "dead", .help = "of ended processes as well, where no target says which"},
    {.name = "local", .help = "of this machine alone, also when its node is in a cluster"},
    {.name = "since", .type = PB_OPT_STR, .arg = "TIME",
     .help = "with --store on a lake: read the hours (UTC) from that of TIME on"},
    {.name = "until", .type = PB_OPT_STR, .arg = "TIME",
     .help = "with --store on a lake: read the hours before that of TIME"},
    {.name = "timeout", .type = PB_OPT_NUM, .arg = "SECS", .min = 0.01, .max = 86400,
     .help = "how long it may take (default: the setting query.timeout, 60)"},
    {.name = NULL},
};

static const struct pb_positional positionals[] = {
    {.name = "SQL", .help = "one or more statements, separated by ;", .many = true},
    {.name = NULL},
};

const struct pb_cmd pb_cmd_query = {
    .name = "query",
    .aliases = "q",
    .summary = "Query data from the target process",
    .details =
        "With a target, living or dead, only its rows; without one those of all living processes\n"
        "of this user (root: of all), and with --dead of the ended ones, too. The word query may\n"
        "be left out in front of SQL. The statements are answered by a node (`probing serve`),\n"
        "which starts by itself and ends when unused; nothing of this runs inside the target.\n"
        "Only reading is possible, and settings: SET probing.KEY = VALUE. `probing tables` lists\n"
        "what there is. Ctrl-C cancels the query.\n"
        "When this node is in a cluster (`probing cluster attach`), a question without a target\n"
        "is for all its machines: each row has its host and rank, answers are exact for the\n"
        "whole, and who did not answer is said.\n"
        "Exit code 1: the SQL failed; 4: no such target; 5: it took too long; 6: the answer is\n"
        "without nodes that did not answer.",
    .options = options,
    .positionals = positionals,
    .target = PB_TARGET_SCOPE,
    .job = PB_JOB_TOGETHER,
    .whole_cluster = true,
    .examples =
        "probing 4242 query 'SELECT func, file, lineno FROM python.backtrace ORDER BY depth'\n"
        "probing 4242 'SELECT * FROM memory_usage'          # the same word left out\n"
        "probing q -f json 'SELECT * FROM probing.tables'   # all processes, for scripts\n"
        "probing job:train.py q 'SELECT * FROM slow_ranks'  # all ranks and their workers\n"
        "probing ranks:0-7 q 'SELECT rank, max(step) FROM training_logs GROUP BY rank'\n"
        "probing host:8080 q 'SELECT 1'                     # a node elsewhere\n"
        "probing 4242 q -w 2 'SELECT * FROM python.threads' # again every two seconds\n"
        "probing q -F report.sql -o report.parquet\n",
    .run = run,
};

struct asking {
    struct pb_ctx *ctx;
    struct pb_nodelink link;
    struct pb_destination outlet;
    struct pb_result result;
    const char *sql, *format;
    bool table; /* made here from rows; the other formats come ready from the node */
    bool on_screen;
    struct pb_text_tail tail; /* end of a format that is no table, on the screen */
    uint64_t limit;
    int timeout_ms;
    bool living; /* without a target, the ended ones are left out */
    bool counts; /* says how many processes it covered */
    const char *cluster; /* as in pb_question */
};

static int sql_of_file(struct pb_ctx *ctx, const char *path, const char **ret)
{
    struct pb_buf text = PB_BUF_INIT;
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC), rc = 0;
    char piece[65536];
    ssize_t n = fd < 0 ? -1 : 0;

    while (fd >= 0 && ((n = read(fd, piece, sizeof piece)) > 0 || (n < 0 && errno == EINTR))) {
        pb_buf_add(&text, piece, n > 0 ? (size_t)n : 0);
        if (text.len > SQL_MAX)
            break;
    }
    if (n < 0)
        rc = pb_err_set(&ctx->err, PB_USAGE, "%s: %s", path, strerror(errno));
    else if (text.len > SQL_MAX)
        rc = pb_err_set(&ctx->err, PB_USAGE, "%s: longer than %u MB", path, SQL_MAX >> 20);
    if (fd >= 0 && !is_stdin)
        close(fd);
    *ret = pb_arena_strndup(&ctx->arena, text.data ? text.data : "", text.len);
    pb_buf_finish(&text);
    return rc;
}

static int read_sql(struct pb_ctx *ctx, const char **ret)
{
    const char *file = pb_opt_str(ctx, "file", NULL);

    if (file && ctx->nargs)
        return pb_err_set(&ctx->err, PB_USAGE, "--file and SQL on the command line exclude each "
                                               "other");
    if (file)
        return sql_of_file(ctx, file, ret);
    if (!ctx->nargs)
        return pb_err_set(&ctx->err, PB_USAGE, "query: SQL is missing");
    *ret = ctx->args[0];
    for (int i = 1; i < ctx->nargs; i++)
        *ret = pb_arena_printf(&ctx->arena, "%s %s", *ret, ctx->args[i]);
    return 0;
}

static const char *format_by_name(const char *path)
{
    static const char *const known[][2] = {{"json", "json"}, {"ndjson", "ndjson"},
                                           {"jsonl", "ndjson"}, {"csv", "csv"},
                                           {"parquet", "parquet"}, {"md", "markdown"}};
    const char *dot = path ? strrchr(path, '.') : NULL;

    for (size_t i = 0; dot && i < sizeof known / sizeof *known; i++)
        if (strcmp(dot + 1, known[i][0]) == 0)
            return known[i][1];
    return "table";
}

static int read_options(struct asking *q)
{
    struct pb_ctx *ctx = q->ctx;
    const char *path = pb_opt_str(ctx, "output", NULL);
    bool on_screen = ctx->out.is_terminal && (!path || strcmp(path, "-") == 0);

    q->on_screen = on_screen;
    q->format = pb_opt_str(ctx, "format", format_by_name(path));
    q->table = strcmp(q->format, "table") == 0 || strcmp(q->format, "markdown") == 0;
    q->limit = (uint64_t)pb_opt_int(ctx, "limit", q->table && on_screen ? SCREEN_LIMIT : 0);
    q->living = !pb_opt_flag(ctx, "dead");
    q->counts = true;
    q->timeout_ms = (int)(pb_opt_num(ctx, "timeout", 0) * 1000);
    q->cluster = ctx->cluster ? "true"
                 : ctx->store || ctx->target || pb_opt_flag(ctx, "local") ? NULL
                                                                          : "\"auto\"";
    if (ctx->cluster && pb_opt_flag(ctx, "local"))
        return pb_err_set(&ctx->err, PB_USAGE, "--local and a cluster exclude each other");
    if (strcmp(q->format, "parquet") == 0 && on_screen)
        return pb_err_set(&ctx->err, PB_USAGE,
                          "Parquet is not for a terminal; write it to a file: -o FILE");
    if (pb_opt_flag(ctx, "watch") && path)
        return pb_err_set(&ctx->err, PB_USAGE, "--watch and --output exclude each other");
    return pb_times_hours(ctx) < 0 ? -1 : read_sql(ctx, &q->sql);
}

/* A line of the answer for a table, bytes as they are otherwise; those drive no terminal. */
static int handle_line(const void *data, size_t len, void *arg)
{
    struct asking *q = arg;
    struct pb_ctx *ctx = q->ctx;

    if (!q->table && q->on_screen)
        pb_text_stream(&q->tail, data, len, &ctx->out.buf);
    else if (!q->table)
        pb_buf_add(&ctx->out.buf, data, len);
    else if (pb_result_line(&q->result, data, len, &ctx->err) < 0)
        return -1;
    if (ctx->out.buf.len < FLUSH_BYTES)
        return 0;
    if (pb_destination_flush(&q->outlet) < 0)
        return -1;
    return ctx->out.broken;
}

static const char *grouped(struct pb_arena *a, uint64_t n)
{
    char *text = pb_arena_printf(a, "%llu", (unsigned long long)n);
    struct pb_buf b = PB_BUF_INIT;

    for (size_t left = strlen(text); left; left--, text++) {
        pb_buf_putc(&b, *text);
        if (left % 3 == 1 && left > 1)
            pb_buf_putc(&b, ',');
    }
    text = pb_arena_strdup(a, b.data);
    pb_buf_finish(&b);
    return text;
}

/* "12,345 more rows" */
static const char *more_rows(struct asking *q, const struct pb_answer *answered)
{
    struct pb_arena *a = &q->ctx->arena;

    if (answered->left_out == PB_SQL_UNKNOWN)
        return "more rows";
    return pb_arena_printf(a, "%s more row%s", grouped(a, answered->left_out),
                           pb_plural((size_t)answered->left_out, "s"));
}

/* For people: whose rows these were when nobody was named. */
static void say_covered(struct asking *q, const struct pb_answer *answered)
{
    struct pb_arena *a = &q->ctx->arena;
    const char *many = pb_plural((size_t)answered->living, "es");

    if (answered->nodes && !answered->partial && isatty(STDERR_FILENO))
        pb_ctx_notice(q->ctx, pb_arena_printf(a, "probing: all %lld nodes of the cluster answered; "
                                                 "--local is this machine alone",
                                              (long long)answered->nodes));
    if (answered->living < 0 || !isatty(STDERR_FILENO))
        return;
    pb_ctx_notice(q->ctx,
                  answered->ended < 0
                      ? pb_arena_printf(a, "probing: covers %lld living process%s; --dead adds "
                                           "those that ended",
                                        (long long)answered->living, many)
                      : pb_arena_printf(a, "probing: covers %lld living process%s and %lld that "
                                           "ended",
                                        (long long)answered->living, many,
                                        (long long)answered->ended));
}

static void say_more(struct asking *q, const struct pb_answer *answered)
{
    struct pb_arena *a = &q->ctx->arena;

    if (answered->truncated)
        pb_ctx_notice(q->ctx, pb_arena_printf(a, "probing: %s; --limit 0 shows all, -o FILE keeps "
                                                 "them", more_rows(q, answered)));
    if (q->ctx->verbose)
        pb_ctx_notice(q->ctx, pb_arena_printf(a, "probing: %s rows, %.1f ms in the node",
                                              grouped(a, answered->rows), answered->ms));
}

static int ask_once(struct asking *q, struct pb_answer *answered)
{
    struct pb_ctx *ctx = q->ctx;
    struct pb_question question = {
        .sql = q->sql,
        .format = q->table ? "rows" : q->format,
        .max_rows = q->limit,
        .timeout_ms = q->timeout_ms,
        .living = q->living,
        .cluster = q->cluster,
        .sink = handle_line,
        .arg = q,
    };
    int rc;

    pb_result_init(&q->result, &ctx->out, strcmp(q->format, "markdown") == 0);
    rc = pb_nodelink_query(ctx, &q->link, &question, answered);
    /* Statements in front of one that failed have been answered. */
    pb_result_end(&q->result);
    pb_result_finish(&q->result);
    if (rc < 0 && ctx->out.broken) {
        ctx->err = (struct pb_err){0};
        ctx->note = NULL;
        rc = 0;
    }
    return rc;
}

static void exit_on_signal(int signo)
{
    (void)signo;
    _exit(0);
}

/* What stands above each repetition: on a terminal it takes the place of the last one. */
static void start_repetition(struct asking *q, double every, bool first)
{
    struct pb_print *out = &q->ctx->out;
    time_t now = time(NULL);
    struct tm tm;
    char text[64];

    if (!q->table)
        return;
    strftime(text, sizeof text, "%H:%M:%S", localtime_r(&now, &tm));
    if (!out->is_terminal) {
        pb_print_f(out, "%s--- %s\n", first ? "" : "\n", text);
        return;
    }
    pb_print_puts(out, "\033[H\033[2J");
    pb_print_style(out, PB_DIM);
    pb_print_f(out, "%s  every %g s", text, every);
    pb_print_style(out, PB_PLAIN);
    pb_print_puts(out, "\n\n");
}

static int watch(struct asking *q, double every)
{
    struct pb_ctx *ctx = q->ctx;
    struct sigaction act = {.sa_handler = exit_on_signal};
    struct timespec pause = pb_clock_timespec((uint64_t)(every * 1e9));
    long count = pb_opt_int(ctx, "count", 0);
    int screen = ctx->out.is_terminal ? pb_destination_screen() : 0;
    struct pb_answer answered;
    int rc = 0;

    if (screen > 8 && q->table && (!q->limit || q->limit > (uint64_t)screen - 6))
        q->limit = (uint64_t)screen - 6;
    sigaction(SIGINT, &act, NULL);
    for (long i = 0; rc == 0 && !ctx->out.broken && (!count || i < count); i++) {
        if (i)
            nanosleep(&pause, NULL);
        start_repetition(q, every, i == 0);
        rc = ask_once(q, &answered);
        if (rc == 0 && answered.truncated && q->table)
            pb_print_f(&ctx->out, "… %s\n", more_rows(q, &answered));
        if (rc == 0)
            rc = pb_destination_flush(&q->outlet);
    }
    if (ctx->interrupted) {
        ctx->interrupted = false;
        ctx->err = (struct pb_err){0};
        rc = 0;
    }
    return rc;
}

/* Everything is set but the link and where it goes. */
static int answer(struct asking *q, const char *path, double every)
{
    struct pb_answer answered = {0};
    int rc;

    if (pb_nodelink_open(q->ctx, &q->link) < 0)
        return -1;
    rc = pb_destination_open(q->ctx, &q->outlet, path, q->table && !every);
    if (rc == 0) {
        rc = every ? watch(q, every) : ask_once(q, &answered);
        if (pb_destination_close(&q->outlet, rc == 0) < 0)
            rc = -1;
    }
    if (rc == 0) {
        say_more(q, &answered);
        if (!every && q->counts)
            say_covered(q, &answered);
        q->ctx->partial |= answered.partial;
    }
    pb_nodelink_close(&q->link);
    return rc;
}

static int run(struct pb_ctx *ctx)
{
    struct asking q = {.ctx = ctx};

    if (read_options(&q) < 0)
        return -1;
    return answer(&q, pb_opt_str(ctx, "output", NULL), pb_opt_num(ctx, "watch", 0));
}

int pb_query_show(struct pb_ctx *ctx, const char *sql, const char *format)
{
    struct asking q = {.ctx = ctx, .sql = sql, .format = format,
                       .cluster = ctx->cluster ? "true" : NULL};

    q.table = strcmp(format, "table") == 0 || strcmp(format, "markdown") == 0;
    if (q.table && ctx->out.is_terminal)
        q.limit = SCREEN_LIMIT;
    return answer(&q, NULL, 0);
}
