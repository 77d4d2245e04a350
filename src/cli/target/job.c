#include "cli/target/job.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/target/dead.h"
#include "host/process/proc.h"
#include "host/python/processes.h"
#include "host/python/script.h"

struct search {
    const struct pb_process *v;
    int n;
    bool *in; /* belongs to the job */
};

static const struct pb_process *by_pid(const struct search *s, pid_t pid)
{
    for (int i = 0; i < s->n; i++)
        if (s->v[i].pid == pid)
            return &s->v[i];
    return NULL;
}

/* Other users' processes of that name are not this user's job; to root they are. */
static bool may_belong(const struct pb_process *p)
{
    return (geteuid() == 0 || p->uid == geteuid()) && strcmp(p->state, "ended") != 0;
}

/* Itself or an ancestor runs the script; the depth is bounded as parents may change meanwhile. */
static bool belongs(const struct search *s, const struct pb_process *p, const char *script)
{
    for (int depth = 0; p && depth < 64; depth++) {
        if (pb_script_runs(p->argv, p->argv_len, script))
            return true;
        p = p->parent ? by_pid(s, p->parent) : NULL;
    }
    return false;
}

static int several_users(struct pb_ctx *ctx, const struct search *s, const char *script)
{
    const struct pb_process *first = NULL;
    struct pb_buf b = PB_BUF_INIT;
    bool several = false;

    for (int i = 0; i < s->n; i++) {
        if (!s->in[i])
            continue;
        first = first ? first : &s->v[i];
        several = several || s->v[i].uid != first->uid;
        pb_buf_printf(&b, "%7d  %s  %s\n", (int)s->v[i].pid, s->v[i].user,
                      pb_text_clean(&ctx->arena, s->v[i].command));
    }
    if (several)
        ctx->note = pb_arena_strdup(&ctx->arena, b.data);
    pb_buf_finish(&b);
    return several ? pb_err_set(&ctx->err, PB_USAGE, "'%s' is a job of several users; give pids",
                                script)
                   : 0;
}

static int fail_no_process(struct pb_ctx *ctx, const char *script)
{
    return pb_err_set(&ctx->err, PB_NO_TARGET, "no Python process runs '%s'. See: probing list%s",
                      script,
                      ctx->cmd->job == PB_JOB_TOGETHER ? "; one that ended: --dead" : "");
}

/*
 * The pids, joined by commas, and with --dead the ids of the ended ones. A worker may end before
 * the node looks for it: the mark says that it is no error then.
 */
static int scope_of(struct pb_ctx *ctx, const char *script)
{
    struct pb_buf b = PB_BUF_INIT;
    const char **ended = NULL;
    size_t nended = 0;
    int64_t since = ctx->cmd->lately ? ((int64_t)time(NULL) - PB_CMD_LATELY_S) * 1000000000 : 0;
    int rc = 0;

    for (size_t i = 0; i < ctx->njob; i++)
        pb_buf_printf(&b, "%s%d?", i ? "," : "", (int)ctx->job[i].pid);
    if (pb_opt_flag(ctx, "dead") || ctx->cmd->lately)
        rc = pb_dead_of_script(ctx, script, since, &ended, &nended);
    for (size_t i = 0; i < nended; i++)
        pb_buf_printf(&b, "%s%s", b.len ? "," : "", ended[i]);
    if (rc == 0 && !b.len)
        rc = fail_no_process(ctx, script);
    else if (rc == 0)
        ctx->scope = pb_arena_strdup(&ctx->arena, b.data);
    pb_buf_finish(&b);
    return rc;
}

/* A command for one process is fine with a job of one. */
static int only_one(struct pb_ctx *ctx, const char *script)
{
    struct pb_buf b = PB_BUF_INIT;

    if (ctx->njob > 1) {
        for (size_t i = 0; i < ctx->njob; i++)
            pb_buf_printf(&b, "%s%d", i ? ", " : "", (int)ctx->job[i].pid);
        pb_err_set(&ctx->err, PB_USAGE, "%s looks at one process; '%s' has %zu: %s",
                   ctx->cmd->name, script, ctx->njob, b.data);
        pb_buf_finish(&b);
        return -1;
    }
    ctx->pid = ctx->job[0].pid;
    ctx->scope = pb_arena_printf(&ctx->arena, "%d", (int)ctx->pid);
    ctx->njob = 0;
    return 0;
}

int pb_job_resolve(struct pb_ctx *ctx, const char *script)
{
    struct pb_process *v;
    struct search s;

    if (!*script)
        return pb_err_set(&ctx->err, PB_USAGE, "job: which script? job:train.py");
    s.n = pb_processes_read(&ctx->arena, &v, &ctx->err);
    if (s.n < 0)
        return -1;
    s.v = v;
    ctx->njob = 0;
    s.in = PB_NEW_N(&ctx->arena, bool, (size_t)s.n + 1);
    ctx->job = PB_NEW_N(&ctx->arena, struct pb_ctx_process, (size_t)s.n + 1);
    for (int i = 0; i < s.n; i++) {
        s.in[i] = may_belong(&v[i]) && belongs(&s, &v[i], script);
        if (s.in[i])
            ctx->job[ctx->njob++] = (struct pb_ctx_process){
                .pid = v[i].pid, .rank = v[i].rank,
                .command = pb_process_short_command(&v[i])};
    }
    if (several_users(ctx, &s, script) < 0)
        return -1;
    if (ctx->cmd->job == PB_JOB_TOGETHER)
        return scope_of(ctx, script);
    if (!ctx->njob)
        return fail_no_process(ctx, script);
    return ctx->cmd->job == PB_JOB_REFUSED ? only_one(ctx, script) : 0;
}

bool pb_job_wants_json(const struct pb_ctx *ctx)
{
    return pb_opt_flag(ctx, "json") || strcmp(pb_opt_str(ctx, "format", ""), "json") == 0;
}

/* Workers come and go: one that is gone needs nothing any more, which is said and no failure. */
static bool ended_meanwhile(struct pb_ctx *ctx, const struct pb_ctx_process *p)
{
    struct pb_proc_stat st;
    pid_t pid = p->pid;

    if (p->remote ||
        (pb_proc_stat(&st, pid, 0, NULL) == 0 && st.state != 'Z' && st.state != 'X'))
        return false;
    pb_ctx_notice(ctx, pb_arena_printf(&ctx->arena, "probing: %d: ended meanwhile", (int)pid));
    return true;
}

static void say_failed(struct pb_ctx *ctx, const struct pb_ctx_process *p)
{
    const char *number = p->host ? pb_arena_printf(&ctx->arena, "rank %ld (%s)", p->rank, p->host)
                                 : pb_arena_printf(&ctx->arena, "%d", (int)p->pid);
    size_t len = strlen(number);
    bool named = strncmp(ctx->err.msg, number, len) == 0 && ctx->err.msg[len] == ':';

    pb_ctx_notice(ctx, pb_arena_printf(&ctx->arena, "probing: %s%s%s", named ? "" : number,
                                       named ? "" : ": ", ctx->err.msg));
}

/* What stands above the answer of one process. */
static void title(struct pb_ctx *ctx, const struct pb_ctx_process *p, bool first)
{
    pb_print_puts(&ctx->out, first ? "" : "\n");
    pb_print_style(&ctx->out, PB_DIM);
    if (p->host)
        pb_print_f(&ctx->out, "rank %ld · %s · process %d", p->rank, p->host, (int)p->pid);
    else
        pb_print_f(&ctx->out, "process %d", (int)p->pid);
    if (p->rank >= 0 && !p->host)
        pb_print_f(&ctx->out, " · rank %ld", p->rank);
    pb_print_puts(&ctx->out, " · ");
    pb_print_style(&ctx->out, PB_PLAIN);
    pb_print_text(&ctx->out, PB_DIM, p->command);
    pb_print_puts(&ctx->out, "\n");
}

void pb_job_choose(struct pb_ctx *ctx, const struct pb_ctx_process *p)
{
    ctx->chosen = p;
    ctx->remote = p->remote;
    ctx->pid = p->remote ? 0 : p->pid;
    ctx->scope = p->scope ? p->scope : pb_arena_printf(&ctx->arena, "%d", (int)p->pid);
    ctx->target = p->remote ? pb_arena_printf(&ctx->arena, "%s/%s", p->remote, ctx->scope)
                            : pb_arena_printf(&ctx->arena, "%d", (int)p->pid);
}

/* One process; what it printed is taken back down to `before` when it said nothing. */
static int run_one(struct pb_ctx *ctx, const struct pb_ctx_process *p, bool json, bool *first)
{
    size_t before = ctx->out.buf.len, after;
    int rc;

    pb_job_choose(ctx, p);
    if (json)
        pb_buf_puts(&ctx->out.buf, *first ? "" : ",");
    else if (ctx->cmd->job == PB_JOB_TITLED || p->host)
        title(ctx, p, *first);
    if (ctx->cmd->direct && pb_print_flush(&ctx->out, &ctx->err) < 0)
        return -1;
    if (ctx->cmd->direct)
        before = 0;
    after = ctx->out.buf.len;
    rc = ctx->cmd->run(ctx);
    if (ctx->out.buf.len == after && !ctx->cmd->direct)
        pb_buf_cut(&ctx->out.buf, before);
    else
        *first = false;
    return rc;
}

int pb_job_run_alone(struct pb_ctx *ctx, const struct pb_ctx_process *p, bool json)
{
    bool first = true;
    int rc = run_one(ctx, p, json, &first);

    if (rc == 0 || ended_meanwhile(ctx, p))
        return 0;
    say_failed(ctx, p);
    return -1;
}

int pb_job_failed(struct pb_ctx *ctx, const char *whole, enum pb_code code, size_t failed)
{
    ctx->note = "";
    return pb_err_set(&ctx->err, code == PB_OK ? PB_FAIL : code, "%s: %s failed for %zu of %zu "
                      "processes", whole ? whole : "cluster", ctx->cmd->name, failed,
                      ctx->njob);
}

int pb_job_run(struct pb_ctx *ctx)
{
    const char *whole = ctx->target; /* it is another one while each runs */
    bool json = pb_job_wants_json(ctx), first = true;
    enum pb_code code = PB_OK;
    size_t failed = 0;

    if (pb_opt_flag(ctx, "watch"))
        return pb_err_set(&ctx->err, PB_USAGE, "--watch is for one process, not for %s",
                          ctx->target);
    pb_buf_puts(&ctx->out.buf, json ? "[" : "");
    for (size_t i = 0; i < ctx->njob && !ctx->interrupted; i++) {
        if (run_one(ctx, &ctx->job[i], json, &first) == 0)
            continue;
        if (!ended_meanwhile(ctx, &ctx->job[i])) {
            code = code == PB_OK ? ctx->err.code : code;
            failed++;
            say_failed(ctx, &ctx->job[i]);
        }
        ctx->err = (struct pb_err){0};
        ctx->note = NULL;
    }
    pb_buf_puts(&ctx->out.buf, json ? "]\n" : "");
    return failed ? pb_job_failed(ctx, whole, code, failed) : 0;
}
