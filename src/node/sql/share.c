/*
 * The files of share/views, carried inside the executable. Each opens with comments that say what
 * the view and its columns are: "-- name: doc", then "--   column  TYPE  unit  doc" (two blanks or
 * more between; no unit: "--   column  TYPE  doc").
 */
#include <string.h>

#include "node/sql/catalog.h"
#include "node/sql/text.h"

#define PB_VIEW(name)                                                                              \
    __asm__(".pushsection .rodata\n"                                                               \
            "pb_view_" #name "_start:\n"                                                           \
            ".incbin \"" PB_VIEWS_DIR "/" #name ".sql\"\n"                                         \
            "pb_view_" #name "_end:\n"                                                             \
            ".byte 0\n"                                                                            \
            ".popsection\n");                                                                      \
    extern const char pb_view_##name##_start[] __attribute__((visibility("hidden")));              \
    extern const char pb_view_##name##_end[] __attribute__((visibility("hidden")));
#include "node/sql/views.def"
#undef PB_VIEW

const struct pb_share_view pb_share_views[] = {
#define PB_VIEW(name) {#name, pb_view_##name##_start, pb_view_##name##_end},
#include "node/sql/views.def"
#undef PB_VIEW
    {NULL, NULL, NULL},
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
static char *take_cell(struct pb_arena *a, const char **at, const char *end)
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
    const char *name = take_cell(&c->arena, &at, end);
    const char *type = take_cell(&c->arena, &at, end);
    const char *unit = take_cell(&c->arena, &at, end);
    const char *doc = take_cell(&c->arena, &at, end);

    if (!*doc) {
        doc = unit;
        unit = "";
    }
    pb_catalog_add_column(c, t, name, type_of(type), unit, doc);
}

static void add_view(struct pb_catalog *c, const struct pb_share_view *view)
{
    struct pb_catalog_table *t = pb_catalog_add(c, view->name, "", PB_FROM_VIEW);
    const char *line = view->text;

    while (line < view->end && strncmp(line, "--", 2) == 0) {
        const char *end = memchr(line, '\n', (size_t)(view->end - line));
        const char *colon;

        end = end ? end : view->end;
        colon = memchr(line, ':', (size_t)(end - line));
        if (strncmp(line, "--   ", 5) == 0)
            add_column_line(c, t, line + 5, end);
        else if (colon)
            t->doc = pb_arena_strndup(&c->arena, colon + 2, (size_t)(end - colon - 2));
        line = end < view->end ? end + 1 : end;
    }
    t->sql = pb_arena_strndup(&c->arena, line, (size_t)(view->end - line));
}

void pb_catalog_add_views(struct pb_catalog *c)
{
    for (const struct pb_share_view *v = pb_share_views; v->name; v++)
        add_view(c, v);
}
