/*
 * A verdict as text and as JSON.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/diagnose/diagnose.h"
#include "cli/client/query.h"
#include "host/text/json_write.h"

static void put_ago(struct pb_print *out, double s)
{
    if (s < 60)
        pb_print_f(out, "%.0f s", s);
    else if (s < 3600)
        pb_print_f(out, "%.0f min %.0f s", (double)(long)(s / 60), s - 60 * (double)(long)(s / 60));
    else
        pb_print_f(out, "%.1f h", s / 3600);
}

/* "2026-01-02T14:02:11.123+00" -> "14:02:11" */
static const char *clock_of(const char *since, struct pb_arena *a)
{
    const char *t = since ? strpbrk(since, "T ") : NULL;

    return t && strlen(t) >= 9 ? pb_arena_strndup(a, t + 1, 8) : "?";
}

void pb_verdict_text(struct pb_ctx *ctx, const struct pb_verdict *v)
{
    struct pb_print *out = &ctx->out;

    pb_print_style(out, PB_RED);
    pb_print_f(out, "%s", v->kind);
    pb_print_style(out, PB_PLAIN);
    pb_print_f(out, "  since %s (", clock_of(v->since, &ctx->arena));
    put_ago(out, v->since_s);
    pb_print_puts(out, ")  ");
    pb_print_text(out, PB_BOLD, v->class);
    pb_print_puts(out, "  ");
    pb_print_text(out, PB_DIM, v->confidence);
    pb_print_puts(out, "\n  ");
    pb_print_text(out, PB_PLAIN, v->what);
    if (v->line) {
        pb_print_puts(out, "\n  at ");
        if (v->func) {
            pb_print_text(out, PB_BOLD, v->func);
            pb_print_puts(out, "  ");
        }
        pb_print_text(out, PB_CYAN, v->file ? v->file : "?");
        pb_print_f(out, ":%lld  (pid %lld, thread %lld)", (long long)v->line, (long long)v->pid,
                   (long long)v->tid);
    }
    if (v->why) {
        pb_print_puts(out, "\n  why: ");
        pb_print_text(out, PB_PLAIN, v->why);
    }
    if (v->victims && *v->victims) {
        pb_print_puts(out, "\n  only waiting: ");
        pb_print_text(out, PB_DIM, v->victims);
    }
    pb_print_puts(out, "\n  next: ");
    pb_print_text(out, PB_PLAIN, v->next ? v->next : "");
    pb_print_puts(out, pb_opt_flag(ctx, "evidence") ? "\n" : "     evidence: -v\n");
}

int pb_verdict_evidence(struct pb_ctx *ctx, struct pb_nodelink *link, const struct pb_verdict *v)
{
    (void)link;
    if (!v->evidence)
        return 0;
    pb_print_f(&ctx->out, "\n  rule: share/verdicts/%s.sql\n  ", v->rule ? v->rule : "?");
    pb_print_text(&ctx->out, PB_DIM, v->evidence);
    pb_print_puts(&ctx->out, "\n");
    return pb_query_show(ctx, v->evidence, "table");
}

static int add_bytes(const void *data, size_t len, void *arg)
{
    pb_buf_add(arg, data, len);
    return 0;
}

static int put_evidence(struct pb_ctx *ctx, struct pb_nodelink *link, const struct pb_verdict *v,
                        struct pb_buf *b)
{
    struct pb_buf rows = PB_BUF_INIT;
    struct pb_question q = {.sql = v->evidence, .format = "json", .quiet = true,
                            .sink = add_bytes, .arg = &rows};
    int rc = 0;

    pb_json_key(b, "evidence");
    pb_buf_puts(b, "[");
    if (v->evidence) {
        rc = pb_nodelink_query(ctx, link, &q, NULL);
        pb_buf_puts(b, "{");
        pb_json_key(b, "title");
        pb_json_string(b, v->rule ? v->rule : "");
        pb_json_key(b, "sql");
        pb_json_string(b, v->evidence);
        pb_json_key(b, "rows");
        while (rows.len && rows.data[rows.len - 1] == '\n')
            rows.data[--rows.len] = '\0';
        pb_json_shown(b, rc == 0 && rows.len ? rows.data : "[]");
        pb_buf_puts(b, "}");
    }
    pb_buf_puts(b, "]");
    pb_buf_finish(&rows);
    return rc;
}

/* The items of a text with this character between them. */
static void put_list(struct pb_buf *b, const char *key, const char *text, char between,
                     bool numbers, struct pb_arena *a)
{
    pb_json_key(b, key);
    pb_buf_puts(b, "[");
    while (text && *text) {
        const char *end = strchr(text, between);
        char *item;

        text += strspn(text, " ");
        item = end ? pb_arena_strndup(a, text, (size_t)(end - text)) : pb_arena_strdup(a, text);
        pb_json_comma(b);
        if (numbers)
            pb_json_int(b, strtoll(item, NULL, 10));
        else
            pb_json_string(b, item);
        text = end ? end + 1 : NULL;
    }
    pb_buf_puts(b, "]");
}

static void put_number(struct pb_buf *b, const char *key, int64_t v)
{
    pb_json_key(b, key);
    if (v)
        pb_json_int(b, v);
    else
        pb_buf_puts(b, "null");
}

int pb_verdicts_json(struct pb_ctx *ctx, struct pb_nodelink *link, const struct pb_verdict *v,
                     size_t n)
{
    struct pb_buf *b = &ctx->out.buf;

    pb_buf_puts(b, "{");
    pb_json_key(b, "healthy");
    pb_json_bool(b, n == 0);
    pb_json_key(b, "verdicts");
    pb_buf_puts(b, "[");
    for (size_t i = 0; i < n; i++) {
        const struct {
            const char *key, *value;
        } texts[] = {{"file", v[i].file}, {"func", v[i].func}, {"since", v[i].since},
                     {"what", v[i].what}, {"why", v[i].why}, {"next", v[i].next}};

        pb_buf_puts(b, i ? ",{" : "{");
        pb_json_key(b, "kind");
        pb_json_string_or_null(b, v[i].kind);
        pb_json_key(b, "class");
        pb_json_string_or_null(b, v[i].class);
        pb_json_key(b, "confidence");
        pb_json_string_or_null(b, v[i].confidence);
        put_list(b, "ranks", v[i].ranks, ',', true, &ctx->arena);
        pb_json_key(b, "host");
        pb_json_string_or_null(b, v[i].host);
        put_number(b, "pid", v[i].pid);
        put_number(b, "tid", v[i].tid);
        put_number(b, "line", v[i].line);
        for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
            pb_json_key(b, texts[k].key);
            pb_json_string_or_null(b, texts[k].value);
        }
        put_list(b, "victims", v[i].victims, ';', false, &ctx->arena);
        if (put_evidence(ctx, link, &v[i], b) < 0)
            return -1;
        pb_buf_puts(b, "}");
    }
    pb_buf_puts(b, "]}\n");
    return 0;
}
