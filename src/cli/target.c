#include "cli/target.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unwind/processes.h"

enum pb_target_kind pb_target_kind(const char *word)
{
    static const char digits[] = "0123456789";
    const char *colon = strrchr(word, ':');
    size_t n = strspn(word, digits);

    if (n && !word[n])
        return PB_TARGET_IS_PID;
    /* "host:8080", ":8080", "[::1]:8080"; a path or a module name with a colon is text. */
    if (colon && colon[1] && !colon[1 + strspn(colon + 1, digits)] && !strpbrk(word, "/ "))
        return PB_TARGET_IS_REMOTE;
    return PB_TARGET_IS_TEXT;
}

static int resolve_pid(struct pb_ctx *ctx, const char *word)
{
    long pid;

    errno = 0;
    pid = strtol(word, NULL, 10);
    if (errno || pid <= 0 || pid > 0x7fffffff)
        return pb_err_set(&ctx->err, PB_NO_TARGET, "%s: no such process", word);
    ctx->pid = (pid_t)pid;
    return 0;
}

static int several(struct pb_ctx *ctx, const char *word, const struct pb_process **v, int n)
{
    struct pb_buf b = PB_BUF_INIT;

    for (int i = 0; i < n; i++)
        pb_buf_printf(&b, "%7d  %s\n", (int)v[i]->pid,
                      pb_text_clean(&ctx->arena, v[i]->command));
    ctx->note = pb_arena_strdup(&ctx->arena, b.data);
    pb_buf_finish(&b);
    return pb_err_set(&ctx->err, PB_USAGE, "'%s' matches %d processes; give the pid of one", word,
                      n);
}

static int resolve_text(struct pb_ctx *ctx, const char *word)
{
    const struct pb_process **match;
    struct pb_process *v;
    int n = pb_processes_read(&ctx->arena, &v, &ctx->err);
    int found = 0;

    if (n < 0)
        return -1;
    match = PB_NEW_N(&ctx->arena, const struct pb_process *, (size_t)n + 1);
    for (int i = 0; i < n; i++) {
        if (strstr(v[i].command, word))
            match[found++] = &v[i];
    }
    if (found == 0)
        return pb_err_set(&ctx->err, PB_NO_TARGET,
                          "no Python process has '%s' in its command line. See: probing list",
                          word);
    if (found > 1)
        return several(ctx, word, match, found);
    ctx->pid = match[0]->pid;
    return 0;
}

static int missing(struct pb_ctx *ctx)
{
    const char *name = ctx->cmd->name;

    if (ctx->nargs && pb_target_kind(ctx->args[0]) == PB_TARGET_IS_PID)
        return pb_err_set(&ctx->err, PB_USAGE,
                          "%s needs a target in front of it. Try: probing %s %s", name,
                          ctx->args[0], name);
    return pb_err_set(&ctx->err, PB_USAGE, "%s needs a target: probing <TARGET> %s", name, name);
}

int pb_target_resolve(struct pb_ctx *ctx)
{
    static const char *const stand_ins[] = {"PROBING_TARGET", "ENDPOINT"};
    const char *word = ctx->target;

    if (ctx->cmd->target == PB_TARGET_UNUSED) {
        if (word)
            return pb_err_set(&ctx->err, PB_USAGE, "%s takes no target, but got '%s'",
                              ctx->cmd->name, word);
        return 0;
    }
    for (size_t i = 0; i < 2 && (!word || !*word); i++)
        word = getenv(stand_ins[i]);
    if (!word || !*word)
        return ctx->cmd->target == PB_TARGET_PROCESS ? missing(ctx) : 0;
    ctx->target = word;
    switch (pb_target_kind(word)) {
    case PB_TARGET_IS_PID:
        return resolve_pid(ctx, word);
    case PB_TARGET_IS_REMOTE:
        return pb_err_set(&ctx->err, PB_USAGE, "%s: remote targets need a node", word);
    default:
        return resolve_text(ctx, word);
    }
}
