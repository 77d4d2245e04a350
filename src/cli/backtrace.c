/*
 * probing TARGET backtrace - where a Python process is, right now.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/nodelink.h"
#include "show/stack.h"
#include "unwind/snapshot.h"
#include "unwind/stop.h"

static int run(struct pb_ctx *ctx);

static const struct pb_opt options[] = {
    {.name = "all", .letter = 'a', .help = "every thread, not only the main one"},
    {.name = "locals", .letter = 'l', .help = "local variables with their values"},
    {.name = "secrets", .help = "with -l: passwords, tokens and keys as they are, not as ***"},
    {.name = "native", .letter = 'n',
     .help = "C and C++ frames between the Python frames; with -a also threads without Python"},
    {.name = "subprocesses", .letter = 's',
     .help = "also the processes that it started, and theirs, as a tree"},
    {.name = "format", .letter = 'f', .type = PB_OPT_CHOICE, .arg = "FORMAT",
     .choices = "text|json", .help = "text (default) or json"},
    {.name = "json", .help = "the same as -f json"},
    {.name = "no-pause", .help = "never stop a thread; a stack that could not be read exactly is "
                                 "marked torn"},
    {.name = "pause", .help = "stop the whole process for one instant across all threads, and "
                              "say for how long"},
    {.name = "watch", .letter = 'w', .type = PB_OPT_NUM, .arg = "SECS", .min = 0, .max = 86400,
     .help = "repeat every SECS seconds until Ctrl-C"},
    {.name = "count", .type = PB_OPT_INT, .arg = "N", .min = 1, .max = 1000000000,
     .help = "with -w: end after N times"},
    {.name = "limit", .type = PB_OPT_INT, .arg = "N", .min = 0, .max = 200000,
     .help = "frames shown per thread (default 200; 0: all); the middle is left out"},
    {.name = NULL},
};

static const struct pb_positional positionals[] = {
    {.name = "TID", .help = "thread id: this thread only"},
    {.name = NULL},
};

const struct pb_cmd pb_cmd_backtrace = {
    .name = "backtrace",
    .aliases = "bt, b",
    .summary = "Show the backtrace of the target process or thread",
    .details =
        "Reads the stack of a live CPython (3.4 to 3.15) from outside: nothing is loaded into the\n"
        "process, the GIL is not needed, and it works when the interpreter hangs. The innermost\n"
        "frame comes first. A blocked thread is never stopped. A running thread is held alone for\n"
        "a few tens of microseconds if its stack keeps changing while it is read.\n"
        "With -v the executing line is shown, and what of it is being executed (3.11 and later);\n"
        "with -l arguments of a function are marked.",
    .options = options,
    .positionals = positionals,
    .target = PB_TARGET_PROCESS,
    .job = PB_JOB_TITLED,
    .remote = true,
    .examples = "probing 4242 backtrace        # where is the main thread?\n"
                "probing 4242 backtrace -a -l  # all threads, with local variables\n"
                "probing 4242 bt -a -n         # C and C++ frames as well\n"
                "probing 4242 bt -s            # a launcher with its ranks and their workers\n"
                "probing 4242 bt -f json       # every field, for scripts\n",
    .run = run,
};

static int read_options(struct pb_ctx *ctx, struct pb_snapshot_opts *o)
{
    if (pb_opt_flag(ctx, "pause") && pb_opt_flag(ctx, "no-pause"))
        return pb_err_set(&ctx->err, PB_USAGE, "--pause and --no-pause exclude each other");
    *o = (struct pb_snapshot_opts){
        .all = pb_opt_flag(ctx, "all"),
        .locals = pb_opt_flag(ctx, "locals"),
        .native = pb_opt_flag(ctx, "native"),
        .source = ctx->verbose,
        .pause = pb_opt_flag(ctx, "pause")      ? PB_PAUSE_ALL
                 : pb_opt_flag(ctx, "no-pause") ? PB_PAUSE_NEVER
                                                : PB_PAUSE_ONE,
        .max_frames = (size_t)pb_opt_int(ctx, "limit", 200),
    };
    if (ctx->nargs && pb_opt_flag(ctx, "subprocesses"))
        return pb_err_set(&ctx->err, PB_USAGE, "TID and --subprocesses exclude each other");
    if (ctx->nargs) {
        char *end;
        long tid = strtol(ctx->args[0], &end, 10);

        if (*end || tid <= 0 || tid > INT32_MAX)
            return pb_err_set(&ctx->err, PB_USAGE, "'%s' is not a thread id", ctx->args[0]);
        o->tid = (pid_t)tid;
    }
    return 0;
}

static int show_tree(struct pb_ctx *ctx, const struct pb_snapshot_opts *o, bool json)
{
    const struct pb_stack_tree_opts how = {
        .json = json, .verbose = ctx->verbose, .secrets = pb_opt_flag(ctx, "secrets")};

    return pb_stack_tree(&ctx->out, ctx->pid, o, &how, &ctx->err);
}

static int show_once(struct pb_ctx *ctx, struct pb_target *t, const struct pb_snapshot_opts *o,
                     bool json)
{
    struct pb_arena arena = PB_ARENA_INIT;
    struct pb_snapshot snap;
    int rc;

    if (!t)
        return show_tree(ctx, o, json);
    rc = pb_target_snapshot(t, o, &arena, &snap, &ctx->err);
    if (rc == 0 && !pb_opt_flag(ctx, "secrets"))
        pb_stack_mask(&snap, &arena);
    if (rc == 0 && json)
        pb_stack_json(&ctx->out.buf, &snap, o);
    else if (rc == 0)
        pb_stack_text(&ctx->out, &snap, o, ctx->verbose);
    if (rc == 0 && ctx->verbose)
        pb_stack_verbose(&snap);
    pb_arena_finish(&arena);
    return rc;
}

/* The node at the other end reads and writes it as this one would. */
static const char *remote_path(struct pb_ctx *ctx, const struct pb_snapshot_opts *o, bool json)
{
    static const char *const pauses[] = {
        [PB_PAUSE_ONE] = "one", [PB_PAUSE_ALL] = "all", [PB_PAUSE_NEVER] = "never"};
    struct pb_buf b = PB_BUF_INIT;
    const char *path;

    pb_buf_printf(&b, "/api/backtrace?format=%s&all=%d&locals=%d&native=%d&pause=%s&limit=%zu",
                  json ? "json" : "text", o->all, o->locals, o->native, pauses[o->pause],
                  o->max_frames);
    pb_buf_printf(&b, "&width=%d&colour=%d&verbose=%d&subprocesses=%d", ctx->out.width,
                  ctx->out.colour, ctx->verbose, pb_opt_flag(ctx, "subprocesses"));
    if (pb_opt_flag(ctx, "secrets"))
        pb_buf_puts(&b, "&secrets=1");
    if (o->tid)
        pb_buf_printf(&b, "&tid=%d", (int)o->tid);
    if (ctx->scope) {
        pb_buf_puts(&b, "&target=");
        pb_http_encode(&b, ctx->scope);
    }
    path = pb_arena_strdup(&ctx->arena, b.data);
    pb_buf_finish(&b);
    return path;
}

/* Sleeps in parts: usleep need not take more than a second, and a thread may yet stop. */
static void pause_between(double secs)
{
    double part;

    for (; secs > 0; secs -= part) {
        part = pb_stop_tidy() ? 0.02 : 0.5;
        usleep((useconds_t)((secs < part ? secs : part) * 1e6));
    }
}

struct place {
    struct pb_target *target; /* on this machine; NULL for a tree of processes */
    struct pb_nodelink node;  /* or elsewhere */
    const char *path;
};

static int open_place(struct pb_ctx *ctx, const struct pb_snapshot_opts *o, bool json,
                      struct place *p)
{
    if (!ctx->remote && pb_opt_flag(ctx, "subprocesses"))
        return 0;
    if (!ctx->remote)
        return pb_target_open(&p->target, ctx->pid, ctx->command_line, &ctx->err);
    p->path = remote_path(ctx, o, json);
    return pb_nodelink_open(ctx, &p->node);
}

static void close_place(struct place *p)
{
    pb_target_close(p->target);
    pb_nodelink_close(&p->node);
}

static int run(struct pb_ctx *ctx)
{
    bool json = pb_opt_flag(ctx, "json") || strcmp(pb_opt_str(ctx, "format", "text"), "json") == 0;
    double every = pb_opt_num(ctx, "watch", -1);
    long count = pb_opt_int(ctx, "count", every < 0 ? 1 : 0);
    struct pb_snapshot_opts o;
    struct place place = {0};
    int rc;

    if (read_options(ctx, &o) < 0 || open_place(ctx, &o, json, &place) < 0)
        return -1;
    for (long i = 0;; i++) {
        if (i && !json)
            pb_stack_again(&ctx->out);
        rc = ctx->remote ? pb_nodelink_text(ctx, &place.node, place.path)
                         : show_once(ctx, place.target, &o, json);
        if (rc == 0)
            rc = pb_print_flush(&ctx->out, &ctx->err);
        if (rc < 0 || (count && i + 1 >= count) || ctx->out.broken)
            break;
        pause_between(every);
    }
    close_place(&place);
    return rc;
}
