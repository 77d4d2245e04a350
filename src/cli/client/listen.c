#include "cli/client/listen.h"

#include <stdlib.h>
#include <string.h>

#include "cli/client/nodelink.h"
#include "host/text/json_write.h"
#include "node/access/token.h"

static bool is_loopback(const char *bound)
{
    return strncmp(bound, "127.", 4) == 0 || strncmp(bound, "[::1]", 5) == 0;
}

/* The path as people write it. */
static const char *short_path(struct pb_ctx *ctx, const char *path)
{
    const char *home = getenv("HOME");
    size_t len = home ? strlen(home) : 0;

    if (len > 1 && strncmp(path, home, len) == 0 && path[len] == '/')
        return pb_arena_printf(&ctx->arena, "~%s", path + len);
    return path;
}

/* Who can read what goes over it, and who can reach it. */
static const char *exposure(const char *bound, const struct pb_listen *w)
{
    if (is_loopback(bound))
        return "";
    if (w->no_token || w->plain)
        return "; others on the network can read what goes over it, and other machines reach it";
    return "; other machines reach it by TLS";
}

void pb_listen_say(struct pb_ctx *ctx, const char *bound, const struct pb_listen *w)
{
    const char *given = NULL, *token;
    char path[PB_TOKEN_PATH_MAX];

    pb_print_f(&ctx->out, "Probing server listening on %s\n", bound);
    pb_print_flush(&ctx->out, NULL);
    pb_token_path(path);
    pb_nodelink_token(ctx, &given);
    token = w->no_token ? "no token: whoever reaches it may run code in the processes"
            : given  ? "token: the one it was opened with ($PROBING_TOKEN)"
                     : pb_arena_printf(&ctx->arena, "token: in %s; `probing token` shows it",
                                       short_path(ctx, path));
    pb_ctx_notice(ctx, pb_arena_printf(&ctx->arena, "probing: %s%s", token, exposure(bound, w)));
}

int pb_listen_open(struct pb_ctx *ctx, const struct pb_listen *w)
{
    struct pb_buf body = PB_BUF_INIT, answer = PB_BUF_INIT;
    const char *token = NULL;
    struct pb_nodelink node = {0};
    struct pb_json told;
    int rc;

    if (pb_nodelink_token(ctx, &token) < 0 || pb_nodelink_open(ctx, &node) < 0)
        return -1;
    pb_buf_putc(&body, '{');
    pb_json_key(&body, "address");
    pb_json_string(&body, w->address);
    pb_json_key(&body, "owner");
    pb_json_string_or_null(&body, w->owner);
    pb_json_key(&body, "no_token");
    pb_json_bool(&body, w->no_token);
    pb_json_key(&body, "plain");
    pb_json_bool(&body, w->plain);
    pb_json_key(&body, "cert");
    pb_json_string_or_null(&body, w->cert);
    pb_json_key(&body, "cert_key");
    pb_json_string_or_null(&body, w->cert_key);
    if (token && *token) {
        pb_json_key(&body, "token");
        pb_json_string(&body, token);
    }
    pb_buf_putc(&body, '}');
    rc = pb_nodelink_ask(ctx, &node, "POST", "/api/listen", body.data, &answer);
    if (rc == 0)
        rc = pb_json_parse(&ctx->arena, answer.data, answer.len, &told, &ctx->err);
    if (rc == 0)
        pb_listen_say(ctx, pb_json_str(&told, "listening", w->address), w);
    pb_nodelink_close(&node);
    pb_buf_finish(&answer);
    pb_buf_finish(&body);
    return rc;
}
