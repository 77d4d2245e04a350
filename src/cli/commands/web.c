/*
 * probing [TARGET] web - the page, in a browser.
 */
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/client/browser.h"
#include "cli/cmd.h"
#include "cli/client/forward.h"
#include "cli/client/nodelink.h"
#include "cli/target/target.h"
#include "host/text/json_write.h"
#include "node/http/server.h"
#include "node/node.h"

#define PORT 7720

static int run(struct pb_ctx *ctx);

static const struct pb_opt options[] = {
    {.name = "port", .letter = 'p', .type = PB_OPT_INT, .arg = "PORT", .min = 1, .max = 65535,
     .help = "on this machine's loopback (default 7720, or another one when that is taken)"},
    {.name = "url", .letter = 'u', .type = PB_OPT_STR, .arg = "URL",
     .help = "at which a proxy shows the page: https://hub.example/user/me/proxy/7720/"},
    {.name = "no-browser", .letter = 'n', .help = "only print the address"},
    {.name = "scope", .type = PB_OPT_CHOICE, .arg = "SCOPE", .choices = "read|look|control",
     .help = "what the page may do: read, look (local variables, too) or control (default: all "
             "that you may)"},
    {.name = NULL},
};

static const struct pb_positional positionals[] = {
    {.name = "TARGET", .help = "what to show first, where it does not stand in front"},
    {0},
};

const struct pb_cmd pb_cmd_web = {
    .name = "web",
    .summary = "Show everything in a browser",
    .details =
        "Prints an address on this machine's loopback and opens it where there is a browser. The\n"
        "address is good for one browser, within ten minutes; each call makes another. Of a node\n"
        "elsewhere (HOST:PORT) the page comes through this command, and of a copied folder\n"
        "(--store) it is served by this command: both until Ctrl-C. Otherwise the node serves it,\n"
        "as long as it runs. Behind a proxy, Jupyter's or an ingress, --url says where a browser\n"
        "finds it: that host is accepted from then on, and the address printed begins like that.",
    .options = options,
    .positionals = positionals,
    .target = PB_TARGET_SCOPE,
    .job = PB_JOB_TOGETHER,
    .whole_cluster = true,
    .one_apart = true,
    .examples = "probing web\n"
                "probing 4242 web                       # begin with this process\n"
                "probing gpu-17:8080 web                # the page of another machine's node\n"
                "probing cluster web                    # all machines of the job as one\n"
                "probing rank:17 web                    # that rank, by its own machine's node\n"
                "probing --store crashed/ web           # what a dead job left\n"
                "probing web --no-browser --port 9000   # for ssh -L 9000:127.0.0.1:9000\n"
                "probing web --url https://hub.example/user/me/proxy/7720/   # through Jupyter\n",
    .run = run,
};

static _Atomic bool stopped;

static void on_stop(int signo)
{
    (void)signo;
    atomic_store(&stopped, true);
}

/* Until Ctrl-C, or whoever started it says so. */
static void catch_stop(void)
{
    struct sigaction act = {.sa_handler = on_stop};

    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    sigaction(SIGHUP, &act, NULL);
}

static int find_target(struct pb_ctx *ctx)
{
    if (ctx->nargs == 0)
        return 0;
    if (ctx->target && ctx->target != getenv("PROBING_TARGET") &&
        ctx->target != getenv("ENDPOINT"))
        return pb_err_set(&ctx->err, PB_USAGE, "two targets: '%s' and '%s'", ctx->target,
                          ctx->args[0]);
    ctx->target = ctx->args[0];
    ctx->remote = NULL;
    ctx->scope = NULL;
    ctx->pid = 0;
    return pb_cli_target_resolve(ctx);
}

static int ask(struct pb_ctx *ctx, struct pb_nodelink *n, const char *method, const char *path,
               const struct pb_buf *body, struct pb_json *ret)
{
    struct pb_buf text = PB_BUF_INIT;
    int rc = pb_nodelink_ask(ctx, n, method, path, body ? body->data : NULL, &text);

    if (rc == 0)
        rc = pb_json_parse(&ctx->arena, text.data ? text.data : "", text.len, ret, &ctx->err);
    pb_buf_finish(&text);
    return rc;
}

/* NULL where none is asked for. */
static int get_ticket(struct pb_ctx *ctx, struct pb_nodelink *n, bool asked_for,
                      const char **ret)
{
    const char *scope = pb_opt_str(ctx, "scope", NULL);
    struct pb_buf body = PB_BUF_INIT;
    struct pb_json answer;
    int rc;

    *ret = NULL;
    if (!asked_for)
        return 0;
    pb_buf_putc(&body, '{');
    if (scope) {
        pb_json_key(&body, "scope");
        pb_json_string(&body, scope);
    }
    pb_buf_putc(&body, '}');
    rc = ask(ctx, n, "POST", "/api/ticket", &body, &answer);
    pb_buf_finish(&body);
    if (rc == 0)
        *ret = pb_json_str(&answer, "ticket", NULL);
    return rc;
}

/* A name to be accepted as Host; NULL where none is given, or an address, which needs none. */
static int read_url(struct pb_ctx *ctx, const char **ret_host)
{
    const char *url = pb_opt_str(ctx, "url", NULL), *host;
    size_t len;

    *ret_host = NULL;
    if (!url)
        return 0;
    host = strstr(url, "://");
    if (!host || (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0) ||
        url[strcspn(url, "?#@ ")])
        return pb_err_set(&ctx->err, PB_USAGE,
                          "--url: '%.200s' is no address like https://hub.example/proxy/7720/",
                          url);
    host += 3;
    len = strcspn(host, ":/");
    *ret_host = *host == '[' ? NULL : pb_arena_printf(&ctx->arena, "%.*s", (int)len, host);
    return 0;
}

/* Behind # so that it is sent to nobody and is in no log. */
static void show(struct pb_ctx *ctx, const char *where, const char *ticket, bool stays)
{
    const char *page = ctx->scope ? "process" : ctx->cluster ? "cluster" : "";
    const char *key = ctx->scope ? "p" : "ranks", *value = ctx->scope ? ctx->scope : ctx->ranks;
    const char *url = pb_opt_str(ctx, "url", NULL);
    struct pb_buf b = PB_BUF_INIT;
    bool opened;

    if (url)
        pb_buf_printf(&b, "%s%s", url, url[strlen(url) - 1] == '/' ? "" : "/");
    else
        pb_buf_printf(&b, "http://%s/", where);
    pb_buf_printf(&b, "#/%s?", page);
    if (value) {
        pb_buf_printf(&b, "%s=", key);
        pb_http_encode(&b, value);
        pb_buf_puts(&b, ticket ? "&" : "");
    }
    if (ticket)
        pb_buf_printf(&b, "ticket=%s", ticket);
    pb_print_f(&ctx->out, "%s\n", b.data);
    pb_print_flush(&ctx->out, NULL);
    opened = !pb_opt_flag(ctx, "no-browser") && pb_browser_open(b.data);
    pb_buf_finish(&b);
    pb_ctx_notice(ctx, pb_arena_printf(
                           &ctx->arena, "probing: %s%s%s",
                           opened ? "opened in your browser" : "open it in a browser",
                           ticket ? ": good for one, within 10 min" : "",
                           stays ? "; Ctrl-C ends the page" : ""));
    if (url)
        pb_ctx_notice(ctx, pb_arena_printf(&ctx->arena,
                                           "probing: the proxy is to lead to http://%s/", where));
    else if (!opened && getenv("SSH_CONNECTION"))
        pb_ctx_notice(ctx, pb_arena_printf(&ctx->arena, "probing: from your own machine first: "
                                           "ssh -L %s:%s <this machine>",
                                           strrchr(where, ':') + 1, where));
}

/* The node's own listener; it alone does not keep the node from ending. */
static int listen_local(struct pb_ctx *ctx, struct pb_nodelink *n, int port, const char *host,
                        const char **ret)
{
    struct pb_buf body = PB_BUF_INIT;
    struct pb_json answer;
    int rc;

    pb_buf_printf(&body, "{\"address\":\"127.0.0.1:%d\",\"brief\":true", port);
    if (host) {
        pb_json_key(&body, "name");
        pb_json_string(&body, host);
    }
    pb_buf_putc(&body, '}');
    rc = ask(ctx, n, "POST", "/api/listen", &body, &answer);
    pb_buf_finish(&body);
    if (rc == 0)
        *ret = pb_json_str(&answer, "listening", "");
    return rc;
}

static int show_local(struct pb_ctx *ctx, struct pb_nodelink *n)
{
    const char *bound = NULL, *ticket, *host;
    int rc;

    if (read_url(ctx, &host) < 0)
        return -1;
    rc = listen_local(ctx, n, (int)pb_opt_int(ctx, "port", PORT), host, &bound);
    /* Another port that is free: but a proxy leads to one. */
    if (rc < 0 && !pb_opt_flag(ctx, "port") && !host) {
        ctx->err = (struct pb_err){0};
        rc = listen_local(ctx, n, 0, NULL, &bound);
    }
    if (rc < 0 || get_ticket(ctx, n, true, &ticket) < 0)
        return -1;
    show(ctx, bound, ticket, false);
    return 0;
}

static int show_remote(struct pb_ctx *ctx, struct pb_nodelink *n)
{
    struct pb_http_where to;
    struct pb_json session;
    const char *ticket;
    int port, fd;

    if (pb_opt_flag(ctx, "url"))
        return pb_err_set(&ctx->err, PB_USAGE,
                          "--url: a proxy leads to a node of its own machine: run it there");
    if (ask(ctx, n, "GET", "/api/session", NULL, &session) < 0 ||
        get_ticket(ctx, n, pb_json_flag(&session, "asks_for_token", true), &ticket) < 0 ||
        pb_nodelink_where(ctx, &to) < 0)
        return -1;
    fd = pb_forward_listen((int)pb_opt_int(ctx, "port", PORT), !pb_opt_flag(ctx, "port"), &port,
                           &ctx->err);
    if (fd < 0)
        return -1;
    catch_stop();
    show(ctx, pb_arena_printf(&ctx->arena, "127.0.0.1:%d", port), ticket, true);
    pb_forward_run(fd, &to, &stopped);
    return 0;
}

static int serve_store(struct pb_ctx *ctx, struct pb_server *s)
{
    struct pb_listen w = {.address = pb_arena_printf(&ctx->arena, "127.0.0.1:%d",
                                                     (int)pb_opt_int(ctx, "port", PORT))};
    const char *scope = pb_opt_str(ctx, "scope", NULL);
    char bound[160], ticket[PB_TOKEN_MAX];
    int rc;

    if (read_url(ctx, &w.name) < 0)
        return -1;
    rc = pb_server_open(s, &w, bound, sizeof bound, &ctx->err);
    if (rc < 0 && !pb_opt_flag(ctx, "port")) {
        ctx->err = (struct pb_err){0};
        w.address = "127.0.0.1:0";
        rc = pb_server_open(s, &w, bound, sizeof bound, &ctx->err);
    }
    if (rc < 0 || pb_server_ticket(s, scope, ticket, &ctx->err) < 0)
        return -1;
    catch_stop();
    show(ctx, bound, ticket, true);
    while (!atomic_load(&stopped))
        poll(NULL, 0, 1000); /* a signal ends the wait */
    return 0;
}

static int show_store(struct pb_ctx *ctx, struct pb_nodelink *n)
{
    struct pb_server *s = NULL;
    int rc = pb_server_create(&s, n->node, NULL, &ctx->err);

    if (rc == 0)
        rc = serve_store(ctx, s);
    pb_server_destroy(s);
    return rc;
}

/* The page about a cluster is of no use without one. */
static int check_cluster(struct pb_ctx *ctx, struct pb_nodelink *n)
{
    struct pb_json told;

    if (!ctx->cluster || ctx->scope)
        return 0;
    if (ask(ctx, n, "GET", "/api/cluster", NULL, &told) < 0)
        return -1;
    return pb_json_flag(&told, "attached", false)
               ? 0
               : pb_err_set(&ctx->err, PB_NO_TARGET, "this node belongs to no cluster: probing "
                                                     "cluster attach");
}

static int run(struct pb_ctx *ctx)
{
    struct pb_nodelink n = {0};
    int rc;

    if (!pb_server_has_page())
        return pb_err_set(&ctx->err, PB_FAIL, "this probing was built without the page (WEB=OFF)");
    if (find_target(ctx) < 0 || pb_nodelink_open(ctx, &n) < 0)
        return -1;
    rc = check_cluster(ctx, &n);
    if (rc == 0)
        rc = n.node ? show_store(ctx, &n) : n.remote ? show_remote(ctx, &n) : show_local(ctx, &n);
    pb_nodelink_close(&n);
    return rc;
}
