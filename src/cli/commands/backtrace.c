/*
 * probing TARGET backtrace - where a Python process is, right now.
 */
#include <string.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/target/core.h"
#include "cli/cluster/folded.h"
#include "cli/client/stacks.h"
#include "display/stack.h"
#include "stack/stop/stop.h"

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
        "with -l arguments of a function are marked.\n"
        "Of several ranks of a cluster (ranks:0-7, --cluster) equal stacks are shown once, with\n"
        "their ranks; those that few ranks have come first.\n"
        "With --core FILE in front it reads a core file; the thread that ended the process comes\n"
        "first.",
    .options = options,
    .positionals = positionals,
    .target = PB_TARGET_PROCESS,
    .job = PB_JOB_TITLED,
    .whole_cluster = true,
    .remote = true,
    .core = true,
    .examples = "probing 4242 backtrace        # where is the main thread?\n"
                "probing 4242 backtrace -a -l  # all threads, with local variables\n"
                "probing 4242 bt -a -n         # C and C++ frames as well\n"
                "probing 4242 bt -s            # a launcher with its ranks and their workers\n"
                "probing cluster backtrace     # all ranks of all machines, equal stacks as one\n"
                "probing rank:17 backtrace -l  # one of them, wherever it runs\n"
                "probing 4242 bt -f json       # every field, for scripts\n"
                "probing --core core.4242 bt -a -n  # of a process that crashed\n",
    .run = run,
};

static int read_options(struct pb_ctx *ctx, struct pb_stack_opts *o)
{
    static const char *const flags[] = {"all", "locals", "native", "subprocesses", "secrets"};
    struct pb_err *err = &ctx->err;

    if (pb_opt_flag(ctx, "pause") && pb_opt_flag(ctx, "no-pause"))
        return pb_err_set(err, PB_USAGE, "--pause and --no-pause exclude each other");
    if (ctx->nargs && pb_opt_flag(ctx, "subprocesses"))
        return pb_err_set(err, PB_USAGE, "TID and --subprocesses exclude each other");
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (pb_opt_flag(ctx, flags[i]))
            pb_stack_opts_set(o, flags[i], "1", err);
    if (ctx->verbose)
        pb_stack_opts_set(o, "verbose", "1", err);
    if (pb_opt_flag(ctx, "pause") || pb_opt_flag(ctx, "no-pause"))
        pb_stack_opts_set(o, "pause", pb_opt_flag(ctx, "pause") ? "all" : "never", err);
    o->snapshot.max_frames = (size_t)pb_opt_int(ctx, "limit", (long)o->snapshot.max_frames);
    if (ctx->nargs && (pb_stack_opts_set(o, "tid", ctx->args[0], NULL) < 0 || !o->snapshot.tid))
        return pb_err_set(err, PB_USAGE, "'%s' is not a thread id", ctx->args[0]);
    return 0;
}

static int show_core(struct pb_ctx *ctx, bool json)
{
    static const char *const living[] = {"pause", "no-pause", "watch", "count", "subprocesses"};
    struct pb_stack_opts o = PB_STACK_OPTS_INIT;

    for (size_t i = 0; i < sizeof living / sizeof *living; i++)
        if (pb_opt_flag(ctx, living[i]))
            return pb_err_set(&ctx->err, PB_USAGE, "--%s: a core file is no living process",
                              living[i]);
    return read_options(ctx, &o) < 0 ? -1 : pb_cli_core_stacks(ctx, &o, json);
}

/* Sleeps in parts: usleep need not take more than a second, and a thread may yet stop. */
static void pause_between(struct pb_tracer *tracer, double secs)
{
    double part;

    for (; secs > 0; secs -= part) {
        part = pb_stop_release_abandoned(tracer) ? 0.02 : 0.5;
        usleep((useconds_t)((secs < part ? secs : part) * 1e6));
    }
}

static int run(struct pb_ctx *ctx)
{
    bool json = pb_opt_flag(ctx, "json") || strcmp(pb_opt_str(ctx, "format", "text"), "json") == 0;
    double every = pb_opt_num(ctx, "watch", -1);
    long count = pb_opt_int(ctx, "count", every < 0 ? 1 : 0);
    struct pb_stack_opts o = PB_STACK_OPTS_INIT;
    struct pb_stacks stacks = {0};
    int rc;

    if (ctx->core)
        return show_core(ctx, json);
    if (ctx->cluster && !ctx->remote && !ctx->pid)
        return pb_folded_show(ctx, json);
    if (read_options(ctx, &o) < 0 || pb_stacks_open(ctx, &stacks, &o) < 0)
        return -1;
    for (long i = 0;; i++) {
        if (i && !json)
            pb_stack_again(&ctx->out);
        rc = pb_stacks_show(ctx, &stacks, json);
        if (rc == 0)
            rc = pb_print_flush(&ctx->out, &ctx->err);
        if (rc < 0 || (count && i + 1 >= count) || ctx->out.broken)
            break;
        pause_between(&stacks.tracer, every);
    }
    pb_stacks_close(&stacks);
    return rc;
}
