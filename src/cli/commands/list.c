#include <string.h>

#include "cli/cmd.h"
#include "cli/target/dead.h"
#include "cli/client/query.h"
#include "host/text/json_write.h"
#include "host/python/processes.h"
#include "host/text/secret.h"
#include "display/table.h"

static int run(struct pb_ctx *ctx);

static const struct pb_opt options[] = {
    {.name = "tree", .letter = 't', .help = "Indent processes under the Python that started them"},
    {.name = "dead", .letter = 'd', .help = "Ended processes that left tables behind instead"},
    {.name = "format",
     .letter = 'f',
     .type = PB_OPT_CHOICE,
     .arg = "FORMAT",
     .choices = "table|json|csv",
     .help = "How to print them"},
    {0},
};

const struct pb_cmd pb_cmd_list = {
    .name = "list",
    .aliases = "ls, l",
    .summary = "List the Python processes that you may see",
    .details = "A process is Python when it runs an interpreter or has libpython loaded. The\n"
               "rank is what torchrun, Open MPI, Slurm or MPICH put into its environment.\n"
               "With -v, a column says how the version was found.\n"
               "\n"
               "--dead lists what can still be queried of processes that are gone, the one that\n"
               "ended last first: `probing PID query SQL` works on them. How it ended (a signal,\n"
               "an exit code) is known where a node was at work then; \"after\" is the last time\n"
               "that it was seen, where nobody saw its end.",
    .options = options,
    .stored = true,
    .whole_cluster = true,
    .examples = "probing list\n"
                "probing list -t       # children under their parents\n"
                "probing list -f json  # every field, for scripts\n"
                "probing cluster list  # of all machines\n"
                "probing list --dead   # after the crash",
    .run = run,
};

enum { COL_PID, COL_PYTHON, COL_RANK, COL_USER, COL_THREADS, COL_STATE, COL_COMMAND, COL_HOW };

static const struct pb_column columns[] = {
    [COL_PID] = {.title = "pid", .right = true, .min_width = 6},
    [COL_PYTHON] = {.title = "python", .min_width = 7},
    [COL_RANK] = {.title = "rank"},
    [COL_USER] = {.title = "user"},
    [COL_THREADS] = {.title = "threads", .right = true},
    [COL_STATE] = {.title = "state", .min_width = 7},
    [COL_COMMAND] = {.title = "command", .shrinks = true},
    [COL_HOW] = {.title = "found by"},
};

/* The same facts, one to a column. */
static const struct pb_column csv_columns[] = {
    {.title = "pid"},   {.title = "ns_pid"},     {.title = "parent"},   {.title = "python"},
    {.title = "rank"},  {.title = "world_size"}, {.title = "user"},     {.title = "threads"},
    {.title = "state"}, {.title = "command"},    {.title = "found_by"},
};

#define COUNT(v) (sizeof(v) / sizeof *(v))

/* Processes in the order they are shown, and how far each is indented. */
struct order {
    const struct pb_process **v;
    int *depth;
    size_t n;
};

/* The tree is walked by parent; a loop cannot arise, each process is placed once. */
static void place_children(struct order *o, const struct pb_process *all, size_t n, pid_t parent,
                           int depth)
{
    for (size_t i = 0; i < n; i++) {
        if (all[i].parent != parent || o->n >= n)
            continue;
        o->v[o->n] = &all[i];
        o->depth[o->n++] = depth;
        place_children(o, all, n, all[i].pid, depth + 1);
    }
}

static struct order make_order(struct pb_ctx *ctx, const struct pb_process *all, size_t n)
{
    struct order o = {
        .v = PB_NEW_N(&ctx->arena, const struct pb_process *, n + 1),
        .depth = PB_NEW_N(&ctx->arena, int, n + 1),
    };

    if (pb_opt_flag(ctx, "tree")) {
        place_children(&o, all, n, 0, 0);
        return o;
    }
    for (size_t i = 0; i < n; i++)
        o.v[o.n++] = &all[i];
    return o;
}

static const char *number(struct pb_arena *a, long v)
{
    return v < 0 ? "" : pb_arena_printf(a, "%ld", v);
}

static const char *rank_text(struct pb_arena *a, const struct pb_process *p)
{
    if (p->rank < 0)
        return "-";
    if (p->world_size < 0)
        return number(a, p->rank);
    return pb_arena_printf(a, "%ld/%ld", p->rank, p->world_size);
}

static const char *short_command(const struct pb_process *p, struct pb_arena *a)
{
    struct pb_process shown = *p;

    shown.command = pb_secret_command(p->argv, p->argv_len, p->command, a);
    return pb_process_short_command(&shown);
}

static void print_table(struct pb_ctx *ctx, const struct order *o)
{
    struct pb_arena *a = &ctx->arena;
    size_t ncolumns = ctx->verbose ? COUNT(columns) : COL_HOW;
    struct pb_table t = {columns, ncolumns, PB_NEW_N(a, const char *, ncolumns * o->n + 1), o->n};

    for (size_t i = 0; i < o->n; i++) {
        const struct pb_process *p = o->v[i];
        const char **cell = t.cells + i * ncolumns;

        cell[COL_PID] = number(a, p->pid);
        cell[COL_PYTHON] = p->python.version[0] ? p->python.version : "?";
        cell[COL_RANK] = rank_text(a, p);
        cell[COL_USER] = p->user;
        cell[COL_THREADS] = number(a, p->threads);
        cell[COL_STATE] = p->state;
        cell[COL_COMMAND] =
            pb_arena_printf(a, "%*s%s", 2 * o->depth[i], "",
                            short_command(p, a));
        if (ctx->verbose)
            cell[COL_HOW] = p->python.how;
    }
    pb_table_print(&ctx->out, &t);
}

static void print_csv(struct pb_ctx *ctx, const struct order *o)
{
    struct pb_arena *a = &ctx->arena;
    size_t n = COUNT(csv_columns);
    struct pb_table t = {csv_columns, n, PB_NEW_N(a, const char *, n * o->n + 1), o->n};

    for (size_t i = 0; i < o->n; i++) {
        const struct pb_process *p = o->v[i];
        const char **cell = t.cells + i * n;

        *cell++ = number(a, p->pid);
        *cell++ = number(a, p->ns_pid);
        *cell++ = p->parent ? number(a, p->parent) : "";
        *cell++ = p->python.version;
        *cell++ = number(a, p->rank);
        *cell++ = number(a, p->world_size);
        *cell++ = p->user;
        *cell++ = number(a, p->threads);
        *cell++ = p->state;
        *cell++ = pb_secret_command(p->argv, p->argv_len, p->command, a);
        *cell++ = p->python.how;
    }
    pb_table_print_csv(&ctx->out, &t);
}

static void json_number(struct pb_buf *b, const char *key, long v)
{
    pb_json_key(b, key);
    if (v < 0)
        pb_buf_puts(b, "null");
    else
        pb_json_int(b, v);
}

static void json_text(struct pb_buf *b, const char *key, const char *s)
{
    pb_json_key(b, key);
    pb_json_string_or_null(b, s);
}

static void json_argv(struct pb_buf *b, const struct pb_process *p, struct pb_arena *a)
{
    const char *end = p->argv + p->argv_len, *before = "";

    pb_json_key(b, "argv");
    pb_buf_putc(b, '[');
    for (const char *s = p->argv; s < end; s += strlen(s) + 1) {
        pb_json_comma(b);
        pb_json_string(b, pb_secret_argument(before, s, a));
        before = s;
    }
    pb_buf_putc(b, ']');
}

static void print_json(struct pb_ctx *ctx, const struct order *o)
{
    struct pb_buf *b = &ctx->out.buf;

    pb_buf_puts(b, "[");
    for (size_t i = 0; i < o->n; i++) {
        const struct pb_process *p = o->v[i];

        pb_buf_puts(b, i ? ",\n {" : "{");
        json_number(b, "pid", p->pid);
        json_number(b, "ns_pid", p->ns_pid);
        json_number(b, "parent", p->parent ? p->parent : -1);
        json_text(b, "python", p->python.version[0] ? p->python.version : NULL);
        json_number(b, "rank", p->rank);
        json_number(b, "world_size", p->world_size);
        json_text(b, "user", p->user);
        json_number(b, "uid", (long)p->uid);
        json_number(b, "threads", p->threads);
        json_text(b, "state", p->state);
        json_text(b, "command",
                  pb_secret_command(p->argv, p->argv_len, p->command, &ctx->arena));
        json_argv(b, p, &ctx->arena);
        json_text(b, "module", p->python.module);
        json_text(b, "found_by", p->python.how);
        pb_buf_putc(b, '}');
    }
    pb_buf_puts(b, "]\n");
}

static const char of_cluster[] =
    "SELECT host, pid, python_version AS python, rank, threads, state, command FROM "
    "system.process WHERE python_version IS NOT NULL ORDER BY rank, host, pid";

static int run(struct pb_ctx *ctx)
{
    const char *format = pb_opt_str(ctx, "format", "table");
    struct pb_process *all;
    struct order o;
    int n;

    if (ctx->cluster)
        return pb_query_show(ctx, of_cluster, format);
    if (ctx->store || pb_opt_flag(ctx, "dead"))
        return pb_dead_list(ctx, format);
    n = pb_processes_read(&ctx->arena, &all, &ctx->err);
    if (n < 0)
        return -1;
    o = make_order(ctx, all, (size_t)n);
    if (strcmp(format, "json") == 0)
        print_json(ctx, &o);
    else if (strcmp(format, "csv") == 0)
        print_csv(ctx, &o);
    else if (n)
        print_table(ctx, &o);
    else
        pb_ctx_notice(ctx, "no Python processes");
    return 0;
}
