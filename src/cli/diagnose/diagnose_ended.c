/*
 * A target of which nothing lives: how it ended is all that can be said.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/target/dead.h"
#include "cli/diagnose/diagnose.h"

/* Asked to end, it did; the others are a crash or a kill. */
bool pb_is_bad_end(const char *how)
{
    return how && strncmp(how, "SIG", 3) == 0 && strcmp(how, "SIGTERM") != 0 &&
           strcmp(how, "SIGINT") != 0 && strcmp(how, "SIGHUP") != 0;
}

/* Of the processes that the scope names, the first that ended badly, else any. */
static const struct pb_ended *find_ended(struct pb_ctx *ctx)
{
    const struct pb_ended *best = NULL;
    const char *at = ctx->scope;

    while (*at) {
        size_t len = strcspn(at, ",");
        char *id = pb_arena_strndup(&ctx->arena, at, len);
        const struct pb_ended *d;

        id[strcspn(id, "?")] = '\0';
        d = pb_dead_find(ctx, id);
        if (d && (!best || (pb_is_bad_end(d->how) && (!pb_is_bad_end(best->how) ||
                                                   d->ended_ns < best->ended_ns))))
            best = d;
        at += len + (at[len] == ',');
    }
    return best;
}

static const char *time_text(struct pb_arena *a, int64_t ns)
{
    time_t seconds = (time_t)(ns / 1000000000);
    struct tm tm;
    char text[40];

    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &tm));
    return pb_arena_strdup(a, text);
}

/* The kernel's log says whom it killed, where it may be read: "6,812,90183,-;Out of memory: …". */
static const char *kernel_says(struct pb_ctx *ctx, long pid, double ago_s)
{
    int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    const char *said = NULL;
    char text[4096], wanted[48];
    struct timespec up;
    ssize_t n;

    snprintf(wanted, sizeof wanted, "Killed process %ld (", pid);
    clock_gettime(CLOCK_MONOTONIC, &up);
    /* A record that was overwritten meanwhile is an error of its own, and reading goes on. */
    while (fd >= 0 && ((n = read(fd, text, sizeof text - 1)) > 0 || (n < 0 && errno == EPIPE))) {
        unsigned long long us = 0;
        const char *line;

        text[n > 0 ? n : 0] = '\0';
        text[strcspn(text, "\n")] = '\0';
        line = strchr(text, ';');
        if (line && strstr(line, wanted) && sscanf(text, "%*u,%*u,%llu", &us) == 1 &&
            fabs((double)up.tv_sec - (double)us / 1e6 - ago_s) < 10)
            said = pb_arena_printf(&ctx->arena, "the kernel's log: %.200s", line + 1);
    }
    if (fd >= 0)
        close(fd);
    return said;
}

/* Else its control group counted one more at that moment. */
static const char *group_says(struct pb_ctx *ctx, struct pb_nodelink *link, long pid, double ago_s)
{
    const struct pb_json **rows;
    const char *scope = ctx->scope, *said = NULL;
    size_t n = 0;

    ctx->scope = NULL;
    if (pb_nodelink_rows(ctx, link,
                         pb_arena_printf(&ctx->arena,
                             "SELECT format('its control group {} counted {} killed for lack of "
                             "memory then, with {:.0f} MB of {:.0f} used', cgroup, n, used, max) "
                             "FROM (SELECT timestamp, cgroup, oom_kills - lag(oom_kills) OVER w "
                             "AS n, max(memory_mb) OVER w AS used, memory_max_mb AS max "
                             "FROM system.cgroup WHERE pid = %ld "
                             "WINDOW w AS (ORDER BY timestamp)) "
                             "WHERE n > 0 AND abs(epoch(now() - timestamp) - %f) < 5",
                             pid, ago_s), &rows, &n) == 0 && n && rows[0]->n == 1 &&
        rows[0]->items[0].type == PB_J_STRING)
        said = rows[0]->items[0].s;
    ctx->err = (struct pb_err){0};
    ctx->scope = scope;
    return said;
}

/* Of a SIGKILL: the OOM killer's, where something says so, else it is not known whose. */
static void find_killer(struct pb_ctx *ctx, struct pb_nodelink *link, struct pb_verdict *v)
{
    const char *kernel = kernel_says(ctx, v->pid, v->since_s);
    const char *group = kernel ? NULL : group_says(ctx, link, v->pid, v->since_s);

    if (!kernel && !group)
        return;
    v->class = "out of memory";
    v->confidence = kernel ? "established" : "supported";
    v->why = kernel ? kernel : group;
    v->what = pb_arena_printf(&ctx->arena, "%s: killed for lack of memory", v->what);
    v->next = "a higher limit of memory, or less of it: smaller batches, fewer workers";
}

void pb_verdict_of_end(struct pb_ctx *ctx, struct pb_nodelink *link, const struct pb_ended *d,
                       struct pb_verdict *ret)
{
    struct pb_arena *a = &ctx->arena;
    struct timespec now;
    long pid = strtol(d->id, NULL, 10);
    double ago;

    clock_gettime(CLOCK_REALTIME, &now);
    ago = (double)now.tv_sec - (double)d->ended_ns / 1e9;
    *ret = (struct pb_verdict){
        .kind = "crash", .class = d->how, .confidence = "established", .host = d->host,
        .pid = pid, .ranks = d->rank < 0 ? "" : pb_arena_printf(a, "%ld", (long)d->rank),
        .since = time_text(a, d->ended_ns),
        .since_s = ago > 0 ? ago : 0,
        .what = d->rank < 0 ? pb_arena_printf(a, "pid %ld was ended by %s", pid, d->how)
                            : pb_arena_printf(a, "rank %ld (pid %ld) was ended by %s",
                                              (long)d->rank, pid, d->how),
        .why = "that is its exit status; it left no report of a crash",
        .next = strcmp(d->how, "SIGKILL") == 0
                    ? "who sent it is not known: see dmesg, oom_kill of its cgroup, the scheduler"
                    : "arm the next run: PROBING=1 PROBING_CRASH=1",
    };
    if (strcmp(d->how, "SIGKILL") == 0)
        find_killer(ctx, link, ret);
}

int pb_diagnose_ended(struct pb_ctx *ctx, struct pb_nodelink *link, const char *kinds,
                      struct pb_verdict *ret, size_t *ret_n)
{
    const struct pb_ended *d;
    const struct pb_json **rows;
    size_t n = 0;

    *ret_n = 0;
    if (!ctx->scope || ctx->remote)
        return 0;
    if (pb_nodelink_rows(ctx, link, "SELECT 1 FROM system.process LIMIT 1", &rows, &n) < 0)
        return -1;
    if (n)
        return 0;
    d = find_ended(ctx);
    if (!d || !pb_is_bad_end(d->how) || (kinds && !strstr(kinds, "crash")))
        return pb_err_set(&ctx->err, PB_NO_TARGET, "%s: no such process%s%s", ctx->target,
                          d ? "; it has ended" : "",
                          d && d->how ? pb_arena_printf(&ctx->arena, ": %s", d->how) : "");
    pb_verdict_of_end(ctx, link, d, ret);
    *ret_n = 1;
    return 0;
}
