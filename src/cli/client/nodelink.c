#include "cli/client/nodelink_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/client/environment.h"
#include "cli/sqltext.h"
#include "host/text/json_write.h"
#include "node/access/token.h"
#include "node/node.h"
#include "node/serve/serve.h"

#define CONNECT_TIMEOUT_MS 5000
#define ASK_TIMEOUT_MS 60000
#define EXIT_INTERRUPTED 130
#define DEATH_RECENT_S 30

/* All that a signal handler can get at. */
_Atomic bool pb_nodelink_cancelled;

static void on_interrupt(int signo)
{
    (void)signo;
    if (atomic_exchange(&pb_nodelink_cancelled, true))
        _exit(EXIT_INTERRUPTED); /* the second time: no more waiting */
}

void pb_nodelink_catch(struct sigaction *old)
{
    struct sigaction act = {.sa_handler = on_interrupt};

    atomic_store(&pb_nodelink_cancelled, false);
    sigaction(SIGINT, NULL, old);
    if (old->sa_handler != SIG_IGN)
        sigaction(SIGINT, &act, NULL);
}

/* The first line of the file. */
static int read_token_file(struct pb_ctx *ctx, const char **ret)
{
    char text[256];
    int fd = open(ctx->token_file, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

    if (n < 0)
        pb_err_set(&ctx->err, PB_USAGE, "--token-file: %s: %s", ctx->token_file, strerror(errno));
    if (fd >= 0)
        close(fd);
    if (n < 0)
        return -1;
    text[n] = '\0';
    text[strcspn(text, "\r\n")] = '\0';
    *ret = pb_arena_strdup(&ctx->arena, text);
    return 0;
}

int pb_nodelink_token(struct pb_ctx *ctx, const char **ret)
{
    const char *given = getenv("PROBING_TOKEN");

    *ret = ctx->token;
    if (*ret)
        return 0;
    if (ctx->token_file)
        return read_token_file(ctx, ret);
    *ret = given && *given ? given : NULL;
    return 0;
}

/* As given, or this user's own; NULL when there is none. */
static int find_token(struct pb_ctx *ctx, const char **ret)
{
    char own[PB_TOKEN_MAX];

    if (pb_nodelink_token(ctx, ret) < 0)
        return -1;
    if (!*ret && pb_token_own(own, sizeof own, false, NULL) == 0)
        *ret = pb_arena_strdup(&ctx->arena, own);
    return 0;
}

int pb_nodelink_where(struct pb_ctx *ctx, struct pb_http_where *ret)
{
    *ret = (struct pb_http_where){.host = ctx->remote, .plain = ctx->plain};
    return find_token(ctx, &ret->token);
}

static int open_remote(struct pb_ctx *ctx, struct pb_nodelink *n)
{
    struct pb_http_where where;

    if (pb_nodelink_where(ctx, &where) < 0)
        return -1;
    n->remote = true;
    return pb_http_connect(&n->http, &where, CONNECT_TIMEOUT_MS, &ctx->err);
}

static int open_local(struct pb_ctx *ctx, struct pb_nodelink *n)
{
    struct pb_serve_paths paths;
    struct pb_http_where where = {.socket = paths.socket};

    if (pb_serve_paths_find(&paths, &ctx->err) < 0)
        return -1;
    if (pb_http_connect(&n->http, &where, CONNECT_TIMEOUT_MS, NULL) == 0) {
        pb_environment_tell(ctx, n);
        return 0;
    }
    if (pb_serve_start(&ctx->err) < 0)
        return -1;
    return pb_http_connect(&n->http, &where, CONNECT_TIMEOUT_MS, &ctx->err);
}

/* A copy of a process's folder, of a user's, or of a node's data with its history. */
static int open_store(struct pb_ctx *ctx, struct pb_nodelink *n)
{
    struct pb_node_opts o = {.store_dir = ctx->store,
                             .lake_hours = {ctx->hours[0], ctx->hours[1]}};
    const char *lake = pb_arena_printf(&ctx->arena, "%s/lake", ctx->store);

    if (access(ctx->store, R_OK | X_OK) < 0)
        return pb_err_set(&ctx->err, PB_NO_TARGET, "--store: %s: %s", ctx->store, strerror(errno));
    if (access(lake, R_OK | X_OK) == 0)
        o.data_dir = ctx->store;
    return pb_node_create(&n->node, &o, &ctx->err);
}

int pb_nodelink_open(struct pb_ctx *ctx, struct pb_nodelink *n)
{
    *n = (struct pb_nodelink){0};
    if (ctx->store)
        return open_store(ctx, n);
    return ctx->remote ? open_remote(ctx, n) : open_local(ctx, n);
}

void pb_nodelink_close(struct pb_nodelink *n)
{
    pb_http_close(n->http);
    pb_node_destroy(n->node);
    *n = (struct pb_nodelink){0};
}

static enum pb_code code_of(const char *name, int status)
{
    static const struct {
        const char *name;
        int status;
        enum pb_code code;
    } codes[] = {
        {"denied", 401, PB_DENIED},   {"denied", 403, PB_DENIED},
        {"timeout", 408, PB_TIMEOUT}, {"timeout", 504, PB_TIMEOUT},
        {"usage", 0, PB_USAGE},       {"no_target", 404, PB_NO_TARGET},
    };

    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (name && strcmp(name, codes[i].name) == 0)
            return codes[i].code;
    for (size_t i = 0; !name && i < sizeof codes / sizeof *codes; i++)
        if (status == codes[i].status)
            return codes[i].code;
    return PB_FAIL;
}

int pb_nodelink_fail(struct pb_ctx *ctx, enum pb_code code, const char *message,
                     const char *nearest, const char *sql, long at)
{
    struct pb_print e;

    pb_print_init(&e, STDERR_FILENO);
    if (sql)
        ctx->note = pb_sqltext_caret(&ctx->arena, sql, at, (size_t)e.width);
    pb_print_finish(&e);
    if (nearest && *nearest && !strstr(message, nearest))
        return pb_err_set(&ctx->err, code, "%s; nearest: %s", message, nearest);
    return pb_err_set(&ctx->err, code, "%s", message);
}

int pb_nodelink_error(struct pb_ctx *ctx, const struct pb_json *body, int status, const char *sql)
{
    const struct pb_json *error = pb_json_get(body, "error");
    const char *message = pb_json_str(error, "message", NULL);

    if (status == 401)
        return pb_err_set(&ctx->err, PB_DENIED,
                          "%s: not permitted: wrong or missing token. Give it by $PROBING_TOKEN or "
                          "--token-file; on that machine `probing token` shows it",
                          ctx->remote ? ctx->remote : "node");
    if (!message)
        return pb_err_set(&ctx->err, code_of(NULL, status), "the node answered with status %d",
                          status);
    return pb_nodelink_fail(ctx, code_of(pb_json_str(error, "code", NULL), status), message,
                            pb_json_str(error, "nearest", NULL), sql,
                            (long)pb_json_whole(error, "at", -1));
}

int pb_nodelink_refused(struct pb_ctx *ctx, int status, const char *text, size_t len,
                        const char *sql)
{
    struct pb_json body = {0};

    if (pb_json_parse(&ctx->arena, text ? text : "", len, &body, NULL) < 0)
        body = (struct pb_json){0};
    return pb_nodelink_error(ctx, &body, status, sql);
}

static int add_body(const void *data, size_t len, void *arg)
{
    pb_buf_add(arg, data, len);
    return 0;
}

/* Asks whoever answers now whether the server died a moment ago; its reason, or NULL. */
static const char *reason_of_death(struct pb_ctx *ctx, const struct pb_nodelink *n)
{
    struct pb_http_request r = {.method = "GET", .path = "/health",
                                .timeout_ms = CONNECT_TIMEOUT_MS};
    struct pb_nodelink again = {.remote = n->remote};
    struct pb_buf answer = PB_BUF_INIT;
    struct pb_json body = {0};
    struct pb_err was = ctx->err, err = {0};
    const char *why = NULL;
    int status = 0;

    if ((n->remote ? open_remote(ctx, &again) : open_local(ctx, &again)) == 0 &&
        pb_http_ask(again.http, &r, add_body, &answer, &status, &err) == 0 && status == 200 &&
        pb_json_parse(&ctx->arena, answer.data, answer.len, &body, NULL) == 0 &&
        time(NULL) - pb_json_whole(&body, "restarted_at", 0) <= DEATH_RECENT_S)
        why = pb_json_str(&body, "restarted_because", NULL);
    pb_http_close(again.http);
    pb_buf_finish(&answer);
    ctx->err = was;
    return why;
}

int pb_nodelink_broken(struct pb_ctx *ctx, const struct pb_nodelink *n, const struct pb_err *err)
{
    const char *why = err->code == PB_FAIL ? reason_of_death(ctx, n) : NULL;

    if (why)
        return pb_err_set(&ctx->err, PB_FAIL,
                          "the server died while it answered (%s) and was started again", why);
    ctx->err = *err;
    return n->remote ? -1 : pb_err_prefix(&ctx->err, "node");
}

int pb_nodelink_ask(struct pb_ctx *ctx, struct pb_nodelink *n, const char *method,
                    const char *path, const char *body, struct pb_buf *ret)
{
    struct pb_http_request r = {
        .method = method, .path = path, .body = body, .body_len = body ? strlen(body) : 0,
        .type = body ? "application/json" : NULL, .timeout_ms = ASK_TIMEOUT_MS,
        .cancelled = &pb_nodelink_cancelled,
    };
    struct pb_buf answer = PB_BUF_INIT;
    struct pb_err err = {0};
    struct sigaction old;
    int status = 0, rc;

    pb_nodelink_catch(&old);
    rc = pb_http_ask(n->http, &r, add_body, &answer, &status, &err);
    sigaction(SIGINT, &old, NULL);
    if (rc < 0 && atomic_load(&pb_nodelink_cancelled)) {
        ctx->interrupted = true;
        ctx->err = (struct pb_err){.code = PB_FAIL};
    } else if (rc < 0) {
        pb_nodelink_broken(ctx, n, &err);
    } else if (status != 200) {
        rc = pb_nodelink_refused(ctx, status, answer.data, answer.len, NULL);
    } else {
        pb_buf_add(ret, answer.data, answer.len);
    }
    pb_buf_finish(&answer);
    return rc;
}

void pb_nodelink_cluster_token(struct pb_ctx *ctx, struct pb_nodelink *n)
{
    struct pb_buf answer = PB_BUF_INIT;
    struct pb_err was = ctx->err;
    struct pb_json json;

    if (!ctx->token && !ctx->token_file && !n->remote &&
        pb_nodelink_ask(ctx, n, "GET", "/api/cluster/key", NULL, &answer) == 0 &&
        pb_json_parse(&ctx->arena, answer.data ? answer.data : "", answer.len, &json, NULL) == 0)
        ctx->token = pb_json_str(&json, "token", NULL);
    ctx->err = was;
    pb_buf_finish(&answer);
}

int pb_nodelink_agent(struct pb_ctx *ctx, bool inject, struct pb_err *err)
{
    struct pb_nodelink n;
    struct pb_buf body = PB_BUF_INIT;
    int fd;

    if (pb_nodelink_open(ctx, &n) < 0) {
        *err = ctx->err;
        return -1;
    }
    pb_buf_printf(&body, "{\"inject\":%s", inject ? "true" : "false");
    if (ctx->scope) {
        pb_json_key(&body, "target");
        pb_json_string(&body, ctx->scope);
    }
    pb_buf_putc(&body, '}');
    fd = pb_http_upgrade(n.http, "/api/agent", body.data, "probing-agent", err);
    pb_buf_finish(&body);
    return fd;
}
