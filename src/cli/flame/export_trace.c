#include "cli/flame/export_trace.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/destination.h"
#include "cli/flame/flame.h"
#include "cli/times.h"
#include "recording/timeline/timeline.h"

#define FLUSH_BYTES (256 << 10)
#define SAY_EVERY_NS 200000000u

struct tracing {
    struct pb_flame flame; /* the link, and samples */
    struct pb_history_window window;
    struct pb_timeline *timeline;
    struct pb_destination output;
    const char *path;
    uint64_t bytes, said_ns;
    bool progress;
};

static void show_progress(struct tracing *t, bool last)
{
    uint64_t now = pb_clock_ns();
    struct pb_print e;

    if (!t->progress || (!last && now - t->said_ns < SAY_EVERY_NS))
        return;
    t->said_ns = now;
    pb_print_init(&e, STDERR_FILENO);
    pb_print_puts(&e, "\r\033[K");
    if (!last)
        pb_print_f(&e, "trace  %.1f MB", (double)t->bytes / 1e6);
    pb_print_flush(&e, NULL);
    pb_print_finish(&e);
}

static int flush(struct tracing *t, size_t more_than)
{
    struct pb_print *out = &t->flame.ctx->out;

    if (out->buf.len <= more_than)
        return 0;
    t->bytes += out->buf.len;
    show_progress(t, false);
    return pb_destination_flush(&t->output) < 0 || out->broken ? -1 : 0;
}

static int take_line(const void *data, size_t len, void *arg)
{
    struct tracing *t = arg;

    if (pb_timeline_line(t->timeline, data, len, &t->flame.ctx->err) < 0)
        return -1;
    return flush(t, FLUSH_BYTES);
}

/* --since and --until; else the last ten minutes of what there is. */
static int find_window(struct tracing *t)
{
    struct pb_ctx *ctx = t->flame.ctx;
    const char *since = pb_opt_str(ctx, "since", NULL), *until = pb_opt_str(ctx, "until", NULL);
    const char *to = pb_arena_printf(&ctx->arena, "(%s)", pb_timeline_newest);
    const char *from = "600000";
    const struct pb_json **rows;
    size_t n;

    if (until && !(to = pb_times_sql(ctx, "--until", until)))
        return -1;
    if (since && !(since = pb_times_sql(ctx, "--since", since)))
        return -1;
    if (until)
        to = pb_arena_printf(&ctx->arena, "epoch_ms(%s)", to);
    from = since ? pb_arena_printf(&ctx->arena, "epoch_ms(%s)", since)
                 : pb_arena_printf(&ctx->arena, "%s - %s", to, from);
    if (pb_nodelink_rows(ctx, &t->flame.link,
                         pb_arena_printf(&ctx->arena, "SELECT %s, %s", from, to), &rows, &n) < 0)
        return -1;
    if (n != 1 || rows[0]->n != 2 || rows[0]->items[0].type != PB_J_INT ||
        rows[0]->items[1].type != PB_J_INT)
        return pb_err_set(&ctx->err, PB_FAIL, "nothing is recorded of %s yet",
                          ctx->target ? ctx->target : "any process");
    t->window = (struct pb_history_window){rows[0]->items[0].v.i, rows[0]->items[1].v.i};
    return t->window.from_ms < t->window.to_ms
               ? 0
               : pb_err_set(&ctx->err, PB_USAGE, "the window ends before it begins");
}

static int write_rows(struct tracing *t, const struct pb_recording *samples)
{
    struct pb_ctx *ctx = t->flame.ctx;
    size_t len = strlen(t->path);
    bool chrome = len > 5 && strcmp(t->path + len - 5, ".json") == 0;
    struct pb_buf sql = PB_BUF_INIT;
    struct pb_question q = {
        .quiet = true, .format = "rows", .sink = take_line, .arg = t,
        .timeout_ms = (int)(pb_opt_num(ctx, "timeout", 3600) * 1000)};
    int rc;

    pb_timeline_sql(&sql, &t->window);
    q.sql = sql.data;
    t->timeline = pb_timeline_begin(chrome ? PB_TIMELINE_CHROME : PB_TIMELINE_PERFETTO, &t->window,
                                    samples, &ctx->out.buf);
    rc = pb_nodelink_query(ctx, &t->flame.link, &q, NULL);
    pb_buf_finish(&sql);
    if (rc < 0) {
        pb_timeline_destroy(t->timeline);
        return -1;
    }
    if (!pb_timeline_end(t->timeline) && !samples)
        return pb_err_set(&ctx->err, PB_FAIL, "nothing is recorded of that window");
    return flush(t, 0);
}

static int write_file(struct tracing *t)
{
    struct pb_ctx *ctx = t->flame.ctx;
    struct pb_recording samples;
    bool sampled = pb_flame_window(&t->flame, &t->window, "", false, &samples) == 0;
    int rc;

    if (!sampled && ctx->interrupted)
        return -1;
    memset(&ctx->err, 0, sizeof ctx->err); /* no samples is no reason for no trace */
    rc = pb_destination_open(ctx, &t->output, t->path, false);
    if (rc == 0) {
        rc = write_rows(t, sampled ? &samples : NULL);
        if (rc < 0)
            pb_buf_clear(&ctx->out.buf);
        if (pb_destination_close(&t->output, rc == 0) < 0)
            rc = -1;
        show_progress(t, true);
    }
    if (sampled)
        pb_recording_finish(&samples);
    return rc;
}

int pb_export_trace(struct pb_ctx *ctx)
{
    struct tracing t = {.flame = {.ctx = ctx}, .path = pb_opt_str(ctx, "trace", NULL)};
    struct stat st;
    int rc;

    if (ctx->nargs || pb_opt_flag(ctx, "table") || pb_opt_flag(ctx, "output") ||
        pb_opt_flag(ctx, "format"))
        return pb_err_set(&ctx->err, PB_USAGE,
                          "--trace names its own file and knows its tables: no SQL, --table, "
                          "--output or --format with it");
    if (!t.path || !*t.path)
        return pb_err_set(&ctx->err, PB_USAGE, "export: where to? --trace FILE");
    if (!pb_opt_flag(ctx, "force") && strcmp(t.path, "-") != 0 && stat(t.path, &st) == 0 &&
        S_ISREG(st.st_mode))
        return pb_err_set(&ctx->err, PB_USAGE, "%s: is there already; --force overwrites it",
                          t.path);
    t.progress = isatty(STDERR_FILENO) && strcmp(t.path, "-") != 0;
    if (pb_nodelink_open(ctx, &t.flame.link) < 0)
        return -1;
    t.flame.linked = true;
    rc = find_window(&t);
    if (rc == 0)
        rc = write_file(&t);
    pb_flame_finish(&t.flame);
    if (rc < 0 || strcmp(t.path, "-") == 0)
        return rc;
    pb_print_text(&ctx->out, PB_PLAIN, t.path);
    pb_print_f(&ctx->out, "  %.1f MB  (open it in ui.perfetto.dev)\n", (double)t.bytes / 1e6);
    return 0;
}
