/* probing cluster nodes: who is there. */
#include <stdio.h>
#include <string.h>

#include "cli/cluster/cluster.h"
#include "cli/client/nodelink.h"
#include "host/text/json.h"
#include "display/table.h"

/* "3 s", "12 min" of milliseconds. */
static const char *age(struct pb_ctx *ctx, int64_t ms)
{
    if (ms < 0)
        return "";
    if (ms < 120000)
        return pb_arena_printf(&ctx->arena, "%lld s", (long long)(ms / 1000));
    return pb_arena_printf(&ctx->arena, "%lld min", (long long)(ms / 60000));
}

/* "0-7/16 train.py"; of several jobs one behind the other. */
static const char *ranks_of(struct pb_ctx *ctx, const struct pb_json *jobs)
{
    struct pb_buf b = PB_BUF_INIT;
    const char *text;

    for (size_t i = 0; jobs && jobs->type == PB_J_ARRAY && i < jobs->n; i++) {
        const struct pb_json *j = &jobs->items[i];
        int64_t world = pb_json_whole(j, "world", 0), restarts = pb_json_whole(j, "restarts", 0);

        pb_buf_printf(&b, "%s%s", i ? ", " : "", pb_json_str(j, "ranks", ""));
        if (world)
            pb_buf_printf(&b, "/%lld", (long long)world);
        pb_buf_printf(&b, " %s", pb_json_str(j, "script", ""));
        if (restarts)
            pb_buf_printf(&b, " (restart %lld)", (long long)restarts);
    }
    text = pb_arena_strdup(&ctx->arena, b.data ? b.data : "");
    pb_buf_finish(&b);
    return text;
}

static const char *state_of(struct pb_ctx *ctx, const struct pb_json *m)
{
    const char *state = pb_json_str(m, "state", ""), *why = pb_json_str(m, "reason", NULL);

    if (pb_json_flag(m, "self", false))
        return "here";
    if (strcmp(state, "alive") == 0 && !why)
        return state;
    if (strcmp(state, "alive") == 0)
        return pb_arena_printf(&ctx->arena, "alive, not from here: %s", why);
    return pb_arena_printf(&ctx->arena, "%s for %s%s%s", state,
                           age(ctx, pb_json_whole(m, "since_ms", 0)), why ? ": " : "",
                           why ? why : "");
}

/* "+12 ±85 µs" */
static const char *clock_of(struct pb_ctx *ctx, const struct pb_json *m)
{
    double error = pb_json_number(m, "clock_error_us", -1);
    double offset = pb_json_number(m, "clock_offset_us", 0);

    if (pb_json_flag(m, "self", false) || error < 0)
        return "";
    if (error < 1000 && offset > -100000 && offset < 100000)
        return pb_arena_printf(&ctx->arena, "%+.0f ±%.0f µs", offset, error);
    return pb_arena_printf(&ctx->arena, "%+.1f ±%.1f ms", offset / 1000, error / 1000);
}

static void print_members(struct pb_ctx *ctx, const struct pb_json *members)
{
    static const struct pb_column columns[] = {
        {.title = "node"}, {.title = "address"}, {.title = "ranks", .shrinks = true},
        {.title = "clock", .right = true}, {.title = "version"}, {.title = "state"}};
    enum { N = sizeof columns / sizeof *columns };
    struct pb_table t = {.columns = columns, .ncolumns = N, .nrows = members->n};
    const char **cell = PB_NEW_N(&ctx->arena, const char *, members->n * N + 1);

    t.cells = cell;
    for (size_t i = 0; i < members->n; i++, cell += N) {
        const struct pb_json *m = &members->items[i];

        cell[0] = pb_json_str(m, "host", "");
        cell[1] = pb_json_str(m, "address", "");
        cell[2] = ranks_of(ctx, pb_json_get(m, "jobs"));
        cell[3] = clock_of(ctx, m);
        cell[4] = pb_json_str(m, "software", "");
        cell[5] = state_of(ctx, m);
    }
    pb_table_print(&ctx->out, &t);
}

static int show(struct pb_ctx *ctx, const struct pb_buf *answer)
{
    struct pb_json json;
    const struct pb_json *members;
    int64_t refused;

    if (strcmp(pb_opt_str(ctx, "format", "table"), "json") == 0) {
        pb_print_foreign(&ctx->out, answer->data, answer->len);
        return 0;
    }
    if (pb_json_parse(&ctx->arena, answer->data, answer->len, &json, &ctx->err) < 0)
        return -1;
    members = pb_json_get(&json, "members");
    if (!pb_json_flag(&json, "attached", false))
        return pb_err_set(&ctx->err, PB_NO_TARGET,
                          "this node is in no cluster. Try: probing cluster attach");
    if (members && members->type == PB_J_ARRAY && members->n)
        print_members(ctx, members);
    if (pb_json_flag(&json, "observer", false))
        pb_ctx_notice(ctx, "probing: this node asks the others and is not asked");
    refused = pb_json_whole(&json, "refused", 0);
    if (refused)
        pb_ctx_notice(ctx, pb_arena_printf(&ctx->arena, "probing: %lld messages of others were "
                                                        "refused", (long long)refused));
    return 0;
}

int pb_cluster_nodes(struct pb_ctx *ctx)
{
    struct pb_buf answer = PB_BUF_INIT;
    struct pb_nodelink n;
    int rc;

    if (ctx->nargs > 1)
        return pb_err_set(&ctx->err, PB_USAGE, "cluster nodes: unexpected '%s'", ctx->args[1]);
    if (pb_nodelink_open(ctx, &n) < 0)
        return -1;
    rc = pb_nodelink_ask(ctx, &n, "GET", "/api/cluster", NULL, &answer);
    if (rc == 0)
        rc = show(ctx, &answer);
    pb_nodelink_close(&n);
    pb_buf_finish(&answer);
    return rc;
}
