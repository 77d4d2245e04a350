#include "cli/target/ranks.h"

#include <stdlib.h>
#include <string.h>

#include "cli/target/job.h"
#include "cli/client/nodelink.h"
#include "host/text/json_write.h"

bool pb_cli_ranks_is(const char *word)
{
    return strncmp(word, "rank:", 5) == 0 || strncmp(word, "ranks:", 6) == 0;
}

static int parse(struct pb_ctx *ctx, const char *word)
{
    const char *text, *at;

    if (strncmp(word, PB_JOB_PREFIX, strlen(PB_JOB_PREFIX)) == 0) {
        ctx->of_job = word + strlen(PB_JOB_PREFIX);
        return 0;
    }
    if (!pb_cli_ranks_is(word))
        return pb_err_set(&ctx->err, PB_USAGE, "--cluster: '%s' is none of rank:N, ranks:N-M, "
                                               "job:NAME", word);
    text = strchr(word, ':') + 1;
    at = strchr(text, '@');
    ctx->of_job = at ? at + 1 : NULL;
    ctx->ranks = pb_arena_strndup(&ctx->arena, text, at ? (size_t)(at - text) : strlen(text));
    return *ctx->ranks ? 0 : pb_err_set(&ctx->err, PB_USAGE, "'%s': which rank?", word);
}

/* The others have the cluster's token, which may be another than ours. */
static void find_token(struct pb_ctx *ctx)
{
    struct pb_nodelink n;

    if (ctx->token || ctx->token_file || ctx->remote)
        return;
    if (pb_nodelink_open(ctx, &n) == 0)
        pb_nodelink_cluster_token(ctx, &n);
    pb_nodelink_close(&n);
    ctx->err = (struct pb_err){0};
}

static void take_rank(struct pb_ctx *ctx, const struct pb_json *one)
{
    const char *address = pb_json_str(one, "address", "");
    struct pb_ctx_process *p = &ctx->job[ctx->njob++];

    *p = (struct pb_ctx_process){
        .pid = (pid_t)pb_json_whole(one, "pid", 0),
        .rank = (long)pb_json_whole(one, "rank", -1),
        .command = pb_json_str(one, "script", ""),
        .host = pb_json_str(one, "host", ""),
        .remote = *address ? address : NULL,
    };
    if (*address)
        p->scope = pb_arena_printf(&ctx->arena, "%lld-%lld",
                                   (long long)pb_json_whole(one, "pid", 0),
                                   (long long)pb_json_whole(one, "start", 0));
}

static int ask(struct pb_ctx *ctx, struct pb_json *ret)
{
    struct pb_buf body = PB_BUF_INIT, answer = PB_BUF_INIT;
    struct pb_nodelink n;
    int rc;

    pb_buf_puts(&body, "{\"cluster\":true");
    if (ctx->ranks) {
        pb_json_key(&body, "ranks");
        pb_json_string(&body, ctx->ranks);
    }
    if (ctx->of_job) {
        pb_json_key(&body, "job");
        pb_json_string(&body, ctx->of_job);
    }
    pb_buf_putc(&body, '}');
    rc = pb_nodelink_open(ctx, &n);
    if (rc == 0)
        rc = pb_nodelink_ask(ctx, &n, "POST", "/api/cluster/ranks", body.data, &answer);
    if (rc == 0)
        rc = pb_json_parse(&ctx->arena, answer.data ? answer.data : "", answer.len, ret,
                           &ctx->err);
    pb_nodelink_close(&n);
    pb_buf_finish(&body);
    pb_buf_finish(&answer);
    return rc;
}

static int compare(const void *a, const void *b)
{
    const struct pb_ctx_process *x = a, *y = b;
    int order = strcmp(x->command, y->command);

    return order ? order : (x->rank > y->rank) - (x->rank < y->rank);
}

int pb_cli_ranks_find(struct pb_ctx *ctx)
{
    struct pb_json answer;
    const struct pb_json *list;
    const char *missing, *twice;

    if (ask(ctx, &answer) < 0)
        return -1;
    list = pb_json_get(&answer, "ranks");
    missing = pb_json_str(&answer, "missing", NULL);
    twice = pb_json_str(&answer, "twice", NULL);
    ctx->partial |= missing != NULL;
    if (missing)
        pb_ctx_notice(ctx, pb_arena_printf(&ctx->arena, "probing: %s", missing));
    if (twice)
        pb_ctx_notice(ctx, pb_arena_printf(&ctx->arena, "probing: claimed by several nodes, all "
                                                        "are shown: %s", twice));
    ctx->njob = 0;
    ctx->job = PB_NEW_N(&ctx->arena, struct pb_ctx_process, (list ? list->n : 0) + 1);
    for (size_t i = 0; list && list->type == PB_J_ARRAY && i < list->n; i++)
        take_rank(ctx, &list->items[i]);
    qsort(ctx->job, ctx->njob, sizeof *ctx->job, compare);
    for (size_t i = 0; i < ctx->njob; i++)
        if (ctx->job[i].remote) {
            find_token(ctx);
            break;
        }
    if (!ctx->njob)
        return pb_err_set(&ctx->err, PB_NO_TARGET, "no rank of a job runs in the cluster");
    return 0;
}

/* "rank:17": a single rank by its number. */
static bool is_one(const struct pb_ctx *ctx)
{
    return ctx->ranks && !strpbrk(ctx->ranks, ",-");
}

int pb_cli_ranks_resolve(struct pb_ctx *ctx, const char *word)
{
    const struct pb_cmd *cmd = ctx->cmd;

    ctx->cluster = true;
    if (word && parse(ctx, word) < 0)
        return -1;
    if (cmd->whole_cluster &&
        ((cmd->job == PB_JOB_TOGETHER && !cmd->one_apart) || !is_one(ctx)))
        return 0;
    if (!cmd->remote && cmd->target != PB_TARGET_SCOPE)
        return pb_err_set(&ctx->err, PB_USAGE, "%s works on the target's own machine only",
                          cmd->name);
    if (pb_cli_ranks_find(ctx) < 0)
        return -1;
    if (ctx->njob > 1 && (cmd->job == PB_JOB_REFUSED || cmd->job == PB_JOB_TOGETHER))
        return pb_err_set(&ctx->err, PB_USAGE, "%s looks at one process; these are %zu ranks",
                          cmd->name, ctx->njob);
    if (ctx->njob > 1)
        return 0;
    pb_job_choose(ctx, &ctx->job[0]);
    ctx->njob = 0;
    return 0;
}
