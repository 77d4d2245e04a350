/*
 * probing [TARGET] config - settings of the agent in a process, or of the node.
 */
#include <string.h>

#include "base/settings.h"
#include "cli/cmd.h"
#include "cli/client/link.h"
#include "cli/client/nodelink.h"
#include "node/serve/serve.h"
#include "host/text/json_write.h"
#include "host/text/nearest.h"
#include "display/table.h"

#define ASK_TIMEOUT_MS 5000

static int run(struct pb_ctx *ctx);

static const struct pb_positional positionals[] = {
    {.name = "KEY[=VALUE]", .help = "a setting to read, or to set; none: all are listed",
     .many = true},
    {.name = NULL},
};

const struct pb_cmd pb_cmd_config = {
    .name = "config",
    .aliases = "cfg, c",
    .summary = "Display or modify the configuration",
    .details =
        "Without a key lists every setting with its value, its default and what it does; of a\n"
        "process without probes the defaults, and without a target those of the node. KEY prints\n"
        "one value, KEY=VALUE sets it until the process ends, and injects the probes first if\n"
        "they are not there. Settings of the node (retention.days and others) are set without a\n"
        "target, until it ends. All that is to be set is checked before anything is. Keys may be\n"
        "written with probing. in front. At its start the agent reads the environment:\n"
        "PROBING_EVAL_TIMEOUT is eval.timeout.",
    .positionals = positionals,
    .target = PB_TARGET_OPTIONAL,
    .job = PB_JOB_TITLED,
    .remote = true,
    .examples = "probing 4242 config                   # all\n"
                "probing 4242 config eval.timeout      # one\n"
                "probing 4242 config eval.timeout=120  # set it\n"
                "probing config retention.days=3       # of the node\n",
    .run = run,
};

static int unknown(struct pb_ctx *ctx, const char *key)
{
    const char *best = pb_nearest_setting(key);

    if (strncmp(key, "probing.", 8) == 0)
        key += 8;
    return pb_err_set(&ctx->err, PB_USAGE, "no setting '%s'%s%s", key,
                      best ? "; nearest: " : "; probing config lists them", best ? best : "");
}

/* What is to be set, by who acts on it. */
struct wanted {
    const char *of_node, *of_process; /* the first of each kind, or NULL */
};

/* Everything is checked here, so that the nearest name and the limits can be told. */
static int check(struct pb_ctx *ctx, struct wanted *w)
{
    *w = (struct wanted){0};
    for (int i = 0; i < ctx->nargs; i++) {
        size_t len = strcspn(ctx->args[i], "=");
        char *key = pb_arena_strndup(&ctx->arena, ctx->args[i], len);
        int index = pb_settings_find(key, len);
        const char *value = ctx->args[i] + len + 1;
        int64_t parsed;

        if (index < 0)
            return unknown(ctx, key);
        if (!ctx->args[i][len])
            continue;
        if (pb_settings_parse(index, value, strlen(value), &parsed, &ctx->err) < 0)
            return -1;
        if (pb_settings_whose(index) == PB_OF_NODE ||
            (pb_settings_whose(index) == PB_OF_BOTH && !ctx->target))
            w->of_node = w->of_node ? w->of_node : ctx->args[i];
        else
            w->of_process = w->of_process ? w->of_process : ctx->args[i];
    }
    return 0;
}

/* The node's own settings need no target, or one at its address; a process's need a process. */
static int check_target(struct pb_ctx *ctx, const struct wanted *w)
{
    if (w->of_node && (ctx->pid || ctx->scope))
        return pb_link_of_node(ctx, w->of_node, strlen(w->of_node));
    if (w->of_process && !ctx->pid && !ctx->remote)
        return pb_err_set(&ctx->err, PB_USAGE, "%.*s is a setting of processes: whose? give a "
                                               "target",
                          (int)strcspn(w->of_process, "="), w->of_process);
    if (w->of_node && w->of_process)
        return pb_err_set(&ctx->err, PB_USAGE, "%s is for the node and %s for a process: one "
                                               "command each",
                          w->of_node, w->of_process);
    return 0;
}

static void collect(int fd, const void *data, size_t len, void *arg)
{
    if (fd == 1)
        pb_buf_add(arg, data, len);
}

/* Sends the lines; what the agent shows goes into *shown. */
static int ask(struct pb_ctx *ctx, struct pb_agent *agent, struct pb_buf *shown)
{
    struct pb_buf lines = PB_BUF_INIT;
    enum pb_wire_result result = PB_WIRE_OK;
    const char *why = NULL;
    int rc;

    for (int i = 0; i < ctx->nargs; i++)
        pb_buf_printf(&lines, "%s\n", ctx->args[i]);
    rc = pb_agent_ask(agent, PB_WIRE_CONFIG, NULL, 0, lines.data, lines.len, ASK_TIMEOUT_MS,
                      collect, shown, &ctx->arena, &result, &why, &ctx->err);
    pb_buf_finish(&lines);
    if (rc == 0 && result != PB_WIRE_OK)
        return pb_err_set(&ctx->err, PB_FAIL, "%s: %s", pb_link_who(ctx), why ? why : "refused");
    return rc;
}

static const char *default_of(struct pb_ctx *ctx, int index)
{
    char value[PB_SETTING_VALUE_MAX];

    pb_settings_format(index, pb_setting_list[index].default_value, value);
    return pb_arena_strdup(&ctx->arena, value);
}

static const char *value_of(struct pb_ctx *ctx, const struct pb_buf *shown, int index)
{
    const char *value =
        pb_agent_value(shown->data, pb_setting_list[index].name, &ctx->arena);

    return value ? pb_text_clean(&ctx->arena, value) : default_of(ctx, index);
}

static void list(struct pb_ctx *ctx, const struct pb_buf *shown)
{
    static const struct pb_column columns[] = {
        {.title = "setting"}, {.title = "value"}, {.title = "default"},
        {.title = "what it does", .shrinks = true, .min_width = 20},
    };
    const char *cells[PB_SETTING_COUNT * 4];
    struct pb_table table = {.columns = columns, .ncolumns = 4, .cells = cells,
                             .nrows = PB_SETTING_COUNT};

    for (int i = 0; i < PB_SETTING_COUNT; i++) {
        cells[i * 4] = pb_setting_list[i].name;
        cells[i * 4 + 1] = value_of(ctx, shown, i);
        cells[i * 4 + 2] = default_of(ctx, i);
        cells[i * 4 + 3] = pb_setting_list[i].doc;
    }
    pb_table_print(&ctx->out, &table);
}

static void show(struct pb_ctx *ctx, const struct pb_buf *shown)
{
    for (int i = 0; i < ctx->nargs; i++) {
        int index = pb_settings_find(ctx->args[i], strlen(ctx->args[i]));

        if (index >= 0)
            pb_print_f(&ctx->out, "%s\n", value_of(ctx, shown, index));
    }
    if (!ctx->nargs)
        list(ctx, shown);
}

static void write_set(struct pb_ctx *ctx, struct pb_buf *body)
{
    pb_buf_puts(body, "{\"target\":\"all\",\"set\":{");
    for (int i = 0; i < ctx->nargs; i++) {
        size_t len = strcspn(ctx->args[i], "=");

        if (!ctx->args[i][len])
            continue;
        pb_json_key(body, pb_arena_strndup(&ctx->arena, ctx->args[i], len));
        pb_json_string(body, ctx->args[i] + len + 1);
    }
    pb_buf_puts(body, "}}");
}

/* The settings in a node's answer, as the lines that an agent would send. */
static int parse_settings(struct pb_ctx *ctx, const struct pb_buf *answer, struct pb_buf *shown)
{
    struct pb_json body;
    const struct pb_json *v;

    if (pb_json_parse(&ctx->arena, answer->data, answer->len, &body, &ctx->err) < 0)
        return -1;
    v = pb_json_get(&body, "settings");
    for (size_t i = 0; v && v->type == PB_J_ARRAY && i < v->n; i++)
        pb_buf_printf(shown, "%s=%s\n", pb_json_str(&v->items[i], "name", ""),
                      pb_json_str(&v->items[i], "value", ""));
    return 0;
}

/* Reading starts no node: without one there are the defaults. */
static int ask_node(struct pb_ctx *ctx, bool sets, struct pb_buf *shown)
{
    struct pb_buf body = PB_BUF_INIT, answer = PB_BUF_INIT;
    struct pb_serve_paths paths;
    struct pb_nodelink n = {0};
    int rc = 0;

    if (!sets && !ctx->remote &&
        (pb_serve_paths_find(&paths, NULL) < 0 || !pb_serve_answers(paths.socket)))
        return 0;
    if (pb_nodelink_open(ctx, &n) < 0)
        return -1;
    if (sets)
        write_set(ctx, &body);
    rc = pb_nodelink_ask(ctx, &n, sets ? "POST" : "GET",
                         sets ? "/api/config" : "/api/config?target=all", body.data, &answer);
    if (rc == 0)
        rc = parse_settings(ctx, &answer, shown);
    pb_nodelink_close(&n);
    pb_buf_finish(&body);
    pb_buf_finish(&answer);
    return rc;
}

/* Reading changes nothing: a process without probes has the defaults. */
static int connect(struct pb_ctx *ctx, bool sets, struct pb_agent *agent)
{
    struct pb_err err = {0};

    if (sets)
        return pb_link_open(ctx, agent);
    if (pb_link_find(ctx, agent, &err) == 0)
        return 0;
    if (err.code == PB_NO_TARGET) {
        pb_ctx_notice(ctx, pb_arena_printf(&ctx->arena,
                                           "probing: no probes in process %s: these are the "
                                           "defaults", pb_link_who(ctx)));
        return 0;
    }
    ctx->err = err;
    return -1;
}

static int run(struct pb_ctx *ctx)
{
    struct pb_agent agent = {.fd = -1};
    struct pb_buf shown = PB_BUF_INIT;
    struct wanted w;
    int rc;

    if (check(ctx, &w) < 0 || check_target(ctx, &w) < 0)
        return -1;
    if (w.of_node || (!ctx->pid && !ctx->remote)) {
        rc = ask_node(ctx, w.of_node, &shown);
    } else {
        if (connect(ctx, w.of_process, &agent) < 0)
            return -1;
        rc = agent.fd >= 0 ? ask(ctx, &agent, &shown) : 0;
        pb_agent_close(&agent);
    }
    if (rc == 0)
        show(ctx, &shown);
    pb_buf_finish(&shown);
    return rc;
}
