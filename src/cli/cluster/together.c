#include "cli/cluster/together.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/target/job.h"
#include "host/text/json_write.h"

/* So many at once: 1024 ranks take a few turns. */
#define AT_ONCE 128
/* Exit status of a child whose answer is not of all nodes. */
#define PARTIAL 100

struct worker {
    pid_t pid;
    int out, err; /* what it prints */
};

struct together {
    struct pb_ctx *ctx;
    struct worker *v;
    int input; /* what came by stdin, or -1 */
    bool json, first;
    enum pb_code code; /* of the first that failed */
    size_t failed;
};

static bool reads_stdin(const struct pb_ctx *ctx)
{
    for (int i = 0; i < ctx->nargs; i++)
        if (strcmp(ctx->args[i], "-") == 0)
            return true;
    return false;
}

/* Each of them is to read all of it. */
static int keep_stdin(struct together *t)
{
    char piece[65536];
    ssize_t n;

    if (!reads_stdin(t->ctx))
        return 0;
    t->input = memfd_create("probing-stdin", MFD_CLOEXEC);
    if (t->input < 0)
        return pb_err_set(&t->ctx->err, PB_FAIL, "memfd: %s", strerror(errno));
    while ((n = read(STDIN_FILENO, piece, sizeof piece)) > 0 || (n < 0 && errno == EINTR))
        for (ssize_t at = 0, put; at < n; at += put)
            if ((put = write(t->input, piece + at, (size_t)(n - at))) <= 0)
                return pb_err_set(&t->ctx->err, PB_FAIL, "memfd: %s", strerror(errno));
    return n < 0 ? pb_err_set(&t->ctx->err, PB_FAIL, "stdin: %s", strerror(errno)) : 0;
}

/* In the child: its own offset into what came by stdin. */
static void open_stdin(const struct together *t)
{
    char path[40];
    int fd;

    snprintf(path, sizeof path, "/proc/self/fd/%d", t->input);
    fd = open(t->input >= 0 ? path : "/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        dup2(fd, STDIN_FILENO);
}

static _Noreturn void run_child(struct together *t, const struct worker *w, size_t i, pid_t parent)
{
    struct pb_ctx *ctx = t->ctx;
    int rc;

    prctl(PR_SET_PDEATHSIG, SIGINT);
    if (getppid() != parent)
        _exit(PB_FAIL);
    dup2(w->out, STDOUT_FILENO);
    dup2(w->err, STDERR_FILENO);
    open_stdin(t);
    ctx->partial = false;
    rc = pb_job_run_alone(ctx, &ctx->job[i], t->json);
    if (pb_print_flush(&ctx->out, &ctx->err) < 0)
        rc = -1;
    _exit(rc < 0 ? (ctx->err.code ? (int)ctx->err.code : PB_FAIL) : ctx->partial ? PARTIAL : 0);
}

static int start(struct together *t, size_t i)
{
    struct worker *w = &t->v[i];
    pid_t parent = getpid();

    *w = (struct worker){.out = memfd_create("probing-out", MFD_CLOEXEC),
                         .err = memfd_create("probing-err", MFD_CLOEXEC)};
    w->pid = w->out < 0 || w->err < 0 ? -1 : fork();
    if (w->pid == 0)
        run_child(t, w, i, parent);
    return w->pid < 0 ? pb_err_set(&t->ctx->err, PB_FAIL, "%s", strerror(errno)) : 0;
}

/* What it printed, behind `before`, which takes the place of its first `skip` bytes. */
static bool copy(int from, int to, const char *before, off_t skip)
{
    char piece[65536];
    ssize_t n;
    off_t at = skip;

    while ((n = pread(from, piece, sizeof piece, at)) > 0) {
        if (at == skip && *before && write(to, before, strlen(before)) < 0)
            return false;
        for (ssize_t done = 0, put; done < n; done += put)
            if ((put = write(to, piece + done, (size_t)(n - done))) <= 0)
                return false;
        at += n;
    }
    return at > skip;
}

/* An object says of itself which rank it is of. */
static bool copy_out(struct together *t, const struct worker *w, const struct pb_ctx_process *p)
{
    const char *between = t->first ? "" : t->json ? "," : "\n";
    char begin[3] = "";
    struct pb_buf b = PB_BUF_INIT;
    bool some, object = t->json && pread(w->out, begin, 2, 0) == 2 && strcmp(begin, "{\"") == 0;

    pb_buf_puts(&b, between);
    if (object) {
        pb_buf_putc(&b, '{');
        pb_json_key(&b, "rank");
        pb_json_int(&b, p->rank);
        pb_json_key(&b, "host");
        pb_json_string(&b, p->host ? p->host : "");
        pb_buf_putc(&b, ',');
    }
    some = copy(w->out, STDOUT_FILENO, b.data ? b.data : "", object);
    pb_buf_finish(&b);
    return some;
}

static void finish_worker(struct together *t, struct worker *w, const struct pb_ctx_process *p)
{
    int status = 0;

    while (waitpid(w->pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (copy_out(t, w, p))
        t->first = false;
    copy(w->err, STDERR_FILENO, "", 0);
    close(w->out);
    close(w->err);
    if (WIFEXITED(status) && WEXITSTATUS(status) == PARTIAL) {
        t->ctx->partial = true;
    } else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        t->failed++;
        if (t->code == PB_OK)
            t->code = WIFEXITED(status) ? (enum pb_code)WEXITSTATUS(status) : PB_FAIL;
    }
}

int pb_together_run(struct pb_ctx *ctx)
{
    struct together t = {.ctx = ctx, .input = -1, .first = true, .json = pb_job_wants_json(ctx)};
    size_t started = 0;
    int rc;

    if (pb_opt_flag(ctx, "watch"))
        return pb_err_set(&ctx->err, PB_USAGE, "--watch is for one process");
    rc = keep_stdin(&t);
    t.v = PB_NEW_N(&ctx->arena, struct worker, ctx->njob + 1);
    if (rc == 0 && t.json)
        pb_buf_puts(&ctx->out.buf, "[");
    if (rc == 0)
        rc = pb_print_flush(&ctx->out, &ctx->err);
    for (size_t i = 0; rc == 0 && i < ctx->njob; i++) {
        while (rc == 0 && started < ctx->njob && started - i < AT_ONCE)
            rc = start(&t, started++);
        if (t.v[i].pid > 0)
            finish_worker(&t, &t.v[i], &ctx->job[i]);
    }
    if (t.input >= 0)
        close(t.input);
    if (rc < 0)
        return -1;
    pb_buf_puts(&ctx->out.buf, t.json ? "]\n" : "");
    return t.failed ? pb_job_failed(ctx, ctx->target, t.code, t.failed) : 0;
}
