/* memory_heap.c - probing TARGET memory --heap: Python objects by type, once or again and again. */
#include "cli/memory/memory_heap.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/memory/heap_show.h"

static volatile sig_atomic_t interrupted;

static void note_signal(int sig)
{
    (void)sig;
    interrupted = 1;
}

static void wait_for(double secs)
{
    struct timespec left = pb_clock_timespec((uint64_t)(secs * 1e9));

    while (!interrupted && nanosleep(&left, &left) < 0)
        ;
}

static void show_progress(void *arg, double done)
{
    dprintf(STDERR_FILENO, "\r\033[Kreading %d's heap … %.0f %%", *(int *)arg, done * 100);
}

/* A line over each look but the only one. */
static void print_time(struct pb_ctx *ctx, bool first, double secs)
{
    char text[32];
    time_t now = time(NULL);
    struct tm tm;

    strftime(text, sizeof text, "%T", localtime_r(&now, &tm));
    if (ctx->out.is_terminal)
        pb_print_puts(&ctx->out, "\033[H\033[2J");
    else if (!first)
        pb_print_puts(&ctx->out, "\n");
    if (first)
        pb_print_f(&ctx->out, "%s  first look\n", text);
    else
        pb_print_f(&ctx->out, "%s  growth in %.3g s\n", text, secs);
}

static int look_once(struct pb_ctx *ctx, struct pb_target *t, const struct pb_heap_shown *o,
                     struct pb_arena *a, struct pb_heap *ret)
{
    int pid = (int)o->pid, rc;
    struct pb_heap_opts ho = {.containers = o->type ? 0 : PB_MEMORY_CONTAINERS, .type = o->type,
                              .arg = &pid};

    if (isatty(STDERR_FILENO))
        ho.progress = show_progress;
    rc = pb_heap_read(t, &ho, a, ret, &ctx->err);
    if (ho.progress)
        dprintf(STDERR_FILENO, "\r\033[K");
    if (rc == 0 && o->type && !ret->type_found)
        return pb_err_set(&ctx->err, PB_FAIL, "%d: no object of type '%s'", pid, o->type);
    return rc;
}

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Looks until it is told to stop; growth counts from the first look on. */
static int watch(struct pb_ctx *ctx, struct pb_target *t, const struct pb_heap_shown *o, bool json,
                 double every)
{
    struct sigaction act = {.sa_handler = note_signal};
    long count = pb_opt_int(ctx, "count", 0);
    double began = seconds();
    struct pb_heap first, now;
    int rc = 0;

    sigaction(SIGINT, &act, NULL);
    for (long i = 0; rc == 0 && !interrupted && !ctx->out.broken && (!count || i < count); i++) {
        struct pb_arena a = PB_ARENA_INIT;

        rc = look_once(ctx, t, o, i ? &a : &ctx->arena, i ? &now : &first);
        if (rc == 0 && json)
            pb_heap_json(&ctx->out.buf, o, i ? &now : &first, i ? &first : NULL, &a);
        if (rc == 0 && !json) {
            print_time(ctx, i == 0, seconds() - began);
            pb_heap_text(&ctx->out, o, i ? &now : &first, i ? &first : NULL, &a);
        }
        if (rc == 0)
            rc = pb_print_flush(&ctx->out, &ctx->err);
        pb_arena_finish(&a);
        if (rc == 0 && (!count || i + 1 < count))
            wait_for(every);
    }
    return rc;
}

int pb_memory_heap(struct pb_ctx *ctx, pid_t pid, const char *command)
{
    bool json = pb_opt_flag(ctx, "json") || strcmp(pb_opt_str(ctx, "format", "text"), "json") == 0;
    double every = pb_opt_num(ctx, "watch", 0);
    struct pb_heap_shown o = {.pid = pid, .command = command, .type = pb_opt_str(ctx, "type", NULL),
                              .types = (size_t)pb_opt_int(ctx, "limit", PB_MEMORY_TYPES_SHOWN)};
    struct pb_target_view view;
    struct pb_target *t;
    struct pb_heap h;
    int rc;

    if (!pid)
        return pb_err_set(&ctx->err, PB_USAGE,
                          "--heap reads a living process of this machine; on another one ask its "
                          "node: SELECT * FROM python.heap");
    if (pb_target_open(&t, pid, ctx->command_line, &ctx->err) < 0)
        return -1;
    rc = pb_target_view(t, &ctx->arena, &view, &ctx->err);
    o.version = rc == 0 ? view.loc->version : "";
    if (rc == 0 && every > 0)
        rc = watch(ctx, t, &o, json, every);
    else if (rc == 0 && (rc = look_once(ctx, t, &o, &ctx->arena, &h)) == 0)
        json ? pb_heap_json(&ctx->out.buf, &o, &h, NULL, &ctx->arena)
             : pb_heap_text(&ctx->out, &o, &h, NULL, &ctx->arena);
    pb_target_close(t);
    return rc;
}
