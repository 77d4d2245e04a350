/*
 * probing serve - the node of this user and machine: tables, SQL, history.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/client/listen.h"
#include "cli/client/nodelink.h"
#include "host/text/number.h"
#include "node/serve/serve.h"

#define STATUS_LOOK_MS 10
#define STATUS_TIMEOUT_MS 10000

static int run(struct pb_ctx *ctx);

static const struct pb_opt options[] = {
    {.name = "foreground", .letter = 'f', .help = "do not go into the background, and do not end "
                                                  "when unused"},
    {.name = "listen", .letter = 'l', .type = PB_OPT_MANY, .arg = "ADDRESS",
     .help = "answer on TCP, too: [HOST]:PORT; loopback unless a host is given"},
    {.name = "no-token", .help = "answer whoever can reach the address, without a token or TLS"},
    {.name = "cert", .type = PB_OPT_STR, .arg = "FILE",
     .help = "a certificate (PEM), for browsers and curl on other machines"},
    {.name = "cert-key", .type = PB_OPT_STR, .arg = "FILE", .help = "its private key (PEM)"},
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
        "--token-file gives here, and with those that `probing token new` made. From other\n"
        "machines by TLS with a key made of the token, which itself never travels; --plain and\n"
        "--no-token give that up. A server that\n"
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

/* The node does not stand in this folder. */
static int whole_path(struct pb_ctx *ctx, const char *option, const char **ret)
{
    const char *path = pb_opt_str(ctx, option, NULL);
    char *whole;

    *ret = NULL;
    if (!path)
        return 0;
    whole = realpath(path, NULL);
    if (!whole)
        return pb_err_set(&ctx->err, PB_USAGE, "--%s: %s: %s", option, path, strerror(errno));
    *ret = pb_arena_strdup(&ctx->arena, whole);
    free(whole);
    return 0;
}

static int read_listen(struct pb_ctx *ctx, struct pb_listen *w)
{
    *w = (struct pb_listen){.owner = pb_opt_str(ctx, "owner", NULL),
                            .no_token = pb_opt_flag(ctx, "no-token"), .plain = ctx->plain};
    return whole_path(ctx, "cert", &w->cert) < 0 || whole_path(ctx, "cert-key", &w->cert_key) < 0
               ? -1
               : 0;
}

static int open_address(struct pb_ctx *ctx, const char *address)
{
    struct pb_listen w;

    if (read_listen(ctx, &w) < 0)
        return -1;
    w.address = address;
    return pb_listen_open(ctx, &w);
}

static int show_status(struct pb_ctx *ctx)
{
    struct pb_serve_paths paths;
    struct pb_serve_lock lock;

    if (pb_serve_paths_find(&paths, &ctx->err) < 0)
        return -1;
    /* One that is starting counts when its addresses are open. */
    for (int waited_ms = 0;; waited_ms += STATUS_LOOK_MS) {
        if (!pb_serve_lock_read(paths.lock, &lock) || !pb_serve_answers(lock.socket))
            return pb_err_set(&ctx->err, PB_FAIL, "no node is running for %s", paths.data);
        if (lock.ready)
            break;
        if (waited_ms >= STATUS_TIMEOUT_MS)
            return pb_err_set(&ctx->err, PB_TIMEOUT, "node %d has not opened its addresses; see %s",
                              lock.pid, paths.log);
        usleep(STATUS_LOOK_MS * 1000);
    }
    pb_print_f(&ctx->out, "node %d, version %s, on %s", lock.pid, lock.version, lock.socket);
    if (lock.listeners)
        pb_print_f(&ctx->out, ", %d TCP address%s", lock.listeners,
                   pb_plural((size_t)lock.listeners, "es"));
    pb_print_f(&ctx->out, "\n");
    return 0;
}

static int stop(struct pb_ctx *ctx)
{
    int rc = pb_serve_stop(&ctx->err);

    if (rc == 1)
        pb_ctx_notice(ctx, "no node is running");
    return rc < 0 ? -1 : 0;
}

static void say_opened(void *arg, const char *bound)
{
    struct pb_ctx *ctx = arg;
    struct pb_listen w = {.no_token = pb_opt_flag(ctx, "no-token"), .plain = ctx->plain};

    pb_listen_say(ctx, bound, &w);
}

static int serve_here(struct pb_ctx *ctx)
{
    struct pb_serve_opts o = {.on_demand = pb_opt_flag(ctx, "on-demand"),
                              .addresses = pb_opt_str(ctx, "listen", ""),
                              .opened = say_opened,
                              .arg = ctx};

    if (read_listen(ctx, &o.how) < 0 || pb_nodelink_token(ctx, &o.how.token) < 0)
        return -1;
    return pb_serve_run(&o, &ctx->err);
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
        return serve_here(ctx);
    if (pb_serve_start(&ctx->err) < 0)
        return -1;
    return pb_opt_flag(ctx, "listen") ? each_address(ctx, open_address) : show_status(ctx);
}
