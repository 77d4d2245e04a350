/*
 * The processes that a watch was asked about: whether they still live, and how they ended.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/diagnose/diagnose.h"
#include "host/process/exits.h"

/* The scope is "1234", "1234-567" or several of them with commas between. */
void pb_watched_open(struct pb_watched *w, const struct pb_ctx *ctx)
{
    *w = (struct pb_watched){.n = 0};
    if (!ctx->scope || ctx->remote)
        return;
    for (const char *at = ctx->scope; *at && w->n < PB_WATCHED_MAX;) {
        pid_t pid = (pid_t)strtol(at, NULL, 10);
        int fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;

        if (fd >= 0) {
            w->v[w->n].pid = pid;
            w->v[w->n++].pidfd = fd;
        }
        at += strcspn(at, ",");
        at += *at == ',';
    }
    w->any = w->n > 0;
}

/* Takes out one that has ended; how: NULL where that is not known. */
static bool next_end(struct pb_watched *w, struct pb_arena *a, pid_t *ret, const char **how)
{
    for (size_t i = 0; i < w->n; i++) {
        struct pollfd p = {.fd = w->v[i].pidfd, .events = POLLIN};

        if (poll(&p, 1, 0) != 1)
            continue;
        *ret = w->v[i].pid;
        *how = pb_exit_text(pb_exit_code(p.fd), a);
        close(p.fd);
        w->v[i] = w->v[--w->n];
        return true;
    }
    return false;
}

/* Has what is said of a process its crash in it? */
static bool tells_crash(const struct pb_verdict *v, size_t n, pid_t pid)
{
    for (size_t i = 0; i < n; i++)
        if (v[i].pid == pid && strcmp(v[i].kind, "crash") == 0)
            return true;
    return false;
}

/* Of those that have ended: how, unless a report of the crash says more. */
int pb_watched_say_ends(struct pb_ctx *ctx, struct pb_nodelink *link, const char *kinds,
                        struct pb_watched *watched, const struct pb_verdict *v, size_t n)
{
    const char *how;
    pid_t pid;

    while (next_end(watched, &ctx->arena, &pid, &how)) {
        struct pb_ended end = {.id = pb_arena_printf(&ctx->arena, "%d", (int)pid), .rank = -1,
                               .ended_ns = pb_clock_wall_ns(), .how = how};
        struct pb_verdict said;

        if (tells_crash(v, n, pid))
            continue;
        if (!pb_is_bad_end(how) || (kinds && !strstr(kinds, "crash"))) {
            pb_ctx_notice(ctx, pb_arena_printf(&ctx->arena, "process %d has ended%s%s", (int)pid,
                                               how ? ": " : "", how ? how : ""));
            continue;
        }
        pb_verdict_of_end(ctx, link, &end, &said);
        if (pb_verdicts_show(ctx, link, &said, 1) < 0)
            return -1;
        ctx->exit_code = PB_EXIT_VERDICT;
    }
    return pb_print_flush(&ctx->out, &ctx->err);
}

void pb_watched_close(struct pb_watched *w)
{
    for (size_t i = 0; i < w->n; i++)
        close(w->v[i].pidfd);
    w->n = 0;
}
