#include "cli/client/link.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/client/environment.h"
#include "cli/client/nodelink.h"
#include "host/process/proc.h"
#include "inject/inject.h"
#include "display/stack.h"
#include "stack/snapshot.h"

#define OPEN_TIMEOUT_MS 5000
#define APPLY_TIMEOUT_MS 5000
/* What the agent may take beyond the time that the code has: interrupting it, and answering. */
#define SLACK_MS 6000
#define EXIT_INTERRUPTED 130
#define FRAME_MAX 100000

/* All that a signal handler can get at. */
static struct pb_agent *volatile interruptible;
static volatile sig_atomic_t stay;

static void on_interrupt(int signo)
{
    struct pb_agent *a = interruptible;

    (void)signo;
    if (a && !a->interrupt)
        pb_agent_interrupt(a);
    else if (!stay)
        _exit(EXIT_INTERRUPTED);
}

static void injected(const struct pb_ctx *ctx)
{
    char text[64];

    snprintf(text, sizeof text, "probing: injected into process %d", (int)ctx->pid);
    pb_ctx_notice(ctx, text);
}

const char *pb_link_who(struct pb_ctx *ctx)
{
    return ctx->remote ? ctx->target : pb_arena_printf(&ctx->arena, "%d", (int)ctx->pid);
}

static int open_remote(struct pb_ctx *ctx, struct pb_agent *a, bool inject, struct pb_err *err)
{
    int fd = pb_nodelink_agent(ctx, inject, err);

    if (fd < 0)
        return -1;
    if (pb_agent_adopt(a, fd, OPEN_TIMEOUT_MS, err) < 0)
        return pb_err_prefix(err, "%s", ctx->target);
    return 0;
}

int pb_link_find(struct pb_ctx *ctx, struct pb_agent *a, struct pb_err *err)
{
    *a = (struct pb_agent){.fd = -1};
    return ctx->remote ? open_remote(ctx, a, false, err)
                       : pb_agent_open(a, ctx->pid, OPEN_TIMEOUT_MS, err);
}

int pb_link_open(struct pb_ctx *ctx, struct pb_agent *a)
{
    struct pb_inject_report report;
    struct pb_err err = {0};
    const char *lines;

    *a = (struct pb_agent){.fd = -1};
    if (ctx->remote)
        return open_remote(ctx, a, true, &ctx->err);
    if (pb_link_find(ctx, a, &err) == 0)
        return 0;
    if (err.code != PB_NO_TARGET) {
        ctx->err = err;
        return -1;
    }
    if (pb_environment_lines(ctx, &lines) < 0 ||
        pb_proc_check_access(ctx->pid, ctx->command_line, &ctx->err) < 0 ||
        pb_inject_agent(ctx->pid, lines, 0, false, &report, &ctx->err) < 0)
        return -1;
    injected(ctx);
    return pb_agent_open(a, ctx->pid, OPEN_TIMEOUT_MS, &ctx->err);
}

int pb_link_of_node(struct pb_ctx *ctx, const char *line, size_t len)
{
    ctx->note = ""; /* the line says it all: no usage */
    return pb_err_set(&ctx->err, PB_USAGE, "%.*s is a setting of the node, not of a process: "
                                           "probing config %.*s",
                      (int)strcspn(line, "="), line, (int)len, line);
}

static int send_lines(struct pb_ctx *ctx, struct pb_agent *agent, const char *lines)
{
    enum pb_wire_result result = PB_WIRE_OK;
    const char *why = NULL;
    int rc = 0;

    if (*lines)
        rc = pb_agent_ask(agent, PB_WIRE_CONFIG, NULL, 0, lines, strlen(lines), APPLY_TIMEOUT_MS,
                          NULL, NULL, &ctx->arena, &result, &why, &ctx->err);
    if (rc == 0 && result != PB_WIRE_OK)
        rc = pb_err_set(&ctx->err, PB_FAIL, "%s: %s", pb_link_who(ctx),
                        why && *why ? why : "the agent refused the settings");
    return rc;
}

int pb_link_apply(struct pb_ctx *ctx, const char *lines)
{
    struct pb_agent agent;
    int rc;

    if (!*lines)
        return 0;
    if (pb_agent_open(&agent, ctx->pid, APPLY_TIMEOUT_MS, &ctx->err) < 0)
        return -1;
    rc = send_lines(ctx, &agent, lines);
    pb_agent_close(&agent);
    return rc;
}

int pb_link_load_remote(struct pb_ctx *ctx, const char *lines, bool *ret_there)
{
    struct pb_agent agent;
    struct pb_err err = {0};
    int rc;

    *ret_there = pb_link_find(ctx, &agent, &err) == 0;
    if (!*ret_there && err.code != PB_NO_TARGET) {
        ctx->err = err;
        return -1;
    }
    if (!*ret_there && pb_link_open(ctx, &agent) < 0)
        return -1;
    rc = send_lines(ctx, &agent, lines);
    pb_agent_close(&agent);
    return rc;
}

struct sink {
    struct pb_agent *agent;
    bool broken;
    bool escapes[2]; /* stdout, stderr: is a terminal, and what comes is not our own user's */
    struct pb_text_tail tails[2];
};

/* Does the process belong to another user? Of one on another machine nothing is known. */
static bool is_foreign(const struct pb_ctx *ctx)
{
    struct pb_proc_status status;

    return ctx->remote || pb_proc_status(&status, ctx->pid, NULL) < 0 ||
           status.uid != geteuid() || status.euid != geteuid();
}

static void write_all(struct sink *s, int fd, const char *p, size_t len)
{
    while (len && !s->broken) {
        ssize_t n = write(fd, p, len);

        if (n > 0) {
            p += n;
            len -= (size_t)n;
        } else if (n < 0 && errno != EINTR && errno != EAGAIN) {
            s->broken = true;
            pb_agent_interrupt(s->agent);
        }
    }
}

/*
 * As it came: what code prints is the user's own. Another user's process may not drive our
 * terminal: there control characters are shown, not sent.
 */
static void write_through(int fd, const void *data, size_t len, void *arg)
{
    struct sink *s = arg;
    struct pb_buf clean = PB_BUF_INIT;

    if (s->escapes[fd == 2]) {
        pb_text_stream(&s->tails[fd == 2], data, len, &clean);
        write_all(s, fd, clean.data, clean.len);
    } else {
        write_all(s, fd, data, len);
    }
    pb_buf_finish(&clean);
}

static int timeout_of(const struct pb_link_eval *e, const struct pb_agent *a)
{
    return e->timeout_ms ? e->timeout_ms : pb_agent_eval_ms(a);
}

/* A number, or else a name. */
static int read_frame(struct pb_ctx *ctx, struct pb_link_eval *e)
{
    const char *frame = pb_opt_str(ctx, "frame", NULL);

    if (!frame)
        return 0;
    e->flags |= PB_WIRE_FRAME;
    if (frame[0] && !frame[strspn(frame, "0123456789")]) {
        long n = strtol(frame, NULL, 10);

        if (n > FRAME_MAX)
            return pb_err_set(&ctx->err, PB_USAGE, "--frame is 0 to %d, or a name", FRAME_MAX);
        e->frame = (int)n;
        return 0;
    }
    if (!frame[0] || frame[0] == '-' || strlen(frame) > PB_WIRE_FRAME_NAME_MAX)
        return pb_err_set(&ctx->err, PB_USAGE, "--frame is 0 to %d, or a name", FRAME_MAX);
    e->flags |= PB_WIRE_NAMED;
    e->frame_name = frame;
    return 0;
}

int pb_link_options(struct pb_ctx *ctx, struct pb_link_eval *e)
{
    pid_t tid = (pid_t)pb_opt_int(ctx, "tid", 0);
    struct pb_proc_status status;

    *e = (struct pb_link_eval){.timeout_ms = (int)(pb_opt_num(ctx, "timeout", 0) * 1000)};
    if (read_frame(ctx, e) < 0)
        return -1;
    if (tid)
        e->flags |= PB_WIRE_FRAME;
    if (pb_opt_flag(ctx, "main") && e->flags)
        return pb_err_set(&ctx->err, PB_USAGE, "--main and --frame exclude each other");
    if (pb_opt_flag(ctx, "main"))
        e->flags |= PB_WIRE_MAIN;
    e->tid = tid;
    if (!tid || ctx->remote)
        return 0;
    /* The target knows its threads by the numbers of its own namespace. */
    if (pb_proc_status(&status, tid, NULL) < 0 || status.tgid != ctx->pid)
        return pb_err_set(&ctx->err, PB_NO_TARGET, "%d: no thread %d", (int)ctx->pid, (int)tid);
    e->tid = status.ns_pid;
    return 0;
}

int pb_link_eval(struct pb_ctx *ctx, struct pb_agent *a, const struct pb_link_eval *e,
                 enum pb_wire_result *ret_result, const char **ret_why)
{
    struct {
        struct pb_wire_eval how;
        char name[PB_WIRE_FRAME_NAME_MAX + 1];
    } head = {.how = {.flags = e->flags, .timeout_ms = (uint32_t)e->timeout_ms,
                      .frame = e->frame, .tid = e->tid}};
    size_t head_len = sizeof head.how;
    struct sigaction act = {.sa_handler = on_interrupt}, old;
    bool foreign = is_foreign(ctx);
    struct sink sink = {.agent = a, .escapes = {foreign && isatty(STDOUT_FILENO),
                                                foreign && isatty(STDERR_FILENO)}};
    int rc;

    if (e->frame_name)
        head_len += (size_t)snprintf(head.name, sizeof head.name, "%s", e->frame_name) + 1;
    pb_print_flush(&ctx->out, NULL);
    interruptible = a;
    stay = e->stay;
    sigaction(SIGINT, NULL, &old);
    if (old.sa_handler != SIG_IGN)
        sigaction(SIGINT, &act, NULL);
    rc = pb_agent_ask(a, PB_WIRE_EVAL, &head, head_len, e->code, e->len,
                      timeout_of(e, a) + SLACK_MS, e->sink ? e->sink : write_through,
                      e->sink ? e->arg : &sink, &ctx->arena, ret_result, ret_why, &ctx->err);
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO && !e->sink; fd++)
        write_through(fd, NULL, 0, &sink);
    sigaction(SIGINT, &old, NULL);
    interruptible = NULL;
    return rc < 0 ? pb_err_prefix(&ctx->err, "%s", pb_link_who(ctx)) : 0;
}

/* The frames of a thread as backtrace shows them, without the line on top. */
static const char *frames_text(struct pb_ctx *ctx, struct pb_snapshot *snap,
                               const struct pb_thread *thread)
{
    struct pb_snapshot one = *snap;
    struct pb_thread copy = *thread;
    struct pb_snapshot_opts o = {.native = true};
    struct pb_print text;
    const char *found;

    one.threads = &copy;
    one.nthreads = 1;
    one.ns_pid = one.pid;
    one.pause_us = 0;
    pb_print_init(&text, STDERR_FILENO);
    pb_stack_text(&text, &one, &o, ctx->verbose);
    found = text.buf.data ? strchr(text.buf.data, '\n') : NULL;
    found = pb_arena_printf(&ctx->arena, "%stry: probing %d backtrace -a -n\n",
                            found ? found + 1 : "", (int)ctx->pid);
    pb_print_finish(&text);
    return found;
}

/* Who is in the way: the holder of the GIL, or the main thread. */
static int explain_thread(struct pb_ctx *ctx, const char *what, double secs, bool main_thread)
{
    struct pb_snapshot_opts o = {.all = true, .native = true, .max_frames = 40};
    struct pb_snapshot snap;
    struct pb_target *t;
    const struct pb_thread *found = NULL;

    if (ctx->remote) {
        ctx->note = pb_arena_printf(&ctx->arena, "try: probing %s backtrace -a -n\n", ctx->target);
        return 0;
    }
    if (pb_target_open(&t, ctx->pid, ctx->command_line, &ctx->err) < 0)
        return -1;
    if (pb_target_snapshot(t, &o, &ctx->arena, &snap, &ctx->err) < 0) {
        pb_target_close(t);
        return -1;
    }
    for (size_t i = 0; i < snap.nthreads && !found; i++)
        if (main_thread ? snap.threads[i].is_main : snap.threads[i].holds_gil)
            found = &snap.threads[i];
    if (found) {
        ctx->note = frames_text(ctx, &snap, found);
        pb_err_set(&ctx->err, PB_TIMEOUT,
                   main_thread ? "%s: no safe point after %g s: main thread %d \"%s\" is busy"
                               : "%s: no GIL after %g s: held by thread %d \"%s\"",
                   what, secs, (int)found->tid, found->name ? found->name : "");
    }
    pb_target_close(t);
    return found ? -1 : 0;
}

int pb_link_explain(struct pb_ctx *ctx, const char *what, const struct pb_link_eval *e,
                    const struct pb_agent *a, enum pb_wire_result result, const char *why)
{
    double secs = timeout_of(e, a) / 1000.0;
    bool reason = why && *why;

    switch (result) {
    case PB_WIRE_OK:
    case PB_WIRE_MORE:
        return 0;
    case PB_WIRE_EXCEPTION:
        ctx->err.code = PB_FAIL; /* the traceback said it all */
        return -1;
    case PB_WIRE_NO_GIL:
        if (explain_thread(ctx, what, secs, e->flags & PB_WIRE_MAIN) < 0)
            return -1;
        return pb_err_set(&ctx->err, PB_TIMEOUT, "%s: no GIL after %g s%s%s", what, secs,
                          reason ? ": " : "", reason ? why : "");
    case PB_WIRE_EXPIRED:
        return pb_err_set(&ctx->err, PB_TIMEOUT, "%s: interrupted after %g s%s%s", what, secs,
                          reason ? ": " : "", reason ? why : "");
    case PB_WIRE_INTERRUPTED:
        if (reason)
            return pb_err_set(&ctx->err, PB_FAIL, "%s: interrupted: %s", what, why);
        ctx->err.code = PB_FAIL;
        return -1;
    default:
        return pb_err_set(&ctx->err, PB_FAIL, "%s: %s", what, reason ? why : "refused");
    }
}
