/*
 * probing TARGET eval - run Python inside a process.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/client/link.h"

static int run(struct pb_ctx *ctx);

static const struct pb_opt options[] = {
    {.name = "timeout", .type = PB_OPT_NUM, .arg = "SECS", .min = 0.05, .max = 86400,
     .help = "how long the code may take, waiting for the GIL included (default: the setting "
             "eval.timeout, 30)"},
    {.name = "main", .help = "on the main thread, at its next safe point; the job waits meanwhile"},
    {.name = "frame", .type = PB_OPT_STR, .arg = "FRAME",
     .help = "with the variables of a frame: a number as in backtrace, 0 is the innermost, or the "
             "name of a function that runs; assignments stay in the evaluation"},
    {.name = "tid", .type = PB_OPT_INT, .arg = "TID", .min = 1, .max = 2147483647,
     .help = "whose frame; the main thread's unless said"},
    {.name = NULL},
};

static const struct pb_positional positionals[] = {
    {.name = "CODE", .help = "Python code, or - to read it from stdin", .required = true},
    {.name = NULL},
};

const struct pb_cmd pb_cmd_eval = {
    .name = "eval",
    .aliases = "e",
    .summary = "Evaluate Python code in the target process",
    .details =
        "Runs in the namespace of the target's __main__, on a thread of its own, while the job\n"
        "goes on. The value of the last expression is shown as a prompt would show it. What the\n"
        "code prints comes out while it runs; what other threads print goes where it went. Ctrl-C\n"
        "interrupts the code, not the job. Injects the probes first if they are not there.\n"
        "Loaded modules and those of the standard library need no import: gc.collect().\n"
        "Python 3.6 and 3.7 handle a signal that comes while --main code computes when it ends.\n"
        "Exit code 1: the code raised an exception; 5: it did not end in time, or the GIL was not\n"
        "to be had, in which case the thread that holds it is shown.",
    .options = options,
    .positionals = positionals,
    .target = PB_TARGET_PROCESS,
    .job = PB_JOB_TITLED,
    .direct = true,
    .remote = true,
    .examples = "probing 4242 eval 'loss.item()'            # a variable of the script\n"
                "probing 4242 eval --frame train 'batch.shape'  # of a function that is running\n"
                "probing 4242 eval - <fix.py                # a whole script\n"
                "probing 4242 e --main 'import signal; signal.alarm(0)'\n",
    .run = run,
};

static int read_stdin(struct pb_ctx *ctx, struct pb_buf *buf)
{
    char piece[65536];

    for (;;) {
        ssize_t n = read(STDIN_FILENO, piece, sizeof piece);

        if (n == 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return pb_err_set(&ctx->err, PB_FAIL, "stdin: %s", strerror(errno));
        if (n > 0)
            pb_buf_add(buf, piece, (size_t)n);
        if (buf->len > PB_WIRE_MAX)
            return pb_err_set(&ctx->err, PB_USAGE, "stdin: longer than %u MB", PB_WIRE_MAX >> 20);
    }
}

static int run(struct pb_ctx *ctx)
{
    struct pb_buf script = PB_BUF_INIT;
    struct pb_link_eval e;
    struct pb_agent agent = {.fd = -1};
    enum pb_wire_result result;
    const char *why;
    int rc;

    if (pb_link_options(ctx, &e) < 0)
        return -1;
    if (strcmp(ctx->args[0], "-") != 0)
        pb_buf_puts(&script, ctx->args[0]);
    else if (read_stdin(ctx, &script) < 0)
        goto fail;
    else if (script.data)
        ctx->args[0] = pb_arena_strdup(&ctx->arena, script.data); /* for the next rank */
    e.code = script.data ? script.data : "";
    e.len = script.len;
    if (pb_link_open(ctx, &agent) < 0 || pb_link_eval(ctx, &agent, &e, &result, &why) < 0)
        goto fail;
    rc = pb_link_explain(ctx, "eval", &e, &agent, result, why);
    pb_agent_close(&agent);
    pb_buf_finish(&script);
    return rc;
fail:
    pb_agent_close(&agent);
    pb_buf_finish(&script);
    return -1;
}
