/*
 * probing [TARGET] export - rows into files that other tools read.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/destination.h"
#include "cli/flame/export_trace.h"
#include "cli/client/nodelink.h"
#include "cli/times.h"

#define FLUSH_BYTES (256 << 10)
#define SAY_EVERY_NS 200000000u

static int run(struct pb_ctx *ctx);

static const struct pb_opt options[] = {
    {.name = "output", .letter = 'o', .type = PB_OPT_STR, .arg = "FILE",
     .help = "the file, - for stdout; with several tables a folder with a file each"},
    {.name = "format", .letter = 'f', .type = PB_OPT_CHOICE, .arg = "FORMAT",
     .choices = "parquet|csv|json|ndjson",
     .help = "how to write rows (default: as the name of the file ends, else parquet)"},
    {.name = "table", .letter = 'T', .type = PB_OPT_MANY, .arg = "TABLE",
     .help = "export this table; may be given several times (default: all that are recorded)"},
    {.name = "trace", .type = PB_OPT_STR, .arg = "FILE",
     .help = "instead of rows: what happened when, as tracks, for Perfetto (or Chrome when FILE "
             "ends in .json); the last 10 min unless --since says otherwise"},
    {.name = "since", .type = PB_OPT_STR, .arg = "TIME",
     .help = "only rows from then on: '2025-08-01 12:00', or 90s, 10min, 2h, 3d ago"},
    {.name = "until", .type = PB_OPT_STR, .arg = "TIME", .help = "only rows before then"},
    {.name = "timeout", .type = PB_OPT_NUM, .arg = "SECS", .min = 0.01, .max = 86400,
     .help = "how long one table may take (default 3600)"},
    {.name = "force", .help = "overwrite files that are there"},
    {.name = NULL},
};

static const struct pb_positional positionals[] = {
    {.name = "SQL", .help = "the rows to export, instead of --table", .many = true},
    {.name = NULL},
};

const struct pb_cmd pb_cmd_export = {
    .name = "export",
    .summary = "Write the rows of a query or of tables to files",
    .details =
        "With a target, living or dead, only its rows; without one those of all processes. Rows\n"
        "come from shared memory and from the history on disk, as in a query. A file appears when\n"
        "it is complete; one that is there already is not touched without --force.",
    .options = options,
    .positionals = positionals,
    .target = PB_TARGET_SCOPE,
    .examples = "probing 4242 export --trace run.pftrace            # opens in ui.perfetto.dev\n"
                "probing export --since 1h -o last-hour             # every table, a folder\n"
                "probing 4242 export -T python.memory -o mem.csv    # one table of one process\n"
                "probing export 'SELECT * FROM gpu.utilization' -o gpu.parquet\n",
    .run = run,
};

/* One file in the making. */
struct exporting {
    struct pb_ctx *ctx;
    struct pb_nodelink link;
    struct pb_destination output;
    const char *path, *format, *what;
    const char *folder; /* that `path` is in; NULL: the current one */
    uint64_t bytes, said_ns;
    bool progress;
};

static void show_progress(struct exporting *e, bool last)
{
    uint64_t now = pb_clock_ns();

    if (!e->progress || (!last && now - e->said_ns < SAY_EVERY_NS))
        return;
    e->said_ns = now;
    if (last)
        fprintf(stderr, "\r\033[K");
    else
        fprintf(stderr, "\r\033[K%s  %.1f MB", e->what, (double)e->bytes / 1e6);
}

static int write_row(const void *data, size_t len, void *arg)
{
    struct exporting *e = arg;
    struct pb_print *out = &e->ctx->out;

    pb_buf_add(&out->buf, data, len);
    e->bytes += len;
    if (out->buf.len < FLUSH_BYTES)
        return 0;
    show_progress(e, false);
    if (pb_destination_flush(&e->output) < 0)
        return -1;
    return out->broken;
}

static int write_file(struct exporting *e, const char *sql)
{
    struct pb_ctx *ctx = e->ctx;
    struct pb_question q = {
        .quiet = true,
        .sql = sql,
        .format = e->format,
        .sink = write_row,
        .arg = e,
        .timeout_ms = (int)(pb_opt_num(ctx, "timeout", 3600) * 1000),
    };
    int rc;

    e->bytes = 0;
    if (pb_destination_open(ctx, &e->output, e->path, false) < 0)
        return -1;
    rc = pb_nodelink_query(ctx, &e->link, &q, NULL);
    if (pb_destination_close(&e->output, rc == 0) < 0)
        rc = -1;
    show_progress(e, true);
    return rc;
}

static int refuse_existing(struct pb_ctx *ctx, const char *path)
{
    struct stat st;

    if (pb_opt_flag(ctx, "force") || strcmp(path, "-") == 0 || stat(path, &st) < 0 ||
        !(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))
        return 0;
    return pb_err_set(&ctx->err, PB_USAGE, "%s: is there already; --force overwrites it", path);
}

static int range_sql(struct pb_ctx *ctx, const char **ret)
{
    static const struct {
        const char *option, *name, *compare;
    } ends[] = {{"since", "--since", ">="}, {"until", "--until", "<"}};

    *ret = "";
    for (int i = 0; i < 2; i++) {
        const char *at;

        if (!pb_opt_flag(ctx, ends[i].option))
            continue;
        at = pb_times_sql(ctx, ends[i].name, pb_opt_str(ctx, ends[i].option, NULL));
        if (!at)
            return -1;
        *ret = pb_arena_printf(&ctx->arena, "%s %s timestamp %s %s", *ret, **ret ? "AND" : "WHERE",
                               ends[i].compare, at);
    }
    return 0;
}

/* What is recorded: tables in rings and in history, with a time to go by if one is asked for. */
static int recorded_tables(struct exporting *e, const char *range, char ***ret, size_t *ret_n)
{
    struct pb_ctx *ctx = e->ctx;
    const struct pb_json **rows;
    size_t n;

    if (pb_nodelink_rows(ctx, &e->link,
                         *range ? "SELECT name FROM probing.tables WHERE source = 'ring' AND "
                                  "rows > 0 AND name IN (SELECT name FROM probing.columns WHERE "
                                  "\"column\" = 'timestamp') ORDER BY name"
                                : "SELECT name FROM probing.tables WHERE source = 'ring' AND "
                                  "rows > 0 ORDER BY name",
                         &rows, &n) < 0)
        return -1;
    *ret = PB_NEW_N(&ctx->arena, char *, n + 1);
    *ret_n = 0;
    for (size_t i = 0; i < n; i++)
        if (rows[i]->n && rows[i]->items[0].type == PB_J_STRING)
            (*ret)[(*ret_n)++] = pb_arena_strdup(&ctx->arena, rows[i]->items[0].s);
    return *ret_n ? 0 : pb_err_set(&ctx->err, PB_FAIL, "nothing is recorded here yet");
}

/* The tables of --table, which stand one on a line. */
static void named_tables(struct pb_ctx *ctx, const char *lines, char ***ret, size_t *ret_n)
{
    char *copy = pb_arena_strdup(&ctx->arena, lines), *save, *line;
    size_t capacity = 1;

    for (const char *p = lines; *p; p++)
        capacity += *p == '\n';
    *ret = PB_NEW_N(&ctx->arena, char *, capacity);
    *ret_n = 0;
    for (line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        (*ret)[(*ret_n)++] = line;
}

/* A table's name as SQL and as the name of a file: nothing but letters, digits, _ and points. */
static int check_name(struct pb_ctx *ctx, const char *name)
{
    for (const char *p = name; *p; p++)
        if (!isalnum((unsigned char)*p) && *p != '_' && (*p != '.' || p == name))
            return pb_err_set(&ctx->err, PB_USAGE, "--table: '%s' is no name of a table", name);
    return 0;
}

/* One line for a file that is complete; at once, since the next one takes stdout's place. */
static int report(struct exporting *e)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    double size = (double)e->bytes;
    size_t unit = 0;

    if (strcmp(e->path, "-") == 0)
        return 0;
    for (; size >= 1000 && unit + 1 < sizeof units / sizeof *units; unit++)
        size /= 1000;
    if (e->folder)
        pb_print_text(&e->ctx->out, PB_PLAIN, pb_arena_printf(&e->ctx->arena, "%s/", e->folder));
    pb_print_text(&e->ctx->out, PB_PLAIN, e->path);
    pb_print_f(&e->ctx->out, unit ? "  %.1f %s\n" : "  %.0f %s\n", size, units[unit]);
    return pb_print_flush(&e->ctx->out, &e->ctx->err);
}

static int export_table(struct exporting *e, const char *table, const char *range)
{
    e->what = table;
    if (write_file(e, pb_arena_printf(&e->ctx->arena, "SELECT * FROM %s%s", table, range)) < 0)
        return -1;
    return report(e);
}

static bool is_empty_folder(int fd)
{
    int copy = dup(fd), n = 0;
    DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
    struct dirent *entry;

    if (!dir) {
        if (copy >= 0)
            close(copy);
        return false;
    }
    while ((entry = readdir(dir)))
        n++;
    closedir(dir);
    return n == 2;
}

/* Files are made from within: where the folder's name leads meanwhile does not matter. */
static int fill_folder(struct exporting *e, char **tables, size_t n, const char *range)
{
    struct pb_ctx *ctx = e->ctx;

    for (size_t i = 0; i < n; i++) {
        e->path = pb_arena_printf(&ctx->arena, "%s.%s", tables[i], e->format);
        if (export_table(e, tables[i], range) < 0)
            return pb_err_prefix(&ctx->err, "%s", tables[i]);
    }
    return 0;
}

static int export_folder(struct exporting *e, char **tables, size_t n, const char *range)
{
    struct pb_ctx *ctx = e->ctx;
    int before, fd, rc = -1;

    if (strcmp(e->path, "-") == 0)
        return pb_err_set(&ctx->err, PB_USAGE, "several tables do not fit on stdout: -o FOLDER");
    e->folder = e->path;
    fd = pb_destination_folder(ctx, e->folder);
    if (fd < 0)
        return -1;
    before = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (!is_empty_folder(fd) && refuse_existing(ctx, e->folder) < 0)
        rc = -1;
    else if (before < 0 || fchdir(fd) < 0)
        rc = pb_err_set(&ctx->err, PB_FAIL, "%s: %s", e->folder, strerror(errno));
    else
        rc = fill_folder(e, tables, n, range);
    if (before >= 0) {
        if (fchdir(before) < 0 && rc == 0)
            rc = pb_err_set(&ctx->err, PB_FAIL, ".: %s", strerror(errno));
        close(before);
    }
    close(fd);
    return rc;
}

static int export_tables(struct exporting *e)
{
    struct pb_ctx *ctx = e->ctx;
    const char *lines = pb_opt_str(ctx, "table", NULL), *range;
    char **tables;
    size_t n;

    if (range_sql(ctx, &range) < 0)
        return -1;
    if (lines)
        named_tables(ctx, lines, &tables, &n);
    else if (recorded_tables(e, range, &tables, &n) < 0)
        return -1;
    for (size_t i = 0; i < n; i++)
        if (check_name(ctx, tables[i]) < 0)
            return -1;
    if (n > 1 || !lines)
        return export_folder(e, tables, n, range);
    if (refuse_existing(ctx, e->path) < 0)
        return -1;
    return export_table(e, tables[0], range);
}

static int export_sql(struct exporting *e)
{
    struct pb_ctx *ctx = e->ctx;
    const char *sql = ctx->args[0];

    if (pb_opt_flag(ctx, "table") || pb_opt_flag(ctx, "since") || pb_opt_flag(ctx, "until"))
        return pb_err_set(&ctx->err, PB_USAGE,
                          "SQL says itself which rows: --table, --since and --until do not go "
                          "with it");
    for (int i = 1; i < ctx->nargs; i++)
        sql = pb_arena_printf(&ctx->arena, "%s %s", sql, ctx->args[i]);
    if (refuse_existing(ctx, e->path) < 0)
        return -1;
    e->what = e->path;
    return write_file(e, sql) < 0 ? -1 : report(e);
}

static const char *format_by_name(const char *path)
{
    const char *dot = strrchr(path, '.');

    if (dot && (strcmp(dot, ".csv") == 0 || strcmp(dot, ".json") == 0 ||
                strcmp(dot, ".ndjson") == 0))
        return dot + 1;
    return "parquet";
}

static int run(struct pb_ctx *ctx)
{
    struct exporting e = {.ctx = ctx, .path = pb_opt_str(ctx, "output", NULL)};
    int rc;

    if (pb_opt_flag(ctx, "trace"))
        return pb_export_trace(ctx);
    if (!e.path || !*e.path)
        return pb_err_set(&ctx->err, PB_USAGE, "export: where to? -o FILE");
    e.format = pb_opt_str(ctx, "format", format_by_name(e.path));
    if (strcmp(e.path, "-") == 0 && ctx->out.is_terminal && strcmp(e.format, "parquet") == 0)
        return pb_err_set(&ctx->err, PB_USAGE,
                          "Parquet is not for a terminal; write it to a file: -o FILE");
    e.progress = isatty(STDERR_FILENO) && strcmp(e.path, "-") != 0;
    if (pb_nodelink_open(ctx, &e.link) < 0)
        return -1;
    rc = ctx->nargs ? export_sql(&e) : export_tables(&e);
    pb_nodelink_close(&e.link);
    return rc;
}
