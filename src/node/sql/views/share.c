/*
 * The files of share/views, carried inside the executable. Each opens with comments that say what
 * the view and its columns are: "-- name: doc", then "--   column  TYPE  unit  doc" (two blanks or
 * more between; no unit: "--   column  TYPE  doc").
 */
#include <string.h>

#include "base/embed.h"
#include "host/text/buf.h"
#include "node/sql/catalog.h"
#include "node/sql/text/text.h"

#define PB_VIEW(name) PB_EMBED(pb_view_##name, "share/views/" #name ".sql")
#include "node/sql/views/views.def"
#undef PB_VIEW

const struct pb_share_view pb_share_views[] = {
#define PB_VIEW(name) {#name, pb_view_##name, pb_view_##name##_end},
#include "node/sql/views/views.def"
#undef PB_VIEW
    {NULL, NULL, NULL},
};

/* share/verdicts: what all rules stand on, the rules, and what is made of them. */
PB_EMBED(pb_verdict_facts, "share/verdicts/facts.sql")
PB_EMBED(pb_verdict_all, "share/verdicts/all.sql")
#define PB_VERDICT(name) PB_EMBED(pb_verdict_##name, "share/verdicts/" #name ".sql")
#include "node/sql/views/verdicts.def"
#undef PB_VERDICT

static const struct pb_share_view verdicts[] = {
#define PB_VERDICT(name) {#name, pb_verdict_##name, pb_verdict_##name##_end},
#include "node/sql/views/verdicts.def"
#undef PB_VERDICT
};

static enum pb_type type_of(const char *word)
{
#define X(name, number, width, doc)                                                                \
    if (strcmp(word, #name) == 0)                                                                  \
        return PB_##name;
    PB_TYPES(X)
#undef X
    return PB_TEXT;
}

/* The next cell of a comment: up to two blanks. */
static char *parse_cell(struct pb_arena *a, const char **at, const char *end)
{
    const char *start, *stop;

    while (*at < end && **at == ' ')
        ++*at;
    start = stop = *at;
    while (stop < end && !(stop[0] == ' ' && (stop + 1 == end || stop[1] == ' ')))
        stop++;
    *at = stop;
    return pb_arena_strndup(a, start, (size_t)(stop - start));
}

static void add_column_line(struct pb_catalog *c, struct pb_catalog_table *t, const char *at,
                            const char *end)
{
    const char *name = parse_cell(&c->arena, &at, end);
    const char *type = parse_cell(&c->arena, &at, end);
    const char *unit = parse_cell(&c->arena, &at, end);
    const char *doc = parse_cell(&c->arena, &at, end);

    if (!*doc) {
        doc = unit;
        unit = "";
    }
    pb_catalog_add_column(c, t, name, type_of(type), unit, doc);
}

/* The comments at the start of a file are the words of its table; returns what stands behind. */
static const char *read_words(struct pb_catalog *c, struct pb_catalog_table *t, const char *line,
                              const char *file_end)
{
    while (line < file_end && strncmp(line, "--", 2) == 0) {
        const char *end = memchr(line, '\n', (size_t)(file_end - line));
        const char *colon;

        end = end ? end : file_end;
        colon = memchr(line, ':', (size_t)(end - line));
        if (strncmp(line, "--   ", 5) == 0)
            add_column_line(c, t, line + 5, end);
        else if (colon)
            t->doc = pb_arena_strndup(&c->arena, colon + 2, (size_t)(end - colon - 2));
        line = end < file_end ? end + 1 : end;
    }
    return line;
}

static void add_view(struct pb_catalog *c, const struct pb_share_view *view)
{
    struct pb_catalog_table *t = pb_catalog_add(c, view->name, "", PB_FROM_VIEW);
    const char *sql = read_words(c, t, view->text, view->end);

    t->sql = pb_arena_strndup(&c->arena, sql, (size_t)(view->end - sql));
}

/* All rules as one statement, so that one look serves them all. */
static void add_verdicts(struct pb_catalog *c)
{
    struct pb_catalog_table *t = pb_catalog_add(c, "verdicts", "", PB_FROM_VIEW);
    const char *end = read_words(c, t, pb_verdict_all, pb_verdict_all_end);
    struct pb_buf b = PB_BUF_INIT;

    pb_buf_printf(&b, "WITH %s, found AS (", pb_verdict_facts);
    for (size_t i = 0; i < sizeof verdicts / sizeof *verdicts; i++)
        pb_buf_printf(&b, "%sSELECT %zu AS precedence, '%s' AS rule, * FROM (\n%s\n)",
                      i ? " UNION ALL BY NAME " : "", i, verdicts[i].name, verdicts[i].text);
    pb_buf_printf(&b, ")\n%s", end);
    t->sql = pb_arena_strdup(&c->arena, b.data);
    pb_buf_finish(&b);
}

void pb_catalog_add_views(struct pb_catalog *c)
{
    for (const struct pb_share_view *v = pb_share_views; v->name; v++)
        add_view(c, v);
    add_verdicts(c);
}
