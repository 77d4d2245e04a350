#include "cli/client/environment.h"

#include <stdlib.h>
#include <string.h>

#include "base/settings.h"
#include "node/serve/serve.h"
#include "host/text/json_write.h"

/* The value of a setting's variable, or NULL. */
static const char *value_of(int index, char name[PB_SETTING_NAME_MAX])
{
    const char *value;

    pb_settings_env_name(index, name);
    value = getenv(name);
    return value && *value ? value : NULL;
}

int pb_environment_lines(struct pb_ctx *ctx, const char **ret)
{
    struct pb_buf b = PB_BUF_INIT;
    int rc = 0;

    for (int i = 0; rc == 0 && i < PB_SETTING_COUNT; i++) {
        char name[PB_SETTING_NAME_MAX];
        const char *value = value_of(i, name);
        int64_t parsed;

        if (!value || pb_settings_whose(i) == PB_OF_NODE)
            continue;
        if (pb_settings_parse(i, value, strlen(value), &parsed, &ctx->err) < 0)
            rc = pb_err_prefix(&ctx->err, "$%s", name);
        else
            pb_buf_printf(&b, "%s%s=%s", b.len ? "\n" : "", pb_setting_list[i].name, value);
    }
    if (rc < 0)
        ctx->note = ""; /* the command line was fine: no usage */
    *ret = pb_arena_strdup(&ctx->arena, b.data ? b.data : "");
    pb_buf_finish(&b);
    return rc;
}

/* {"environment": true, "set": {…}}, or nothing when there is nothing to tell. */
static void write_body(struct pb_buf *b)
{
    for (int i = 0; i < PB_SETTING_COUNT; i++) {
        char name[PB_SETTING_NAME_MAX];
        const char *value = value_of(i, name);

        if (!value || pb_settings_whose(i) == PB_OF_PROCESS)
            continue;
        if (!b->len)
            pb_buf_puts(b, "{\"target\":\"all\",\"environment\":true,\"set\":{");
        pb_json_key(b, pb_setting_list[i].name);
        pb_json_string(b, value);
    }
    if (b->len)
        pb_buf_puts(b, "}}");
}

void pb_environment_tell(struct pb_ctx *ctx, struct pb_nodelink *n)
{
    struct pb_buf body = PB_BUF_INIT, answer = PB_BUF_INIT;
    struct pb_err before = ctx->err;

    write_body(&body);
    if (body.len && pb_nodelink_ask(ctx, n, "POST", "/api/config", body.data, &answer) < 0) {
        if (!ctx->interrupted)
            pb_ctx_notice(ctx, pb_arena_printf(&ctx->arena, "probing: for the node that runs: %s",
                                               ctx->err.msg));
        ctx->err = before;
    }
    pb_buf_finish(&answer);
    pb_buf_finish(&body);
}

void pb_environment_tell_running(struct pb_ctx *ctx)
{
    struct pb_buf body = PB_BUF_INIT;
    struct pb_serve_paths paths;
    struct pb_nodelink n = {0};
    struct pb_err before = ctx->err;

    write_body(&body);
    /* Opening tells it. */
    if (body.len && pb_serve_paths_find(&paths, &ctx->err) == 0 &&
        pb_serve_answers(paths.socket) && pb_nodelink_open(ctx, &n) == 0)
        pb_nodelink_close(&n);
    pb_buf_finish(&body);
    ctx->err = before;
}
