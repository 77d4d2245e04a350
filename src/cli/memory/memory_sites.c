/* memory_sites.c - probing TARGET memory --sites: memory by the line that allocated it. */
#include "cli/memory/memory_sites.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/destination.h"
#include "cli/client/link.h"
#include "cli/client/nodelink.h"
#include "host/text/json_write.h"
#include "recording/formats.h"
#include "display/amount.h"

enum { SITES_SHOWN = 20, BYTES_WIDTH = 11, COUNT_WIDTH = 13, ASK_MS = 5000 };
#define FIRST_SECS 10 /* of sampling, where it was off */
#define MOST_ROWS "100000"

static volatile sig_atomic_t interrupted;

/* Columns of the answer. */
enum { AT_FUNC, AT_FILE, AT_LINE, AT_LIVE, AT_ERROR, AT_GROWTH, AT_BLOCKS, AT_ALLOC, AT_SINCE,
       AT_TIME, AT_STACK, AT_PID, AT_WHOLE_ERROR };

static const char question[] =
    "SELECT func, file, lineno, live_mb * 1048576, error_mb * 1048576, growth_mb * 1048576, "
    "live_blocks, alloc_mb * 1048576, epoch(since), epoch(timestamp), stack_id, pid, "
    "sqrt(sum(error_mb * error_mb) OVER ()) * 1048576 "
    "FROM alloc_sites ORDER BY live_mb DESC, alloc_mb DESC LIMIT " MOST_ROWS;
/* Frames are written anew each hour. */
static const char frames_question[] =
    "SELECT stack_id, depth, any_value(func), any_value(file), any_value(lineno) "
    "FROM python.alloc_frames GROUP BY stack_id, depth ORDER BY stack_id, depth DESC";

struct sites {
    struct pb_ctx *ctx;
    pid_t pid;
    const char *command;
    const struct pb_json **rows;
    size_t n;
    double live, error, since, until; /* sums in bytes; seconds since 1970 */
};

static void note_signal(int sig)
{
    (void)sig;
    interrupted = 1;
}

static void collect(int fd, const void *data, size_t len, void *arg)
{
    if (fd == 1)
        pb_buf_add(arg, data, len);
}

/* Sends a line to the agent; *ret is the value of the key as it says it, or NULL. */
static int tell(struct pb_ctx *ctx, struct pb_agent *agent, const char *key, const char *line,
                const char **ret)
{
    struct pb_buf shown = PB_BUF_INIT;
    enum pb_wire_result result = PB_WIRE_OK;
    const char *why = NULL;
    int rc = pb_agent_ask(agent, PB_WIRE_CONFIG, NULL, 0, line, strlen(line), ASK_MS, collect,
                          &shown, &ctx->arena, &result, &why, &ctx->err);

    *ret = rc == 0 && shown.data ? pb_agent_value(shown.data, key, &ctx->arena) : NULL;
    pb_buf_finish(&shown);
    if (rc == 0 && result != PB_WIRE_OK)
        return pb_err_set(&ctx->err, PB_FAIL, "%s: %s", pb_link_who(ctx), why ? why : "refused");
    return rc;
}

/* Turns a switch on; *ret_new is set if it was off. */
static int turn_on_one(struct pb_ctx *ctx, struct pb_agent *agent, const char *key, bool *ret_new)
{
    const char *value = NULL;

    if (tell(ctx, agent, key, pb_arena_printf(&ctx->arena, "%s\n", key), &value) < 0)
        return -1;
    if (value && strcmp(value, "on") == 0)
        return 0;
    *ret_new = true;
    return tell(ctx, agent, key, pb_arena_printf(&ctx->arena, "%s=on\n", key), &value);
}

/* Turns sampling on; *ret_new: it was off, or a part of it. */
static int turn_on(struct pb_ctx *ctx, bool *ret_new)
{
    struct pb_agent agent = {.fd = -1};
    int rc = 0;

    if (pb_link_open(ctx, &agent) < 0)
        return -1;
    /* First: sampling begins with both. */
    if (pb_opt_flag(ctx, "native"))
        rc = turn_on_one(ctx, &agent, "memory.malloc", ret_new);
    if (rc == 0)
        rc = turn_on_one(ctx, &agent, "memory.sites", ret_new);
    pb_agent_close(&agent);
    return rc;
}

static void wait_for(pid_t pid, double secs)
{
    struct sigaction act = {.sa_handler = note_signal}, old;
    bool shows = isatty(STDERR_FILENO);

    sigaction(SIGINT, &act, &old);
    for (double left = secs; left > 0 && !interrupted; left -= 0.1) {
        double part = left < 0.1 ? left : 0.1;

        if (shows)
            dprintf(STDERR_FILENO, "\r\033[Ksampling allocations of %d, %.0f of %g s (Ctrl-C ends "
                                   "it)", (int)pid, secs - left, secs);
        nanosleep(&(struct timespec){0, (long)(part * 1e9)}, NULL);
    }
    if (shows)
        dprintf(STDERR_FILENO, "\r\033[K");
    sigaction(SIGINT, &old, NULL);
}

static double number(const struct pb_json *cell)
{
    return cell->type == PB_J_REAL ? cell->v.d : cell->type == PB_J_INT ? (double)cell->v.i : 0;
}

static const char *text(const struct pb_json *cell)
{
    return cell->type == PB_J_STRING ? cell->s : "";
}

static void sum_up(struct sites *s)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct pb_json *c = s->rows[i]->items;

        s->live += number(&c[AT_LIVE]);
        s->error = number(&c[AT_WHOLE_ERROR]);
        if (number(&c[AT_TIME]) > s->until)
            s->until = number(&c[AT_TIME]);
        s->since = number(&c[AT_SINCE]);
        if (!s->pid)
            s->pid = (pid_t)number(&c[AT_PID]);
    }
}

static void put_json(struct sites *s)
{
    struct pb_buf *out = &s->ctx->out.buf;

    pb_buf_printf(out, "{\"pid\": %d, \"since\": %.3f, \"timestamp\": %.3f, \"live_bytes\": %.0f, "
                       "\"error_bytes\": %.0f, \"sites\": [",
                  (int)s->pid, s->since, s->until, s->live, s->error);
    for (size_t i = 0; i < s->n; i++) {
        const struct pb_json *c = s->rows[i]->items;

        pb_buf_puts(out, i ? ",\n  {\"func\": " : "\n  {\"func\": ");
        pb_json_string(out, text(&c[AT_FUNC]));
        pb_buf_puts(out, ", \"file\": ");
        pb_json_string(out, text(&c[AT_FILE]));
        pb_buf_printf(out,
                      ", \"lineno\": %.0f, \"live_bytes\": %.0f, \"error_bytes\": %.0f, "
                      "\"growth_bytes\": %.0f, \"live_blocks\": %.0f, \"alloc_bytes\": %.0f, "
                      "\"stack_id\": %lld}",
                      number(&c[AT_LINE]), number(&c[AT_LIVE]), number(&c[AT_ERROR]),
                      number(&c[AT_GROWTH]), number(&c[AT_BLOCKS]), number(&c[AT_ALLOC]),
                      c[AT_STACK].type == PB_J_INT ? (long long)c[AT_STACK].v.i : 0);
    }
    pb_buf_puts(out, "]}\n");
}

static void put_cell(struct sites *s, const char *what, size_t width)
{
    pb_print_cell(&s->ctx->out, PB_PLAIN, what, width, true);
}

static void put_line(struct sites *s, const struct pb_json *c)
{
    struct pb_arena *a = &s->ctx->arena;
    struct pb_print *out = &s->ctx->out;

    put_cell(s, pb_amount_bytes(a, (int64_t)number(&c[AT_LIVE]), false), BYTES_WIDTH);
    put_cell(s, pb_amount_bytes(a, (int64_t)number(&c[AT_ERROR]), false), BYTES_WIDTH);
    put_cell(s, pb_amount_bytes(a, (int64_t)number(&c[AT_GROWTH]), true), BYTES_WIDTH);
    put_cell(s, pb_amount_count(a, (int64_t)number(&c[AT_BLOCKS]), false), COUNT_WIDTH);
    put_cell(s, pb_amount_bytes(a, (int64_t)number(&c[AT_ALLOC]), false), BYTES_WIDTH);
    pb_print_puts(out, "  ");
    pb_print_text(out, PB_BOLD, text(&c[AT_FUNC]));
    if (*text(&c[AT_FILE])) {
        pb_print_puts(out, "  ");
        pb_print_text(out, PB_PLAIN, pb_stacks_short_file(text(&c[AT_FILE])));
        pb_print_f(out, ":%.0f", number(&c[AT_LINE]));
    }
    pb_print_puts(out, "\n");
}

static void put_text(struct sites *s)
{
    struct pb_arena *a = &s->ctx->arena;
    struct pb_print *out = &s->ctx->out;
    size_t shown = (size_t)pb_opt_int(s->ctx, "limit", SITES_SHOWN);
    double rest = 0;

    pb_print_f(out, "process %d", (int)s->pid);
    if (s->command) {
        pb_print_puts(out, "  ");
        pb_print_text(out, PB_PLAIN, s->command);
    }
    pb_print_f(out, " · %s ± %s in use, of what was allocated in %.0f s\n",
               pb_amount_bytes(a, (int64_t)s->live, false),
               pb_amount_bytes(a, (int64_t)s->error, false), s->until - s->since);
    put_cell(s, "in use", BYTES_WIDTH);
    put_cell(s, "±", BYTES_WIDTH);
    put_cell(s, "growth", BYTES_WIDTH);
    put_cell(s, "blocks", COUNT_WIDTH);
    put_cell(s, "allocated", BYTES_WIDTH);
    pb_print_puts(out, "  by\n");
    for (size_t i = 0; i < s->n && i < shown; i++)
        put_line(s, s->rows[i]->items);
    for (size_t i = shown; i < s->n; i++)
        rest += number(&s->rows[i]->items[AT_LIVE]);
    if (s->n > shown)
        pb_print_f(out, "%*s… %zu more stacks, %s\n", BYTES_WIDTH, "", s->n - shown,
                   pb_amount_bytes(a, (int64_t)rest, false));
}

static const struct pb_json *site_of(const struct sites *s, int64_t stack)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->rows[i]->items[AT_STACK].type == PB_J_INT &&
            s->rows[i]->items[AT_STACK].v.i == stack)
            return s->rows[i]->items;
    return NULL;
}

static void add_site(struct pb_recording *r, uint32_t thread, uint32_t node,
                     const struct pb_json *c)
{
    double blocks = number(&c[AT_BLOCKS]);
    struct pb_rec_sample e = {.weight_ns = (uint64_t)(number(&c[AT_LIVE]) * 1000),
                              .thread = thread, .node = node, .state = PB_RUNNING,
                              .on_cpu = true,
                              .count = blocks > 1 && blocks < UINT32_MAX ? (uint32_t)blocks : 1};

    if (e.weight_ns)
        pb_recording_add(r, &e);
}

/* The stacks as a recording whose weights are bytes; frames come from the outermost on. */
static int build(struct sites *s, struct pb_nodelink *link, struct pb_recording *r)
{
    const struct pb_json **rows;
    size_t n;
    uint32_t thread, node = 0;

    if (pb_nodelink_rows(s->ctx, link, frames_question, &rows, &n) < 0)
        return -1;
    pb_recording_init(r);
    r->is_memory = true;
    r->pid = s->pid;
    r->processes = 1;
    r->command = s->command ? s->command : "";
    r->started_ns = (int64_t)(s->since * 1e9);
    r->length_ns = (uint64_t)((s->until - s->since) * 1e9);
    thread = pb_recording_thread(r, s->pid, s->pid, "memory");
    r->threads[thread].is_main = true;
    for (size_t i = 0; i < n; i++) {
        const struct pb_json *c = rows[i]->items;
        int64_t stack = rows[i]->n >= 5 && c[0].type == PB_J_INT ? c[0].v.i : 0;
        const struct pb_json *site = site_of(s, stack);
        struct pb_prof_frame f = {text(&c[2]), text(&c[3]), (int)number(&c[4]), false};

        if (!site)
            continue;
        node = pb_stacks_child(&r->stacks, node, &f);
        if (number(&c[1]) > 0)
            continue;
        add_site(r, thread, node, site);
        node = 0;
    }
    return 0;
}

static int write_graph(struct sites *s, struct pb_nodelink *link, const char *path)
{
    const struct pb_format *format = strcmp(path, "-") == 0 ? pb_format_find("collapsed")
                                                             : pb_format_by_path(path);
    struct pb_destination to;
    struct pb_recording r;
    int rc;

    if (!format || !format->measures)
        return pb_err_set(&s->ctx->err, PB_USAGE,
                          "%s: memory is drawn as .html, .svg, .speedscope.json, .pb or .folded",
                          path);
    if (build(s, link, &r) < 0)
        return -1;
    rc = pb_destination_open(s->ctx, &to, path, false);
    if (rc == 0) {
        format->write(&r, &s->ctx->out.buf);
        rc = pb_destination_close(&to, true);
    }
    pb_recording_finish(&r);
    if (rc == 0 && strcmp(path, "-") != 0)
        pb_print_f(&s->ctx->out, "%s   (%s)\n", path, format->what);
    return rc;
}

static int why_none(struct sites *s, struct pb_nodelink *link)
{
    const struct pb_json **rows;
    size_t n = 0;

    if (pb_nodelink_rows(s->ctx, link, "SELECT state, coalesce(reason, '') FROM probing.agents "
                                       "WHERE collector = 'alloc' AND reason <> ''",
                         &rows, &n) == 0 && n && rows[0]->n == 2)
        return pb_err_set(&s->ctx->err, PB_FAIL, "allocations are not sampled: %s",
                          text(&rows[0]->items[1]));
    return pb_err_set(&s->ctx->err, PB_FAIL,
                      "no allocations were sampled; a process that allocates little needs longer: "
                      "-d 60, or config memory.sites_bytes=16384");
}

int pb_memory_sites(struct pb_ctx *ctx, pid_t pid, const char *command)
{
    bool json = pb_opt_flag(ctx, "json") || strcmp(pb_opt_str(ctx, "format", "text"), "json") == 0;
    const char *path = pb_opt_str(ctx, "output", NULL);
    struct sites s = {.ctx = ctx, .pid = pid, .command = command};
    struct pb_nodelink link = {0};
    bool is_new = false;
    double secs;
    int rc;

    if (pb_destination_check(ctx, path) < 0 || (pid && turn_on(ctx, &is_new) < 0))
        return -1;
    if (is_new)
        pb_ctx_notice(ctx, "probing: sampling begins now; blocks that are older are not known");
    secs = pb_opt_num(ctx, "duration", is_new ? FIRST_SECS : 0);
    if (pid && secs > 0)
        wait_for(pid, secs);
    if (pb_nodelink_open(ctx, &link) < 0)
        return -1;
    rc = pb_nodelink_rows(ctx, &link, question, &s.rows, &s.n);
    if (rc == 0 && !s.n)
        rc = why_none(&s, &link);
    if (rc == 0) {
        sum_up(&s);
        if (path)
            rc = write_graph(&s, &link, path);
        else if (json)
            put_json(&s);
        else
            put_text(&s);
    }
    pb_nodelink_close(&link);
    return rc;
}
