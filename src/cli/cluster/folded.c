#include "cli/cluster/folded.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/client/nodelink.h"
#include "cluster/ranges.h"
#include "host/text/json_write.h"

#define FRAMES_SHOWN 12

/*
 * One list for each row, and grouped, so that it is made at the nodes: a file of Parquet costs some
 * 200 bytes for each of its columns, and of long texts four times 256 more as their bounds, which
 * of few rows is most of it. The stack's frames come last.
 */
static const char sql[] =
    "SELECT string_split(concat_ws(chr(10), coalesce(stack_hash, ''), processes, "
    "coalesce(ranks, ''), host, replace(coalesce(reason, ''), chr(10), ' '), stack), chr(10)) "
    "AS class, count(*) AS n FROM python.folded_stacks GROUP BY class";
enum { C_HASH, C_PROCESSES, C_RANKS, C_HOST, C_REASON, C_FRAMES };

/* Ranks with one stack, on all machines. */
struct class {
    const char *hash, *stack, *reason, *host; /* host: of the first */
    struct pb_ranges ranks;
    size_t hosts;
    uint64_t processes;
};

struct folded {
    struct pb_ctx *ctx;
    struct class *v;
    size_t n, cap;
    const char **hosts;
    size_t nhosts;
    uint64_t processes;
};

static const char *text_at(const struct pb_json *list, size_t i)
{
    return list->items[i].type == PB_J_STRING ? list->items[i].s : "";
}

/* Its frames as lines. */
static const char *stack_of(struct folded *f, const struct pb_json *list)
{
    struct pb_buf b = PB_BUF_INIT;
    const char *text;

    for (size_t i = C_FRAMES; i < list->n; i++)
        pb_buf_printf(&b, "%s%s", i > C_FRAMES ? "\n" : "", text_at(list, i));
    text = pb_arena_strdup(&f->ctx->arena, b.data ? b.data : "");
    pb_buf_finish(&b);
    return text;
}

static struct class *find_class(struct folded *f, const char *stack, const char *reason)
{
    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->v[i].stack, stack) == 0 && strcmp(f->v[i].reason, reason) == 0)
            return &f->v[i];
    if (f->n == f->cap) {
        f->v = pb_arena_grow(&f->ctx->arena, f->v, f->cap * sizeof *f->v,
                             (f->cap + 16) * 2 * sizeof *f->v);
        f->cap = (f->cap + 16) * 2;
    }
    f->v[f->n] = (struct class){.stack = stack, .reason = reason};
    return &f->v[f->n++];
}

static void add_host(struct folded *f, const char *host)
{
    for (size_t i = 0; i < f->nhosts; i++)
        if (strcmp(f->hosts[i], host) == 0)
            return;
    f->hosts = pb_arena_grow(&f->ctx->arena, f->hosts, f->nhosts * sizeof *f->hosts,
                             (f->nhosts + 1) * sizeof *f->hosts);
    f->hosts[f->nhosts++] = host;
}

/* A row is another node's word. */
static int take_row(const void *data, size_t len, void *arg)
{
    struct folded *f = arg;
    const struct pb_json *list;
    struct pb_json row;
    struct class *c;
    uint64_t processes;

    if (len == 0 || *(const char *)data != '[')
        return 0;
    if (pb_json_parse(&f->ctx->arena, data, len, &row, &f->ctx->err) < 0)
        return -1;
    list = row.n == 2 ? &row.items[0] : NULL;
    if (!list || list->type != PB_J_ARRAY || list->n < C_FRAMES)
        return pb_err_set(&f->ctx->err, PB_FAIL, "a node's stacks make no sense");
    processes = strtoull(text_at(list, C_PROCESSES), NULL, 10);
    c = find_class(f, stack_of(f, list), text_at(list, C_REASON));
    if (!c->processes) {
        c->hash = text_at(list, C_HASH);
        c->host = text_at(list, C_HOST);
    }
    c->hosts++;
    c->processes += processes < PB_RANGES_VALUE_MAX ? processes : 0;
    if (*text_at(list, C_RANKS))
        pb_ranges_parse(&c->ranks, text_at(list, C_RANKS), NULL);
    add_host(f, text_at(list, C_HOST));
    return 0;
}

/* Outliers first: what few do is what people look for. */
static int compare(const void *a, const void *b)
{
    const struct class *x = a, *y = b;

    if (x->processes != y->processes)
        return x->processes < y->processes ? -1 : 1;
    return strcmp(x->stack, y->stack);
}

static const char *ranks_text(struct folded *f, const struct class *c)
{
    struct pb_buf b = PB_BUF_INIT;
    const char *text;

    pb_ranges_text(&c->ranks, &b);
    text = pb_arena_strdup(&f->ctx->arena, b.data ? b.data : "");
    pb_buf_finish(&b);
    return text;
}

static void print_frames(struct folded *f, const struct class *c)
{
    struct pb_print *out = &f->ctx->out;
    char *rest = pb_arena_strdup(&f->ctx->arena, c->stack), *line;
    size_t n = 0, more = 0;

    while ((line = strsep(&rest, "\n"))) {
        char *space = strchr(line, ' ');

        if (n >= FRAMES_SHOWN && !f->ctx->verbose) {
            more++;
            continue;
        }
        pb_print_f(out, "  %3zu  ", n++);
        if (space)
            *space = '\0';
        pb_print_text(out, PB_BOLD, line);
        if (space) {
            pb_print_puts(out, "  ");
            pb_print_text(out, PB_PLAIN, space + 1);
        }
        pb_print_puts(out, "\n");
    }
    if (more)
        pb_print_f(out, "       … %zu more, -v shows all\n", more);
}

static void print_class(struct folded *f, const struct class *c)
{
    struct pb_print *out = &f->ctx->out;
    const char *ranks = ranks_text(f, c);
    bool one = c->processes == 1;

    pb_print_f(out, "\n%" PRIu64 " of %" PRIu64 ": rank%s %s", c->processes, f->processes,
               one ? "" : "s", *ranks ? ranks : "?");
    if (c->hosts == 1) {
        pb_print_puts(out, " on ");
        pb_print_text(out, PB_PLAIN, c->host);
    }
    pb_print_puts(out, "\n");
    if (*c->reason) {
        pb_print_puts(out, "  not read: ");
        pb_print_text(out, PB_PLAIN, c->reason);
        pb_print_puts(out, "\n");
    } else {
        print_frames(f, c);
    }
}

static void print_all(struct folded *f)
{
    struct pb_print *out = &f->ctx->out;

    pb_print_f(out, "%" PRIu64 " rank%s on %zu node%s, %zu different stack%s\n", f->processes,
               f->processes == 1 ? "" : "s", f->nhosts, f->nhosts == 1 ? "" : "s", f->n,
               f->n == 1 ? "" : "s");
    for (size_t i = 0; i < f->n; i++)
        print_class(f, &f->v[i]);
    if (f->n > 1 && f->v[0].ranks.n)
        pb_print_f(out, "\nnext: probing rank:%u backtrace -a -l\n", f->v[0].ranks.v[0].first);
}

static void put_text(struct pb_buf *b, const char *key, const char *value)
{
    pb_json_key(b, key);
    pb_json_string_or_null(b, value && *value ? value : NULL);
}

static void print_json(struct folded *f, const struct pb_answer *answered)
{
    struct pb_buf *b = &f->ctx->out.buf;

    pb_buf_puts(b, "{\"classes\":[");
    for (size_t i = 0; i < f->n; i++) {
        const struct class *c = &f->v[i];
        char *rest = pb_arena_strdup(&f->ctx->arena, c->stack), *line;

        pb_buf_puts(b, i ? ",{" : "{");
        put_text(b, "ranks", ranks_text(f, c));
        pb_json_key(b, "processes");
        pb_json_int(b, (int64_t)c->processes);
        put_text(b, "hash", c->hash);
        put_text(b, "reason", c->reason);
        pb_json_key(b, "frames");
        pb_buf_putc(b, '[');
        while (*c->stack && (line = strsep(&rest, "\n"))) {
            pb_json_comma(b);
            pb_json_string(b, line);
        }
        pb_buf_puts(b, "]}");
    }
    pb_buf_printf(b, "],\"processes\":%" PRIu64 ",\"nodes\":%zu,\"bytes\":%" PRIu64
                  ",\"partial\":%s}\n", f->processes, f->nhosts, answered->bytes,
                  answered->partial ? "true" : "false");
}

int pb_folded_show(struct pb_ctx *ctx, bool json)
{
    struct folded f = {.ctx = ctx};
    struct pb_question q = {.sql = sql, .format = "rows", .quiet = true, .living = true,
                            .cluster = "true", .sink = take_row, .arg = &f};
    struct pb_answer answered = {0};
    struct pb_nodelink n;
    int rc;

    if (!ctx->ranks && !ctx->of_job)
        ctx->ranks = PB_RANGES_ALL;
    rc = pb_nodelink_open(ctx, &n);
    if (rc == 0)
        rc = pb_nodelink_query(ctx, &n, &q, &answered);
    pb_nodelink_close(&n);
    if (rc < 0)
        return -1;
    for (size_t i = 0; i < f.n; i++)
        f.processes += f.v[i].processes;
    if (f.n)
        qsort(f.v, f.n, sizeof *f.v, compare);
    if (json)
        print_json(&f, &answered);
    else
        print_all(&f);
    for (size_t i = 0; i < f.n; i++)
        pb_ranges_finish(&f.v[i].ranks);
    ctx->partial |= answered.partial;
    return 0;
}
