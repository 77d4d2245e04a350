#include "cli/target/dead.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/target/job.h"
#include "host/text/json_write.h"
#include "host/python/script.h"
#include "node/serve/serve.h"
#include "display/table.h"

#define NS_PER_S 1000000000ll

static const char *time_text(struct pb_arena *a, int64_t ns, bool for_people)
{
    time_t seconds = (time_t)(ns / NS_PER_S);
    struct tm tm;
    char text[40];

    if (ns <= 0)
        return "";
    if (for_people)
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", localtime_r(&seconds, &tm));
    else
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &tm));
    return pb_arena_strdup(a, text);
}

enum { PID, PROCESS, HOST, PYTHON, RANK, ENDED, HOW, TABLES, ROWS, COMMAND, NCOLUMNS };

static const struct pb_column columns[NCOLUMNS] = {
    [PID] = {.title = "pid", .right = true, .min_width = 6},
    [PROCESS] = {.title = "process"},
    [HOST] = {.title = "host"},
    [PYTHON] = {.title = "python"},
    [RANK] = {.title = "rank"},
    [ENDED] = {.title = "ended"},
    [HOW] = {.title = "how"},
    [TABLES] = {.title = "tables", .right = true},
    [ROWS] = {.title = "rows", .right = true},
    [COMMAND] = {.title = "command", .shrinks = true},
};

static void make_cells(struct pb_arena *a, const struct pb_ended *d, bool csv,
                       const char *cell[NCOLUMNS])
{
    cell[PID] = pb_arena_strndup(a, d->id, strcspn(d->id, "-"));
    cell[PROCESS] = d->id;
    cell[HOST] = d->host;
    cell[PYTHON] = d->python;
    cell[RANK] = d->rank < 0 ? (csv ? "" : "-") : pb_arena_printf(a, "%ld", (long)d->rank);
    cell[ENDED] = d->later && csv ? "" : time_text(a, d->ended_ns, !csv);
    if (d->later && !csv)
        cell[ENDED] = pb_arena_printf(a, "after %s", cell[ENDED]);
    cell[HOW] = d->how ? d->how : csv ? "" : "-";
    cell[TABLES] = pb_arena_printf(a, "%zu", d->tables);
    cell[ROWS] = pb_arena_printf(a, "%llu", (unsigned long long)d->rows);
    cell[COMMAND] = d->command;
}

/* With -v also what tells apart two processes of one number. */
static void print_table(struct pb_ctx *ctx, const struct pb_ended_list *l, bool csv)
{
    struct pb_arena *a = &ctx->arena;
    struct pb_column shown[NCOLUMNS];
    size_t n = 0;
    struct pb_table t = {.columns = shown, .cells = PB_NEW_N(a, const char *, NCOLUMNS * l->n + 1)};
    const char **to = t.cells;

    for (size_t i = 0; i <= l->n; i++) { /* the titles first */
        const char *cell[NCOLUMNS];

        if (i)
            make_cells(a, &l->v[i - 1], csv, cell);
        for (int c = 0; c < NCOLUMNS; c++) {
            if ((c == PROCESS || c == HOST) && !csv && !ctx->verbose)
                continue;
            if (i)
                *to++ = cell[c];
            else
                shown[n++] = columns[c];
        }
    }
    t.ncolumns = n;
    t.nrows = l->n;
    if (csv)
        pb_table_print_csv(&ctx->out, &t);
    else
        pb_table_print(&ctx->out, &t);
}

static void print_json(struct pb_ctx *ctx, const struct pb_ended_list *l)
{
    struct pb_buf *b = &ctx->out.buf;

    pb_buf_puts(b, "[");
    for (size_t i = 0; i < l->n; i++) {
        const struct pb_ended *d = &l->v[i];
        const char *ended = time_text(&ctx->arena, d->ended_ns, false);

        pb_buf_puts(b, i ? ",\n {" : "{");
        pb_json_key(b, "pid");
        pb_json_int(b, strtol(d->id, NULL, 10));
        pb_json_key(b, "process");
        pb_json_string(b, d->id);
        pb_json_key(b, "host");
        pb_json_string(b, d->host);
        pb_json_key(b, "python");
        pb_json_string_or_null(b, d->python);
        pb_json_key(b, "rank");
        if (d->rank < 0)
            pb_buf_puts(b, "null");
        else
            pb_json_int(b, d->rank);
        pb_json_key(b, "ended");
        pb_json_string_or_null(b, *ended && !d->later ? ended : NULL);
        pb_json_key(b, "seen");
        pb_json_string_or_null(b, *ended ? ended : NULL);
        pb_json_key(b, "how");
        pb_json_string_or_null(b, d->how);
        pb_json_key(b, "command");
        pb_json_string_or_null(b, d->command);
        pb_json_key(b, "tables");
        pb_buf_putc(b, '[');
        for (size_t k = 0; k < d->tables; k++) {
            pb_json_comma(b);
            pb_json_string(b, d->names[k]);
        }
        pb_buf_putc(b, ']');
        pb_json_key(b, "rows");
        pb_json_int(b, (int64_t)d->rows);
        pb_buf_putc(b, '}');
    }
    pb_buf_puts(b, "]\n");
}

static void print(struct pb_ctx *ctx, struct pb_ended_list *l, const char *format)
{
    if (strcmp(format, "json") == 0)
        print_json(ctx, l);
    else if (strcmp(format, "csv") == 0 || l->n)
        print_table(ctx, l, strcmp(format, "csv") == 0);
    else
        pb_ctx_notice(ctx, "no ended processes that left tables behind");
}

static int gather(struct pb_ctx *ctx, struct pb_ended_list *ret)
{
    struct pb_serve_paths paths;

    if (!ctx->store && pb_serve_paths_find(&paths, &ctx->err) < 0)
        return -1;
    return pb_ended_read(ret, ctx->store, ctx->store ? ctx->store : paths.data, &ctx->arena,
                         &ctx->err);
}

int pb_dead_list(struct pb_ctx *ctx, const char *format)
{
    struct pb_ended_list l;

    if (gather(ctx, &l) < 0)
        return -1;
    print(ctx, &l, format);
    return 0;
}

/* The command line was kept with spaces between its words. */
static bool ran(struct pb_arena *a, const char *command, const char *script)
{
    size_t len = strlen(command);
    char *argv = pb_arena_strdup(a, command);

    for (size_t i = 0; i < len; i++)
        argv[i] = argv[i] == ' ' ? '\0' : argv[i];
    return pb_script_runs(argv, len, script);
}

int pb_dead_of_script(struct pb_ctx *ctx, const char *script, int64_t since_ns, const char ***ret,
                      size_t *ret_n)
{
    struct pb_ended_list l;

    if (gather(ctx, &l) < 0)
        return -1;
    *ret = PB_NEW_N(&ctx->arena, const char *, l.n + 1);
    *ret_n = 0;
    for (size_t i = 0; i < l.n; i++)
        if (l.v[i].ended_ns >= since_ns && l.v[i].command &&
            ran(&ctx->arena, l.v[i].command, script))
            (*ret)[(*ret_n)++] = l.v[i].id;
    return 0;
}

const struct pb_ended *pb_dead_find(struct pb_ctx *ctx, const char *id)
{
    struct pb_err before = ctx->err;
    struct pb_ended_list l = {.n = 0};
    size_t len = strlen(id);

    if (gather(ctx, &l) < 0)
        l.n = 0;
    ctx->err = before;
    for (size_t i = 0; i < l.n; i++)
        if (strncmp(l.v[i].id, id, len) == 0 && (!l.v[i].id[len] || l.v[i].id[len] == '-'))
            return &l.v[i];
    return NULL;
}
