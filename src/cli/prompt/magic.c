#include "cli/prompt/magic.h"

#include <string.h>

#include "base/embed.h"
#include "cli/client/link.h"
#include "cli/client/query.h"
#include "cli/client/stacks.h"
#include "host/text/nearest.h"
#include "display/table.h"

static int do_bt(struct pb_ctx *ctx, struct pb_agent *agent, const char *args);
static int do_threads(struct pb_ctx *ctx, struct pb_agent *agent, const char *args);
static int do_query(struct pb_ctx *ctx, struct pb_agent *agent, const char *args);
static int do_who(struct pb_ctx *ctx, struct pb_agent *agent, const char *args);
static int do_help(struct pb_ctx *ctx, struct pb_agent *agent, const char *args);

static const struct magic {
    const char *name, *help;
    int (*run)(struct pb_ctx *ctx, struct pb_agent *agent, const char *args);
} magics[] = {
    {"%bt", "[-a] [-l] [-n] [TID]  where the process is: all threads, locals, C frames", do_bt},
    {"%threads", "one line for each thread", do_threads},
    {"%query", "SQL  rows of this process: %query SELECT * FROM python.threads", do_query},
    {"%sql", "the same", do_query},
    {"%who", "names in __main__ and what they are", do_who},
    {"%help", "this list", do_help},
    {"%exit", "leave (also exit, quit, Ctrl-D)", NULL},
};

#define COUNT (sizeof magics / sizeof *magics)

/* The snapshot points into the target object: the caller closes that when it is shown. */
static int snapshot(struct pb_ctx *ctx, const struct pb_snapshot_opts *o, struct pb_arena *a,
                    struct pb_snapshot *ret, struct pb_target **ret_target)
{
    *ret_target = NULL;
    if (pb_target_open(ret_target, ctx->pid, ctx->command_line, &ctx->err) < 0)
        return -1;
    return pb_target_snapshot(*ret_target, o, a, ret, &ctx->err);
}

/* "-a -l 1234", letters together or apart. */
static int read_bt(struct pb_ctx *ctx, const char *args, struct pb_stack_opts *o)
{
    static const char *const letters[][2] = {{"a", "all"}, {"l", "locals"}, {"n", "native"}};
    char *words = pb_arena_strdup(&ctx->arena, args), *word;

    while ((word = strsep(&words, " \t"))) {
        bool dashed = *word == '-';

        if (!dashed && *word && pb_stack_opts_set(o, "tid", word, &ctx->err) < 0)
            return -1;
        for (const char *p = word + 1; dashed && *p; p++) {
            size_t i = 0;

            while (i < sizeof letters / sizeof *letters && *p != *letters[i][0])
                i++;
            if (i == sizeof letters / sizeof *letters)
                return pb_err_set(&ctx->err, PB_USAGE, "%%bt knows -a, -l and -n, not -%c", *p);
            pb_stack_opts_set(o, letters[i][1], "1", &ctx->err);
        }
    }
    return 0;
}

static int do_bt(struct pb_ctx *ctx, struct pb_agent *agent, const char *args)
{
    struct pb_stack_opts o = PB_STACK_OPTS_INIT;
    struct pb_stacks stacks = {0};
    int rc = read_bt(ctx, args, &o);

    (void)agent;
    if (rc == 0)
        rc = pb_stacks_open(ctx, &stacks, &o);
    if (rc == 0)
        rc = pb_stacks_show(ctx, &stacks, false);
    pb_print_flush(&ctx->out, NULL);
    pb_stacks_close(&stacks);
    return rc;
}

static int do_threads(struct pb_ctx *ctx, struct pb_agent *agent, const char *args)
{
    static const struct pb_column columns[] = {
        {.title = "tid", .right = true}, {.title = "name"}, {.title = "state"},
        {.title = "gil"}, {.title = "at", .shrinks = true, .min_width = 20},
    };
    enum { N = sizeof columns / sizeof *columns };
    struct pb_snapshot_opts o = {.all = true};
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_table table = {.columns = columns, .ncolumns = N};
    struct pb_snapshot snap;
    struct pb_target *target;
    int rc;

    (void)args;
    if (ctx->remote)
        return do_query(ctx, agent, "SELECT tid, thread, state, holds_gil, top_func, top_file, "
                                    "top_line FROM python.threads ORDER BY tid");
    rc = snapshot(ctx, &o, &a, &snap, &target);
    table.nrows = rc == 0 ? snap.nthreads : 0;
    table.cells = PB_NEW_N(&a, const char *, table.nrows * N + 1);
    for (size_t i = 0; i < table.nrows; i++) {
        const struct pb_thread *t = &snap.threads[i];
        const char **row = &table.cells[i * N];

        row[0] = pb_arena_printf(&a, "%d", (int)t->tid);
        row[1] = t->name ? pb_text_clean(&a, t->name) : "";
        row[2] = pb_arena_printf(&a, "%s%s%s", pb_state_name(t->state), t->wait ? ": " : "",
                                 t->wait ? t->wait : "");
        row[3] = t->holds_gil ? "holds" : "";
        row[4] = t->nframes && t->frames[0].func
                     ? pb_text_clean(&a, pb_arena_printf(&a, "%s %s:%d", t->frames[0].func,
                                                         t->frames[0].file ? t->frames[0].file
                                                                           : "?",
                                                         t->frames[0].lineno))
                     : "";
    }
    if (rc == 0)
        pb_table_print(&ctx->out, &table);
    pb_print_flush(&ctx->out, NULL);
    pb_target_close(target);
    pb_arena_finish(&a);
    return rc;
}

static int do_query(struct pb_ctx *ctx, struct pb_agent *agent, const char *args)
{
    int rc;

    (void)agent;
    args += strspn(args, " \t");
    if (!*args)
        return pb_err_set(&ctx->err, PB_USAGE, "SQL is missing: %%query SELECT 1");
    if (!ctx->remote)
        ctx->scope = pb_arena_printf(&ctx->arena, "%d", (int)ctx->pid);
    rc = pb_query_show(ctx, args, "table");
    ctx->interrupted = false; /* the prompt goes on */
    return rc;
}

PB_EMBED(who, "src/cli/scripts/who.py")

static int do_who(struct pb_ctx *ctx, struct pb_agent *agent, const char *args)
{
    struct pb_link_eval e = {.code = who, .len = strlen(who), .flags = PB_WIRE_OWN};
    enum pb_wire_result result;
    const char *why;

    (void)args;
    if (pb_link_eval(ctx, agent, &e, &result, &why) < 0)
        return -1;
    return pb_link_explain(ctx, "%who", &e, agent, result, why);
}

static int do_help(struct pb_ctx *ctx, struct pb_agent *agent, const char *args)
{
    (void)agent;
    (void)args;
    for (size_t i = 0; i < COUNT; i++)
        pb_print_f(&ctx->out, "%-9s %s\n", magics[i].name, magics[i].help);
    return pb_print_flush(&ctx->out, NULL);
}

int pb_magic_run(struct pb_ctx *ctx, struct pb_agent *agent, const char *line)
{
    size_t len = strcspn(line, " \t");
    char *name = pb_arena_strndup(&ctx->arena, line, len);
    struct pb_nearest near = PB_NEAREST_INIT(name);

    for (size_t i = 0; i < COUNT; i++) {
        if (magics[i].run && strcmp(magics[i].name, name) == 0)
            return magics[i].run(ctx, agent, line + len);
        pb_nearest_offer(&near, magics[i].name);
    }
    return pb_err_set(&ctx->err, PB_USAGE, "no command %s; %s%s", name,
                      pb_nearest_result(&near) ? "nearest: " : "%help lists them",
                      pb_nearest_result(&near) ? pb_nearest_result(&near) : "");
}

size_t pb_magic_complete(const char *text, struct pb_arena *a, char ***ret)
{
    size_t n = 0;

    *ret = PB_NEW_N(a, char *, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        if (strncmp(magics[i].name, text, strlen(text)) == 0)
            (*ret)[n++] = pb_arena_strdup(a, magics[i].name);
    return n;
}
