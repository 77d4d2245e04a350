/*
 * probing TARGET inject - load the agent into a running process.
 */
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/home.h"
#include "cli/cmd.h"
#include "cli/client/environment.h"
#include "cli/client/link.h"
#include "cli/client/listen.h"
#include "host/net/agent_socket.h"
#include "host/text/number.h"
#include "host/process/proc.h"
#include "inject/inject.h"
#include "node/serve/serve.h"

static int run(struct pb_ctx *ctx);

static const struct pb_opt options[] = {
    {.name = "define", .letter = 'D', .type = PB_OPT_MANY, .arg = "KEY=VALUE",
     .help = "set a setting of the agent; may be given several times"},
    {.name = "pprof", .letter = 'P',
     .help = "sample its stacks all the time (-D profile.rate=HZ, default 19), and start the node "
             "that keeps them; see flamegraph --last"},
    {.name = "crash", .letter = 'c',
     .help = "a report of all threads when it crashes: see crashes"},
    {.name = "listen", .letter = 'l', .type = PB_OPT_STR, .arg = "ADDRESS",
     .help = "answer at this address for this process: [HOST]:PORT; see serve"},
    {.name = "force", .help = "try it under a seccomp filter, too, which may end the process"},
    {.name = "timeout", .type = PB_OPT_NUM, .arg = "SECS", .min = 0.1, .max = 3600,
     .help = "how long to look for a safe moment and to wait for the agent (default 10)"},
    {.name = NULL},
};

const struct pb_cmd pb_cmd_inject = {
    .name = "inject",
    .aliases = "in, i",
    .summary = "Inject probes into the target process",
    .details =
        "Loads the agent into a live CPython (3.6 to 3.15) that nobody prepared for it. A thread\n"
        "is borrowed for about a twentieth of a millisecond, at a moment when it is known to hold\n"
        "no lock that matters; all others run on. It restores itself, so the job goes on whatever\n"
        "happens to this tool. -v says which thread it was, and for how long it was held.\n"
        "\n"
        "Settings of the agent in the environment of this command go along, as with -D:\n"
        "PROBING_SAMPLE_RATE=0.1 is sample_rate. What the process has in its own comes first.",
    .options = options,
    .target = PB_TARGET_PROCESS,
    .job = PB_JOB_EACH,
    .remote = true,
    .examples = "probing 4242 inject                     # then eval, repl, config\n"
                "probing 4242 inject -D eval.timeout=60  # with a setting\n"
                "PROBING_SAMPLE_RATE=0.1 probing 4242 inject\n"
                "probing 4242 inject -P                  # with continuous sampling\n"
                "probing 4242 inject -c                  # and a report if it crashes\n"
                "probing job:train.py inject             # all ranks and their workers\n"
                "probing 4242 inject -l 0.0.0.0:8080     # and reachable from elsewhere\n"
                "probing host:8080/4242 inject           # through a node elsewhere\n"
                "probing 4242 eject                      # undo it\n",
    .run = run,
};

static bool defines(const char *lines, const char *key)
{
    size_t n = strlen(key);

    for (; *lines; lines += strcspn(lines, "\n"), lines += *lines == '\n') {
        const char *at = strncmp(lines, "probing.", 8) == 0 ? lines + 8 : lines;

        if (strncmp(at, key, n) == 0 && (at[n] == '=' || at[n] == ' '))
            return true;
    }
    return false;
}

/* -P: the rate is set, even where the process has 0 in its environment, and a node is there. */
static int add_pprof(struct pb_ctx *ctx, const char **lines)
{
    static const char key[] = "profile.rate";
    const struct pb_setting *s = &pb_setting_list[PB_SET_PROFILE_RATE];

    if (!pb_opt_flag(ctx, "pprof"))
        return 0;
    if (!defines(*lines, key))
        *lines = pb_arena_printf(&ctx->arena, "%s%s%s=%lld", *lines, **lines ? "\n" : "", key,
                                 (long long)s->default_value);
    return ctx->remote ? 0 : pb_serve_start(&ctx->err);
}

/* -c: reports are made by this very program, and go to this user's folder. */
static int add_crash(struct pb_ctx *ctx, const char **lines)
{
    char tool[PATH_MAX] = "", data[PATH_MAX];
    ssize_t n;

    if (!pb_opt_flag(ctx, "crash") && !defines(*lines, "crash"))
        return 0;
    if (ctx->remote)
        return pb_err_set(&ctx->err, PB_USAGE, "--crash works on the target's own machine only, "
                                               "not on %s", ctx->target);
    n = readlink("/proc/self/exe", tool, sizeof tool - 1);
    if (n <= 0 || pb_serve_data_dir(data, sizeof data, &ctx->err) < 0)
        return -1;
    *lines = pb_arena_printf(&ctx->arena, "%s%s%s%s%s%s%s", *lines, **lines ? "\n" : "",
                             defines(*lines, "crash") ? "" : "crash=on\n",
                             defines(*lines, "crash.tool") ? "" : "crash.tool=",
                             defines(*lines, "crash.tool") ? "" : tool,
                             defines(*lines, "crash.data") ? "" : "\ncrash.data=",
                             defines(*lines, "crash.data") ? "" : data);
    return 0;
}

static int check_definitions(struct pb_ctx *ctx, const char *lines)
{
    while (*lines) {
        size_t len = strcspn(lines, "\n");
        const char *equals = memchr(lines, '=', len);
        int index = equals ? pb_settings_find(lines, (size_t)(equals - lines)) : -1;

        if (!equals || equals == lines)
            return pb_err_set(&ctx->err, PB_USAGE, "--define: '%.*s' is not KEY=VALUE", (int)len,
                              lines);
        if (index >= 0 && pb_settings_whose(index) == PB_OF_NODE)
            return pb_link_of_node(ctx, lines, len);
        lines += len + (lines[len] == '\n');
    }
    return 0;
}

static void print_report(struct pb_ctx *ctx, const struct pb_inject_report *r)
{
    struct pb_print e;

    pb_print_init(&e, STDERR_FILENO);
    pb_print_f(&e, "%s: thread %d, held for %.0f µs; %d attempt%s, %.1f ms in all\n", r->way,
               (int)r->tid, r->pause_us, r->attempts, pb_plural((size_t)r->attempts, "s"),
               r->total_us / 1000);
    pb_print_flush(&e, NULL);
    pb_print_finish(&e);
    (void)ctx;
}

/* The node answers for the process, and stops to when it ends. */
static int open_address(struct pb_ctx *ctx)
{
    struct pb_listen w = {.address = pb_opt_str(ctx, "listen", NULL)};

    if (!w.address)
        return 0;
    w.owner = pb_arena_printf(&ctx->arena, "%d-%llu", (int)ctx->pid,
                            (unsigned long long)pb_home_start_time(ctx->pid));
    return pb_listen_open(ctx, &w) < 0 ? pb_err_prefix(&ctx->err, "--listen") : 0;
}

/* The node at the other end does it; what only works on that machine is refused. */
static int run_remote(struct pb_ctx *ctx, const char *lines)
{
    static const char *const here_only[] = {"listen", "force", "timeout"};
    bool there;

    for (size_t i = 0; i < sizeof here_only / sizeof *here_only; i++)
        if (pb_opt_flag(ctx, here_only[i]))
            return pb_err_set(&ctx->err, PB_USAGE, "--%s works on the target's own machine only, "
                                                   "not on %s", here_only[i], ctx->target);
    if (pb_link_load_remote(ctx, lines, &there) < 0)
        return -1;
    pb_print_f(&ctx->out,
               there ? "Probes are already in process %s%s\n"
                     : "Successfully injected probes into process %s\n",
               ctx->target, *lines ? "; options applied" : "");
    return 0;
}

static int run(struct pb_ctx *ctx)
{
    const char *lines = pb_opt_str(ctx, "define", ""), *around;
    int timeout_ms = (int)(pb_opt_num(ctx, "timeout", PB_INJECT_TIMEOUT_MS / 1000.0) * 1000);
    struct pb_inject_report report;

    if (check_definitions(ctx, lines) < 0 || pb_environment_lines(ctx, &around) < 0)
        return -1;
    if (*around)
        lines = pb_arena_printf(&ctx->arena, "%s%s%s", around, *lines ? "\n" : "", lines);
    if (add_pprof(ctx, &lines) < 0 || add_crash(ctx, &lines) < 0)
        return -1;
    if (ctx->remote)
        return run_remote(ctx, lines);
    pb_environment_tell_running(ctx);
    if (pb_proc_check_access(ctx->pid, ctx->command_line, &ctx->err) < 0)
        return -1;
    if (pb_agent_present(ctx->pid)) {
        if (pb_link_apply(ctx, lines) < 0)
            return -1;
        pb_print_f(&ctx->out, "Probes are already in process %d%s\n", (int)ctx->pid,
                   *lines ? "; options applied" : "");
        return open_address(ctx);
    }
    if (pb_inject_agent(ctx->pid, lines, timeout_ms, pb_opt_flag(ctx, "force"), &report,
                        &ctx->err) < 0)
        return -1;
    pb_print_f(&ctx->out,
               report.result == 1 ? "Probes are already in process %d; options applied\n"
                                  : "Successfully injected probes into process %d\n",
               (int)ctx->pid);
    if (ctx->verbose)
        print_report(ctx, &report);
    return open_address(ctx);
}
