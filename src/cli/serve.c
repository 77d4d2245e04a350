/*
 * probing serve - the node of this user and machine: tables, SQL, history.
 */
#include <string.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/nodelink.h"
#include "cli/nodestart.h"
#include "cli/serveloop.h"
#include "node/node.h"

static int run(struct pb_ctx *ctx);

static const struct pb_opt options[] = {
    {.name = "foreground", .letter = 'f', .help = "do not go into the background, and do not end "
                                                  "when unused"},
    {.name = "listen", .letter = 'l', .type = PB_OPT_MANY, .arg = "ADDRESS",
     .help = "answer on TCP, too: [HOST]:PORT; loopback unless a host is given"},
    {.name = "no-token", .help = "answer whoever can reach the address, without a token"},
    {.name = "owner", .type = PB_OPT_STR, .arg = "PID",
     .help = "the address belongs to this process and closes with it"},
    {.name = "status", .help = "say whether a node is running"},
    {.name = "stop", .help = "end the node that is running"},
    {.name = "on-demand", .help = "as commands start it that need a node"},
    {.name = NULL},
};

const struct pb_cmd pb_cmd_serve = {
    .name = "serve",
    .summary = "Run the node that answers SQL and keeps history",
    .details =
        "One node serves all processes of a user on a machine. Commands that need it start it by\n"
        "themselves; it ends when nothing has used it for a while and no probed process lives\n"
        "(serve.idle). History, its log node.log and its lock are in $PROBING_HOME, else in\n"
        "$XDG_DATA_HOME/probing, else in ~/.local/share/probing. With --listen others can reach\n"
        "it by TCP: with your own token (see `probing token`), or the one that $PROBING_TOKEN or\n"
        "--token-file gives here, and with those that `probing token new` made. A server that\n"
        "dies of what it reads is started again at its addresses; what killed it is refused.",
    .options = options,
    .examples = "probing serve                        # start it, if it does not run\n"
                "probing serve --listen 0.0.0.0:8080  # and let others reach it\n"
                "probing serve --foreground           # under a supervisor\n"
                "probing serve --stop\n",
    .run = run,
};

/* Calls each with one of the addresses given. */
static int each_address(struct pb_ctx *ctx, int (*each)(struct pb_ctx *ctx, const char *address))
{
    char *lines = pb_arena_strdup(&ctx->arena, pb_opt_str(ctx, "listen", "")), *line;

    while ((line = strsep(&lines, "\n")))
        if (*line && each(ctx, line) < 0)
            return -1;
    return 0;
}

static int open_address(struct pb_ctx *ctx, const char *address)
{
    const char *bound;

    if (pb_nodestart_listen(ctx, address, pb_opt_str(ctx, "owner", NULL),
                            pb_opt_flag(ctx, "no-token"), &bound) < 0)
        return -1;
    pb_nodestart_say(ctx, bound, pb_opt_flag(ctx, "no-token"));
    return 0;
}

static int show_status(struct pb_ctx *ctx)
{
    struct pb_nodeplace place;
    struct pb_nodelock lock;

    if (pb_nodeplace_find(&place, &ctx->err) < 0)
        return -1;
    if (!pb_nodelock_read(place.lock, &lock) || !pb_nodeplace_answers(lock.socket))
        return pb_err_set(&ctx->err, PB_FAIL, "no node is running for %s", place.data);
    pb_print_f(&ctx->out, "node %d, version %s, on %s", lock.pid, lock.version, lock.socket);
    if (lock.listeners)
        pb_print_f(&ctx->out, ", %d TCP address%s", lock.listeners,
                   lock.listeners == 1 ? "" : "es");
    pb_print_f(&ctx->out, "\n");
    return 0;
}

static int stop(struct pb_ctx *ctx)
{
    int rc = pb_nodestart_stop(ctx);

    if (rc == 1)
        pb_ctx_notice(ctx, "no node is running");
    return rc < 0 ? -1 : 0;
}

static int run(struct pb_ctx *ctx)
{
    if (pb_opt_flag(ctx, "owner") && !pb_opt_flag(ctx, "listen"))
        return pb_err_set(&ctx->err, PB_USAGE, "--owner goes with --listen");
    if (pb_opt_flag(ctx, "status"))
        return show_status(ctx);
    if (pb_opt_flag(ctx, "stop"))
        return stop(ctx);
    if (pb_opt_flag(ctx, "on-demand") || pb_opt_flag(ctx, "foreground"))
        return pb_serve_loop(ctx, pb_opt_flag(ctx, "on-demand"), pb_opt_str(ctx, "listen", ""),
                             pb_opt_flag(ctx, "no-token"));
    if (pb_nodelink_start(ctx) < 0)
        return -1;
    return pb_opt_flag(ctx, "listen") ? each_address(ctx, open_address) : show_status(ctx);
}
