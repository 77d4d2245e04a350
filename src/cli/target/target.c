#include "cli/target/target.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/target/job.h"
#include "cli/target/ranks.h"
#include "host/process/proc.h"
#include "host/python/processes.h"
#include "host/text/secret.h"

#define DIGITS "0123456789"

/* "1234" or, as stores are named, "1234-5678"; for a node also several, joined by commas. */
static bool is_process(const char *word, bool for_node)
{
    size_t n = strspn(word, DIGITS);

    if (!for_node)
        return n && !word[n];
    for (;;) {
        if (!n)
            return false;
        word += n;
        if (*word == '-') {
            n = strspn(++word, DIGITS);
            if (!n)
                return false;
            word += n;
        }
        if (*word != ',')
            return !*word;
        n = strspn(++word, DIGITS);
    }
}

/* "host:8080", ":8080", "[::1]:8080", each with "/PID" behind it or not; no path, no module. */
static bool is_remote(const char *word)
{
    const char *slash = strrchr(word, '/');
    size_t len = slash ? (size_t)(slash - word) : strlen(word);
    const char *colon = memrchr(word, ':', len);

    if (slash && !is_process(slash + 1, true))
        return false;
    return colon && colon + 1 < word + len &&
           colon + 1 + strspn(colon + 1, DIGITS) == word + len && !memchr(word, '/', len) &&
           !strchr(word, ' ');
}

enum pb_cli_target_kind pb_cli_target_kind(const char *word)
{
    if (strncmp(word, PB_JOB_PREFIX, strlen(PB_JOB_PREFIX)) == 0)
        return PB_CLI_TARGET_JOB;
    if (pb_cli_ranks_is(word))
        return PB_CLI_TARGET_RANKS;
    if (is_process(word, false))
        return PB_CLI_TARGET_PID;
    if (is_process(word, true))
        return PB_CLI_TARGET_ID;
    return is_remote(word) ? PB_CLI_TARGET_REMOTE : PB_CLI_TARGET_TEXT;
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

static int resolve_remote(struct pb_ctx *ctx, const char *word)
{
    const char *slash = strrchr(word, '/');

    if (!ctx->cmd->remote && ctx->cmd->target != PB_TARGET_SCOPE)
        return pb_err_set(&ctx->err, PB_USAGE, "%s works on the target's own machine only, not on "
                                               "%s", ctx->cmd->name, word);
    ctx->remote = pb_arena_strndup(&ctx->arena, word,
                                   slash ? (size_t)(slash - word) : strlen(word));
    ctx->scope = slash ? slash + 1 : NULL;
    return 0;
}

static int several(struct pb_ctx *ctx, const char *word, const struct pb_process **v, int n)
{
    struct pb_buf b = PB_BUF_INIT;

    for (int i = 0; i < n; i++)
        pb_buf_printf(&b, "%7d  %s\n", (int)v[i]->pid,
                      pb_text_clean(&ctx->arena, pb_secret_text(v[i]->command, &ctx->arena)));
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

    if (ctx->nargs && pb_cli_target_kind(ctx->args[0]) == PB_CLI_TARGET_PID)
        return pb_err_set(&ctx->err, PB_USAGE,
                          "%s needs a target in front of it. Try: probing %s %s", name,
                          ctx->args[0], name);
    return pb_err_set(&ctx->err, PB_USAGE, "%s needs a target: probing <TARGET> %s", name, name);
}

/* A node has nothing about a process of somebody else: say so, rather than show no rows. */
static int check_owner(struct pb_ctx *ctx)
{
    struct pb_proc_status status;

    if (ctx->store || geteuid() == 0 || pb_proc_status(&status, ctx->pid, NULL) < 0 ||
        status.euid == geteuid())
        return 0;
    return pb_proc_check_access(ctx->pid, ctx->command_line, &ctx->err);
}

static int resolve(struct pb_ctx *ctx, const char *word)
{
    enum pb_cli_target_kind kind = pb_cli_target_kind(word);
    int rc;

    if (kind == PB_CLI_TARGET_REMOTE)
        return resolve_remote(ctx, word);
    if (kind == PB_CLI_TARGET_RANKS || ctx->cluster)
        return pb_cli_ranks_resolve(ctx, word);
    if (kind == PB_CLI_TARGET_JOB)
        return pb_job_resolve(ctx, word + strlen(PB_JOB_PREFIX));
    if (ctx->cmd->target != PB_TARGET_SCOPE)
        return kind == PB_CLI_TARGET_PID ? resolve_pid(ctx, word) : resolve_text(ctx, word);
    /* A node also knows the dead. */
    if (kind != PB_CLI_TARGET_TEXT) {
        ctx->scope = word;
        rc = kind == PB_CLI_TARGET_PID ? resolve_pid(ctx, word) : 0;
        return rc == 0 && ctx->pid ? check_owner(ctx) : rc;
    }
    rc = resolve_text(ctx, word);
    if (rc == 0)
        ctx->scope = pb_arena_printf(&ctx->arena, "%d", (int)ctx->pid);
    return rc;
}

static int check_store(struct pb_ctx *ctx, const char *word)
{
    if (ctx->cmd->target != PB_TARGET_SCOPE && !ctx->cmd->stored)
        return pb_err_set(&ctx->err, PB_USAGE, "--store: %s looks at living processes",
                          ctx->cmd->name);
    if (word && pb_cli_target_kind(word) != PB_CLI_TARGET_PID &&
        pb_cli_target_kind(word) != PB_CLI_TARGET_ID)
        return pb_err_set(&ctx->err, PB_USAGE, "--store: '%s' is not the pid of a process in it",
                          word);
    return 0;
}

static int check_core(struct pb_ctx *ctx, const char *word)
{
    if (!ctx->cmd->core)
        return pb_err_set(&ctx->err, PB_USAGE, "--core: %s cannot look at a core file",
                          ctx->cmd->name);
    if (word || ctx->store || ctx->cluster)
        return pb_err_set(&ctx->err, PB_USAGE, "--core is the target; there is no other beside it");
    return 0;
}

int pb_cli_target_resolve(struct pb_ctx *ctx)
{
    static const char *const stand_ins[] = {"PROBING_TARGET", "ENDPOINT"};
    const char *word = ctx->target;

    if (ctx->core)
        return check_core(ctx, word);
    if (ctx->exe)
        return pb_err_set(&ctx->err, PB_USAGE, "--exe: only with --core");
    if (ctx->store && check_store(ctx, word) < 0)
        return -1;
    if (ctx->cluster && ctx->store)
        return pb_err_set(&ctx->err, PB_USAGE, "--store and a cluster exclude each other");
    if (ctx->cmd->target == PB_TARGET_UNUSED) {
        if (ctx->cluster && !ctx->cmd->whole_cluster)
            return pb_err_set(&ctx->err, PB_USAGE, "%s is not for a cluster", ctx->cmd->name);
        if (word)
            return pb_err_set(&ctx->err, PB_USAGE, "%s takes no target, but got '%s'",
                              ctx->cmd->name, word);
        return 0;
    }
    for (size_t i = 0; i < 2 && !ctx->store && !ctx->cluster && (!word || !*word); i++)
        word = getenv(stand_ins[i]);
    if (ctx->cluster && (!word || !*word))
        return pb_cli_ranks_resolve(ctx, NULL);
    if (!word || !*word)
        return ctx->cmd->target == PB_TARGET_PROCESS ? missing(ctx) : 0;
    ctx->target = word;
    return resolve(ctx, word);
}
