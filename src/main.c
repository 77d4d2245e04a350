#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/manual/help.h"
#include "cli/target/job.h"
#include "cli/line/parse.h"
#include "cli/patience.h"
#include "cli/target/target.h"
#include "cli/cluster/together.h"
#include "host/os/filemap.h"

#define EXIT_INTERRUPTED 130
/* An answer without some nodes of the cluster, which were named on stderr. */
#define EXIT_PARTIAL 6

/* Nothing to tidy up: the kernel releases whatever was being traced. */
static void on_interrupt(int signo)
{
    (void)signo;
    _exit(EXIT_INTERRUPTED);
}

static void set_signals(void)
{
    struct sigaction interrupt = {.sa_handler = on_interrupt};
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction old;

    /* A background job that was told to ignore Ctrl-C goes on ignoring it. */
    if (sigaction(SIGINT, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
        sigaction(SIGINT, &interrupt, NULL);
    /* A reader that went away shows as EPIPE (print.c). */
    sigaction(SIGPIPE, &ignore, NULL);
    /* Libraries of a target may be cut off while they are looked at. */
    pb_filemap_watch();
    /* Nor does a page of its memory have to come. */
    pb_patience_start();
}

static void report(struct pb_ctx *ctx, bool usage)
{
    struct pb_print e;

    pb_print_init(&e, STDERR_FILENO);
    pb_print_text(&e, PB_RED, "probing:");
    pb_print_puts(&e, " ");
    pb_print_text(&e, PB_PLAIN, ctx->err.msg);
    pb_print_puts(&e, "\n");
    if (ctx->note) {
        pb_print_puts(&e, ctx->note);
    } else if (usage) {
        pb_print_puts(&e, "Usage: ");
        pb_help_usage(&e.buf, ctx->cmd);
        pb_print_puts(&e, "\n");
    }
    pb_print_flush(&e, NULL);
    pb_print_finish(&e);
}

static int execute(struct pb_ctx *ctx, const struct pb_request *request)
{
    if (request->help || (!ctx->cmd && !request->version)) {
        pb_help_print(&ctx->out, ctx->cmd);
        return 0;
    }
    if (request->version)
        return pb_cmd_find("version")->run(ctx);
    if (pb_cli_target_resolve(ctx) < 0)
        return -1;
    if (!ctx->njob || ctx->cmd->job == PB_JOB_TOGETHER)
        return ctx->cmd->run(ctx);
    if (ctx->cmd->prepare)
        return ctx->cmd->prepare(ctx) < 0 ? -1 : pb_together_run(ctx);
    return ctx->cluster ? pb_together_run(ctx) : pb_job_run(ctx);
}

int main(int argc, char **argv)
{
    struct pb_ctx ctx = {0};
    struct pb_request request;
    int rc, code;

    set_signals();
    pb_print_init(&ctx.out, STDOUT_FILENO);
    rc = pb_parse(&ctx, &request, argc, argv);
    if (rc == 0)
        rc = execute(&ctx, &request);
    /* What a command had to say before it failed is still worth reading. */
    if (pb_print_flush(&ctx.out, &ctx.err) < 0)
        rc = -1;
    code = ctx.interrupted           ? EXIT_INTERRUPTED
           : rc == 0 && ctx.partial ? EXIT_PARTIAL
           : rc < 0 && ctx.err.code == PB_OK ? PB_FAIL
           : rc == 0 && ctx.err.code == PB_OK ? ctx.exit_code : (int)ctx.err.code;
    if (rc < 0 && ctx.err.msg[0])
        report(&ctx, ctx.err.code == PB_USAGE);
    pb_print_finish(&ctx.out);
    pb_arena_finish(&ctx.arena);
    return code;
}
