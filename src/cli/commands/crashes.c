/*
 * probing crashes [ID] - what ended processes, and where.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/crash/crash_show.h"
#include "cli/crash/crash_take.h"
#include "host/os/crash_files.h"
#include "node/serve/serve.h"

static int run(struct pb_ctx *ctx);

static const struct pb_opt options[] = {
    {.name = "all", .letter = 'a', .help = "with ID: every thread, not only the one that crashed"},
    {.name = "format", .letter = 'f', .type = PB_OPT_CHOICE, .arg = "FORMAT",
     .choices = "text|json", .help = "text (default) or json"},
    {.name = "take", .type = PB_OPT_STR, .arg = "PID:ADDRESS",
     .help = "for the agent in a crashing process: read it and write its report"},
    {.name = NULL},
};

static const struct pb_positional positionals[] = {
    {.name = "ID", .help = "a report: its id, its process, or `last`"},
    {.name = NULL},
};

const struct pb_cmd pb_cmd_crashes = {
    .name = "crashes",
    .summary = "List crashes of processes, or show one with its stacks",
    .details =
        "A process that was told to (inject -c, PROBING_CRASH=1) leaves a report when a signal\n"
        "ends it (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT), or an exception that nobody catches.\n"
        "All of its threads are read from outside while it waits, at most half a second; then\n"
        "happens what would have happened: earlier handlers, core file, exit status.\n"
        "Without ID the newest comes first. Reports are kept as long as other history\n"
        "(retention.days).",
    .options = options,
    .positionals = positionals,
    .examples = "probing 4242 inject -c     # from now on\n"
                "PROBING=1 PROBING_CRASH=1 python train.py\n"
                "probing crashes            # what there was\n"
                "probing crashes last -a    # the newest, with all threads\n"
                "probing crashes 4242 -f json\n",
    .run = run,
};

/* The newest that the text names. */
static const struct pb_crash_file *find(const struct pb_crash_file *v, size_t n, const char *text)
{
    char *end;
    long pid = strtol(text, &end, 10);

    for (size_t i = 0; i < n; i++)
        if (strcmp(text, "last") == 0 || strcmp(v[i].id, text) == 0 ||
            (!*end && pid == pb_json_whole(v[i].head, "pid", -1)))
            return &v[i];
    return NULL;
}

static int show_one(struct pb_ctx *ctx, const char *data, const struct pb_crash_file *v, size_t n,
                    bool json)
{
    const struct pb_crash_file *one = find(v, n, ctx->args[0]);
    const char *stacks;
    size_t len;

    if (!one)
        return pb_err_set(&ctx->err, PB_NO_TARGET, "no crash '%s'; `probing crashes` lists them",
                          ctx->args[0]);
    stacks = pb_crash_files_stacks(data, one->id, &ctx->arena, &len);
    if (json)
        pb_crash_show_json(&ctx->out.buf, one, stacks, len);
    else
        pb_crash_show_text(&ctx->out, one->head, stacks, len, pb_opt_flag(ctx, "all"),
                           ctx->verbose);
    return 0;
}

static int run(struct pb_ctx *ctx)
{
    bool json = strcmp(pb_opt_str(ctx, "format", "text"), "json") == 0;
    const char *take = pb_opt_str(ctx, "take", NULL);
    struct pb_crash_file *v;
    char data[4096];
    size_t n;

    if (take)
        return pb_crash_take(ctx, take);
    if (pb_serve_data_dir(data, sizeof data, &ctx->err) < 0 ||
        pb_crash_files_list(data, &ctx->arena, &v, &n, &ctx->err) < 0)
        return -1;
    if (ctx->nargs)
        return show_one(ctx, data, v, n, json);
    if (json)
        pb_crash_list_json(&ctx->out.buf, v, n);
    else if (n)
        pb_crash_list_text(&ctx->out, v, n, &ctx->arena);
    else
        pb_ctx_notice(ctx, "no crashes; reports are made of processes with inject -c or "
                           "PROBING_CRASH=1");
    return 0;
}
