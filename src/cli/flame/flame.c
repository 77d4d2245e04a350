#include "cli/flame/flame.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/times.h"
#include "host/process/proc.h"
#include "host/text/secret.h"
#include "stack/source.h"

#define PROGRESS_NS 500000000u
#define LAST_DEFAULT "10min"
/* Frames whose source is read: so many at most, and of this part of the time at least (1 in). */
#define SOURCES_MAX 400
#define SOURCE_SHARE 500

/* All that a signal handler can get at. */
static _Atomic bool ended;

static void on_interrupt(int signo)
{
    (void)signo;
    atomic_store(&ended, true);
}

void pb_flame_finish(struct pb_flame *f)
{
    if (f->linked)
        pb_nodelink_close(&f->link);
    f->linked = false;
}

bool pb_flame_wants_history(const struct pb_flame *f)
{
    return f->from || f->to || f->last;
}

/* On one line of the terminal: a second one would stay. */
static void put_progress(const struct pb_flame *f, const struct pb_recording *r,
                         struct pb_print *e)
{
    struct pb_arena a = PB_ARENA_INIT;
    const char *text = pb_arena_printf(&a, "recording %d at %g Hz, %.0f of %g s, %llu samples "
                                           "(Ctrl-C ends it) ", (int)r->pid, r->rate,
                                       (double)r->length_ns / 1e9, f->secs,
                                       (unsigned long long)r->samples);

    pb_print_puts(e, "\r");
    pb_print_puts(e, e->width > 1 ? pb_text_end(&a, text, (size_t)e->width - 1) : text);
    pb_arena_finish(&a);
}

static void show_progress(const struct pb_flame *f, const struct pb_recording *r, bool last)
{
    struct pb_print e;

    if (!isatty(STDERR_FILENO))
        return;
    pb_print_init(&e, STDERR_FILENO);
    if (last)
        pb_print_puts(&e, "\r\x1b[K");
    else
        put_progress(f, r, &e);
    pb_print_flush(&e, NULL);
    pb_print_finish(&e);
}

static void sample(const struct pb_flame *f, struct pb_sampler *s)
{
    uint64_t start = pb_clock_ns(), end = start + (uint64_t)(f->secs * 1e9), shown = start;

    while (!atomic_load(&ended) && pb_sampler_tick(s)) {
        uint64_t now = pb_clock_ns();

        if (now >= end || pb_sampler_recording(s)->full)
            break;
        if (now - shown >= PROGRESS_NS) {
            show_progress(f, pb_sampler_recording(s), false);
            shown = now;
        }
        pb_sampler_sleep(s);
    }
    show_progress(f, pb_sampler_recording(s), true);
}

int pb_flame_record(struct pb_flame *f, const pid_t *pids, size_t n, struct pb_recording *ret)
{
    struct sigaction act = {.sa_handler = on_interrupt}, old;
    struct pb_ctx *ctx = f->ctx;
    struct pb_sampler_opts o = f->sampler;
    struct pb_sampler *s;
    size_t opened = 0;

    o.by_process = o.by_process || n > 1;
    s = pb_sampler_create(&o);
    for (size_t i = 0; i < n; i++) {
        memset(&ctx->err, 0, sizeof ctx->err);
        if (pb_sampler_add(s, pids[i], ctx->command_line, &ctx->err) == 0)
            opened++;
        else if (n > 1)
            pb_ctx_notice(ctx, pb_arena_printf(&ctx->arena, "probing: left out: %s",
                                               ctx->err.msg));
    }
    if (!opened) {
        pb_sampler_destroy(s);
        return -1;
    }
    memset(&ctx->err, 0, sizeof ctx->err);
    sigaction(SIGINT, NULL, &old);
    if (old.sa_handler != SIG_IGN)
        sigaction(SIGINT, &act, NULL);
    sample(f, s);
    sigaction(SIGINT, &old, NULL);
    pb_sampler_take(s, ret);
    pb_sampler_destroy(s);
    if (ret->samples)
        return 0;
    pb_err_set(&ctx->err, PB_NO_TARGET, "%d: the process ended before a sample was taken",
               (int)ret->pid);
    pb_recording_finish(ret);
    return -1;
}

/* How much of the time each frame is on a stack, at least in one place. */
static uint64_t *frame_weights(const struct pb_recording *r, struct pb_arena *a)
{
    size_t n = r->stacks.nnodes;
    uint64_t *self = PB_NEW_N(a, uint64_t, n), *total = PB_NEW_N(a, uint64_t, n);
    uint64_t *weight = PB_NEW_N(a, uint64_t, r->stacks.nframes + 1);

    pb_recording_sums(r, self, total);
    for (size_t i = 1; i < n; i++) {
        uint32_t f = r->stacks.nodes[i].frame;

        weight[f] = total[i] > weight[f] ? total[i] : weight[f];
    }
    weight[r->stacks.nframes] = total[0];
    return weight;
}

void pb_flame_read_source(struct pb_recording *r)
{
    struct pb_arena a = PB_ARENA_INIT;
    uint64_t *weight = frame_weights(r, &a), whole = weight[r->stacks.nframes];
    struct pb_proc_status st;
    size_t found = 0;

    if (!r->pid || pb_proc_status(&st, r->pid, NULL) < 0) {
        pb_arena_finish(&a);
        return;
    }
    r->source = PB_NEW_N(&r->stacks.arena, const char *, r->stacks.nframes + 1);
    r->nsource = r->stacks.nframes;
    for (size_t i = 0; i < r->stacks.nframes && found < SOURCES_MAX; i++) {
        const struct pb_prof_frame *f = &r->stacks.frames[i];
        const char *line;
        int indentation;

        if (f->native || weight[i] * SOURCE_SHARE < whole)
            continue;
        line = pb_source_line(r->pid, st.euid, f->file, f->lineno, &a, &indentation);
        if (!line)
            continue;
        r->source[i] = pb_arena_printf(&r->stacks.arena, "%.160s", pb_secret_text(line, &a));
        found++;
    }
    pb_arena_finish(&a);
}

/* "12,34": as a target for a node may be written, too. */
static size_t split_pids(const char *text, pid_t *v)
{
    size_t n = 0;

    for (;;) {
        v[n++] = (pid_t)strtol(text, NULL, 10);
        text = strchr(text, ',');
        if (!text++)
            return n;
    }
}

int pb_flame_pids(struct pb_flame *f, pid_t **ret, size_t *ret_n)
{
    struct pb_ctx *ctx = f->ctx;
    size_t cap = ctx->njob + (ctx->scope ? strlen(ctx->scope) : 0) + 1;

    *ret = PB_NEW_N(&ctx->arena, pid_t, cap);
    *ret_n = 0;
    if (ctx->remote || ctx->store)
        return pb_err_set(&ctx->err, PB_USAGE, "flamegraph records on the target's own machine "
                                               "only; out of history: --last 10min");
    for (size_t i = 0; i < ctx->njob; i++)
        (*ret)[(*ret_n)++] = ctx->job[i].pid;
    if (ctx->njob)
        return 0;
    if (ctx->pid)
        (*ret)[(*ret_n)++] = ctx->pid;
    else if (ctx->scope && !strchr(ctx->scope, '-'))
        *ret_n = split_pids(ctx->scope, *ret);
    else if (ctx->scope)
        return pb_err_set(&ctx->err, PB_USAGE, "%s: of a process that is known by its start only "
                                               "history tells: --last 10min", ctx->scope);
    else
        return pb_err_set(&ctx->err, PB_USAGE, "flamegraph needs a target: probing <TARGET> "
                                               "flamegraph");
    return 0;
}

static int open_link(struct pb_flame *f)
{
    if (!f->linked && pb_nodelink_open(f->ctx, &f->link) < 0)
        return -1;
    f->linked = true;
    return 0;
}

/*
 * The end of the last sample. Of many machines the middle one's: a clock that is wrong, or a
 * machine on which nothing runs any more, moves no window.
 */
static const char *newest_sql(struct pb_flame *f)
{
    const struct pb_json **rows;
    size_t n;

    if (!pb_nodelink_cluster(f->ctx))
        return "(SELECT max(timestamp + to_milliseconds(weight_ms)) FROM python.samples)";
    if (pb_nodelink_rows(f->ctx, &f->link,
                         "SELECT host, epoch_ms(max(timestamp + to_milliseconds(weight_ms))) AS "
                         "newest FROM python.samples GROUP BY host ORDER BY newest",
                         &rows, &n) < 0)
        return NULL;
    if (!n || rows[n / 2]->n != 2 || rows[n / 2]->items[1].type != PB_J_INT)
        return "NULL::TIMESTAMPTZ";
    return pb_arena_printf(&f->ctx->arena, "make_timestamptz(%lld)",
                           (long long)rows[n / 2]->items[1].v.i * 1000);
}

/* What the end and the begin of a window are in SQL. No end: that of the last sample. */
static int window_sql(struct pb_flame *f, const char *window, const char **from, const char **to)
{
    const char *dots = window ? strstr(window, "..") : NULL, *begin = f->from, *last = f->last;
    const char *end = f->to;
    struct pb_arena *a = &f->ctx->arena;

    if (window) {
        begin = dots ? pb_arena_strndup(a, window, (size_t)(dots - window)) : NULL;
        end = dots && dots[2] ? dots + 2 : NULL;
        last = dots ? NULL : window;
    }
    *to = end ? pb_times_sql(f->ctx, window ? window : "--to", end) : newest_sql(f);
    if (!*to)
        return -1;
    if (begin)
        return (*from = pb_times_sql(f->ctx, window ? window : "--from", begin)) ? 0 : -1;
    last = last ? last : LAST_DEFAULT;
    if (pb_times_length(last) <= 0)
        return pb_err_set(&f->ctx->err, PB_USAGE,
                          "%s'%s' is no length of time; write 90s, 10min, 2h, 3d",
                          window ? "" : "--last: ", last);
    *from = pb_arena_printf(a, "(%s - INTERVAL '%.3f seconds')", *to, pb_times_length(last));
    return 0;
}

static int resolve_window(struct pb_flame *f, const char *window, struct pb_history_window *ret)
{
    const struct pb_json **rows;
    const char *from = NULL, *to = NULL;
    size_t n;

    if (window_sql(f, window, &from, &to) < 0 ||
        pb_nodelink_rows(f->ctx, &f->link,
                         pb_arena_printf(&f->ctx->arena, "SELECT epoch_ms(%s), epoch_ms(%s)", from,
                                         to), &rows, &n) < 0)
        return -1;
    if (n != 1 || rows[0]->n != 2 || rows[0]->items[0].type != PB_J_INT ||
        rows[0]->items[1].type != PB_J_INT)
        return pb_err_set(&f->ctx->err, PB_FAIL,
                          "no samples of %s; a process is sampled all the time while a node runs "
                          "and it is probed: probing PID inject -P",
                          f->ctx->target ? f->ctx->target : "any process");
    *ret = (struct pb_history_window){rows[0]->items[0].v.i, rows[0]->items[1].v.i};
    if (ret->to_ms <= ret->from_ms)
        return pb_err_set(&f->ctx->err, PB_USAGE, "the window ends before it begins");
    return 0;
}

/* Makes it no longer than there are samples: "3d" of a process that began a minute ago. */
static int narrow_window(struct pb_flame *f, const char *where, struct pb_history_window *w)
{
    struct pb_buf sql = PB_BUF_INIT;
    const struct pb_json **rows;
    size_t n;
    int rc;

    pb_history_extent_sql(&sql, w, where);
    rc = pb_nodelink_rows(f->ctx, &f->link, sql.data, &rows, &n);
    pb_buf_finish(&sql);
    if (rc < 0 || n != 1 || rows[0]->n != 2 || rows[0]->items[0].type != PB_J_INT ||
        rows[0]->items[1].type != PB_J_INT)
        return rc;
    if (rows[0]->items[0].v.i > w->from_ms)
        w->from_ms = rows[0]->items[0].v.i;
    if (rows[0]->items[1].v.i < w->to_ms)
        w->to_ms = rows[0]->items[1].v.i;
    return 0;
}

struct loading {
    struct pb_history *history;
    struct pb_err *err;
};

static int take_line(const void *data, size_t len, void *arg)
{
    struct loading *l = arg;

    return pb_history_line(l->history, data, len, l->err);
}

/* Command line and version of the first process, if it lives. */
static void name_process(struct pb_flame *f, struct pb_recording *r)
{
    const struct pb_json **rows;
    struct pb_err kept = f->ctx->err;
    size_t n;

    if (pb_nodelink_cluster(f->ctx)) {
        r->command = pb_arena_printf(&r->stacks.arena, "%zu processes", r->processes);
        r->pid = 0;
        return;
    }
    r->command = pb_arena_printf(&r->stacks.arena, "process %d", (int)r->pid);
    if (pb_nodelink_rows(f->ctx, &f->link,
                         pb_arena_printf(&f->ctx->arena,
                                         "SELECT command, python_version FROM system.process "
                                         "WHERE pid = %d", (int)r->pid), &rows, &n) == 0 &&
        n == 1 && rows[0]->n == 2 && rows[0]->items[0].type == PB_J_STRING) {
        r->command = pb_arena_strdup(&r->stacks.arena, rows[0]->items[0].s);
        if (rows[0]->items[1].type == PB_J_STRING)
            r->python = pb_arena_strdup(&r->stacks.arena, rows[0]->items[1].s);
    }
    f->ctx->err = kept;
}

int pb_flame_history(struct pb_flame *f, const char *window, const char *where, bool by_process,
                     struct pb_recording *ret)
{
    struct pb_history_window w;

    if (open_link(f) < 0 || resolve_window(f, window, &w) < 0 || narrow_window(f, where, &w) < 0)
        return -1;
    return pb_flame_window(f, &w, where, by_process, ret);
}

/* Statements with semicolons between: to many nodes they go one by one. */
static int ask_each(struct pb_flame *f, struct pb_question *q, char *statements)
{
    struct pb_answer answered = {0};
    char *next;
    int rc = 0;

    q->cluster = pb_nodelink_cluster(f->ctx);
    if (!q->cluster) {
        q->sql = statements;
        return pb_nodelink_query(f->ctx, &f->link, q, NULL);
    }
    while (rc == 0 && statements) {
        next = strstr(statements, ";\n");
        if (next) {
            *next = '\0';
            next += 2;
        }
        q->sql = statements;
        rc = pb_nodelink_query(f->ctx, &f->link, q, &answered);
        f->ctx->partial |= answered.partial;
        q->silent = answered.partial;
        statements = next;
    }
    return rc;
}

int pb_flame_window(struct pb_flame *f, const struct pb_history_window *w, const char *where,
                    bool by_process, struct pb_recording *ret)
{
    struct pb_buf sql = PB_BUF_INIT;
    struct loading l = {.err = &f->ctx->err};
    struct pb_question q = {.format = "rows", .quiet = true, .sink = take_line, .arg = &l};
    int rc;

    pb_recording_init(ret);
    pb_history_sql(&sql, w, where);
    l.history = pb_history_begin(ret, w, f->sampler.by_function, by_process);
    rc = ask_each(f, &q, sql.data);
    ret->processes = pb_history_processes(l.history);
    pb_history_end(l.history);
    pb_buf_finish(&sql);
    if (rc == 0 && !ret->samples)
        rc = pb_err_set(&f->ctx->err, PB_FAIL, "no samples of %s in that window",
                        f->ctx->target ? f->ctx->target : "any process");
    if (rc == 0)
        name_process(f, ret);
    else
        pb_recording_finish(ret);
    return rc;
}
