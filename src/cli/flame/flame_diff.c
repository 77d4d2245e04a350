/*
 * What `flamegraph --diff A B` compares: windows, processes, a rank with the others, files.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/flame/flame.h"
#include "cli/times.h"
#include "host/text/alloc.h"
#include "recording/compare.h"
#include "recording/import.h"

#define FILE_MAX (256ll << 20)
#define DIGITS "0123456789"

enum kind { WINDOW, PROCESS, RANK, MEDIAN, FILE_PATH };

/* One side: "4242", "4242@20m..10m", "rank:3", "median", "20m..10m", "before.json". */
struct side {
    const char *text; /* as written */
    enum kind kind;
    const char *who;    /* a process, or the number of a rank */
    const char *window; /* or NULL */
};

static bool is_window(const char *text)
{
    return strstr(text, "..") || pb_times_length(text) > 0;
}

static int read_side(struct pb_flame *f, const char *text, struct side *ret)
{
    const char *at = strchr(text, '@');
    struct pb_arena *a = &f->ctx->arena;
    struct stat st;

    *ret = (struct side){.text = text, .kind = WINDOW};
    if (stat(text, &st) == 0 && S_ISREG(st.st_mode)) {
        ret->kind = FILE_PATH;
        return 0;
    }
    ret->window = at ? at + 1 : NULL;
    ret->who = at ? pb_arena_strndup(a, text, (size_t)(at - text)) : text;
    if (ret->window && !is_window(ret->window))
        return pb_err_set(&f->ctx->err, PB_USAGE, "--diff: '%s' is no window of time", ret->window);
    if (strcmp(ret->who, "median") == 0) {
        ret->kind = MEDIAN;
    } else if (strncmp(ret->who, "rank:", 5) == 0 && ret->who[5] &&
               strspn(ret->who + 5, DIGITS) == strlen(ret->who + 5)) {
        ret->kind = RANK;
        ret->who += 5;
    } else if (ret->who[0] && strspn(ret->who, DIGITS "-") == strlen(ret->who) &&
               ret->who[0] != '-') {
        ret->kind = PROCESS;
    } else if (!at && is_window(text)) {
        ret->window = text;
    } else {
        return pb_err_set(&f->ctx->err, PB_USAGE,
                          "--diff: '%s' is neither a file, a process (4242), a rank (rank:3), "
                          "median, nor a window of time (20m..10m)", text);
    }
    return 0;
}

static int load_file(struct pb_ctx *ctx, const char *path, struct pb_recording *ret)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC), rc = -1;
    struct stat st;
    char *text = NULL;
    size_t len = 0;
    ssize_t n = 0;

    if (fd < 0 || fstat(fd, &st) < 0) {
        pb_err_set(&ctx->err, PB_FAIL, "%s: %s", path, strerror(errno));
        goto close_file;
    }
    if (st.st_size > FILE_MAX) {
        pb_err_set(&ctx->err, PB_FAIL, "%s: too large", path);
        goto close_file;
    }
    text = pb_alloc_resize(NULL, (size_t)st.st_size + 1);
    while (len < (size_t)st.st_size && (n = read(fd, text + len, (size_t)st.st_size - len)) > 0)
        len += (size_t)n;
    text[len] = '\0';
    rc = pb_import(text, len, ret, &ctx->err);
    if (rc < 0)
        pb_err_prefix(&ctx->err, "%s", path);
close_file:
    free(text);
    if (fd >= 0)
        close(fd);
    return rc;
}

/* Of this process, or rank, or what the target covers. */
static int load_history(struct pb_flame *f, const struct side *s, struct pb_recording *ret)
{
    struct pb_ctx *ctx = f->ctx;
    const char *scope = ctx->scope, *target = ctx->target, *where = "";
    int rc;

    if (s->kind == PROCESS && pb_nodelink_cluster(ctx))
        return pb_err_set(&ctx->err, PB_USAGE, "--diff: of a cluster a rank (rank:3), no process");
    if (s->kind == PROCESS)
        ctx->scope = ctx->target = s->who;
    if (s->kind == RANK)
        where = pb_arena_printf(&ctx->arena, "rank = %s", s->who);
    rc = pb_flame_history(f, s->window, where, false, ret);
    ctx->scope = scope;
    ctx->target = target;
    return rc;
}

static int load(struct pb_flame *f, const struct side *s, struct pb_recording *ret)
{
    return s->kind == FILE_PATH ? load_file(f->ctx, s->text, ret) : load_history(f, s, ret);
}

/* Two living processes at the same time. */
static int record_both(struct pb_flame *f, const struct side *a, const struct side *b,
                       struct pb_recording *ret)
{
    pid_t pids[2] = {(pid_t)strtol(a->who, NULL, 10), (pid_t)strtol(b->who, NULL, 10)};
    struct pb_arena arena = PB_ARENA_INIT;
    struct pb_recording both, before;
    uint32_t *roots;
    int rc = 0;

    if (pids[0] == pids[1])
        return pb_err_set(&f->ctx->err, PB_USAGE, "--diff: the same process twice");
    if (pb_flame_record(f, pids, 2, &both) < 0)
        return -1;
    if (pb_compare_roots(&both, &arena, &roots) == 2) {
        pb_compare_split(&both, roots[0], &before);
        pb_compare_split(&both, roots[1], ret);
        ret->cpu_ns = both.cpu_ns;
        ret->processes = 2;
        pb_compare(ret, &before, a->text);
        pb_recording_finish(&before);
    } else {
        rc = pb_err_set(&f->ctx->err, PB_NO_TARGET, "--diff: one of %s and %s could not be "
                                                    "sampled", a->text, b->text);
    }
    pb_recording_finish(&both);
    pb_arena_finish(&arena);
    return rc;
}

/* The others of the job in the same window, each by itself. */
static int compare_others(struct pb_flame *f, const struct side *s, struct pb_recording *r)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_recording all, *others;
    const char *where = s->kind == RANK ? pb_arena_printf(&a, "rank <> %s", s->who)
                                        : pb_arena_printf(&a, "rank IS NOT NULL AND pid <> %ld",
                                                          strtol(s->who, NULL, 10));
    uint32_t *roots;
    size_t n;

    if (pb_flame_history(f, s->window, where, true, &all) < 0) {
        pb_arena_finish(&a);
        return pb_err_prefix(&f->ctx->err, "--diff: the other ranks");
    }
    n = pb_compare_roots(&all, &a, &roots);
    others = PB_NEW_N(&a, struct pb_recording, n + 1);
    for (size_t i = 0; i < n; i++)
        pb_compare_split(&all, roots[i], &others[i]);
    pb_compare_median(r, others, n, pb_arena_printf(&a, "the median of %zu others", n));
    for (size_t i = 0; i < n; i++)
        pb_recording_finish(&others[i]);
    pb_recording_finish(&all);
    pb_arena_finish(&a);
    return 0;
}

int pb_flame_diff(struct pb_flame *f, const char *first, const char *second,
                  struct pb_recording *ret)
{
    struct pb_recording before;
    struct side a, b;

    if (read_side(f, first, &a) < 0 || read_side(f, second, &b) < 0)
        return -1;
    if (b.kind == MEDIAN) { /* it is what something is compared with, wherever it stands */
        struct side other = a;

        a = b;
        b = other;
    }
    if (a.kind == MEDIAN) {
        if (b.kind != RANK && b.kind != PROCESS)
            return pb_err_set(&f->ctx->err, PB_USAGE, "--diff: median goes with a rank (rank:3) or "
                                                      "a process");
        if (load(f, &b, ret) < 0)
            return -1;
        if (compare_others(f, &b, ret) == 0)
            return 0;
        pb_recording_finish(ret);
        return -1;
    }
    if (a.kind == PROCESS && b.kind == PROCESS && !a.window && !b.window &&
        !pb_flame_wants_history(f) && !pb_nodelink_cluster(f->ctx))
        return record_both(f, &a, &b, ret);
    if (load(f, &a, &before) < 0)
        return -1;
    if (load(f, &b, ret) < 0) {
        pb_recording_finish(&before);
        return -1;
    }
    pb_compare(ret, &before, a.text);
    pb_recording_finish(&before);
    return 0;
}
