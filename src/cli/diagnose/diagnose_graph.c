/*
 * Who waits for whom, as text or for Graphviz.
 */
#include "base/embed.h"
#include "cli/diagnose/diagnose.h"

PB_EMBED(pb_diagnose_graph_sql, "src/cli/scripts/diagnose_graph.sql")

enum { AT_PID, AT_TID, AT_WHO, AT_KIND, AT_WHAT, AT_ON_PID, AT_ON_TID, AT_CYCLE, AT_PLACE, NCELLS };

static const char *text_in(const struct pb_json *c)
{
    return c->type == PB_J_STRING ? c->s : "";
}

static int64_t whole_in(const struct pb_json *c)
{
    return c->type == PB_J_INT ? c->v.i : 0;
}

static const struct pb_json *find(const struct pb_json **rows, size_t n, int64_t pid, int64_t tid)
{
    for (size_t i = 0; i < n; i++)
        if (whole_in(&rows[i]->items[AT_PID]) == pid &&
            whole_in(&rows[i]->items[AT_TID]) == (tid ? tid : pid))
            return rows[i];
    return NULL;
}

static void put_text(struct pb_print *out, const struct pb_json **rows, size_t n,
                     const struct pb_json *c)
{
    int64_t pid = whole_in(&c[AT_ON_PID]);
    const struct pb_json *on = pid ? find(rows, n, pid, whole_in(&c[AT_ON_TID])) : NULL;

    pb_print_text(out, PB_BOLD, text_in(&c[AT_WHO]));
    pb_print_puts(out, "  ");
    pb_print_text(out, PB_CYAN, text_in(&c[AT_KIND]));
    pb_print_puts(out, "  ");
    pb_print_text(out, PB_PLAIN, text_in(&c[AT_PLACE]));
    if (on) {
        pb_print_puts(out, "  -> ");
        pb_print_text(out, PB_BOLD, text_in(&on->items[AT_WHO]));
    } else if (pid) {
        pb_print_f(out, "  -> process %lld", (long long)pid);
    }
    if (c[AT_CYCLE].type == PB_J_BOOL && c[AT_CYCLE].v.b)
        pb_print_text(out, PB_RED, "  circle");
    pb_print_puts(out, "\n");
}

/* Inside double quotes Graphviz knows \" and \\ only. */
static void put_quoted(struct pb_print *out, const char *s)
{
    struct pb_arena a = PB_ARENA_INIT;

    for (s = pb_text_clean(&a, s); *s; s++)
        pb_print_f(out, *s == '"' || *s == '\\' ? "\\%c" : "%c", *s);
    pb_arena_finish(&a);
}

static void put_dot(struct pb_print *out, const struct pb_json *c)
{
    int64_t on = whole_in(&c[AT_ON_PID]), tid = whole_in(&c[AT_ON_TID]);

    pb_print_f(out, "  t%lld [label=\"", (long long)whole_in(&c[AT_TID]));
    put_quoted(out, text_in(&c[AT_WHO]));
    pb_print_puts(out, "\\n");
    put_quoted(out, text_in(&c[AT_PLACE]));
    pb_print_puts(out, "\"];\n");
    if (!on)
        return;
    pb_print_f(out, "  t%lld -> t%lld [label=\"", (long long)whole_in(&c[AT_TID]),
               (long long)(tid ? tid : on));
    put_quoted(out, text_in(&c[AT_KIND]));
    pb_print_f(out, "\"%s];\n", c[AT_CYCLE].type == PB_J_BOOL && c[AT_CYCLE].v.b ? ", color=red"
                                                                                 : "");
}

int pb_diagnose_graph(struct pb_ctx *ctx, struct pb_nodelink *link, bool dot)
{
    const struct pb_json **rows;
    size_t n = 0;

    if (pb_nodelink_rows(ctx, link, pb_diagnose_graph_sql, &rows, &n) < 0)
        return -1;
    if (dot)
        pb_print_puts(&ctx->out, "digraph waits {\n  rankdir=LR; node [shape=box];\n");
    for (size_t i = 0; i < n; i++) {
        if (rows[i]->n < NCELLS)
            continue;
        if (dot)
            put_dot(&ctx->out, rows[i]->items);
        else
            put_text(&ctx->out, rows, n, rows[i]->items);
    }
    if (dot)
        pb_print_puts(&ctx->out, "}\n");
    return 0;
}
