/* Which tables a statement reads, through views as well. */
#include <string.h>
#include <strings.h>

#include "node/sql/internal.h"
#include "node/sql/text/text.h"

enum { DEPTH_MAX = 5 }; /* views over views over tables */

struct collecting {
    struct pb_catalog *catalog;
    struct pb_arena *arena;
    struct pb_sql_source *v;
    size_t n, cap;
};

static bool has_column(const struct pb_catalog_table *t, const char *name)
{
    for (size_t i = 0; i < t->ncolumns; i++)
        if (strcasecmp(t->columns[i].name, name) == 0)
            return true;
    return false;
}

static void add(struct collecting *c, const struct pb_catalog_table *t)
{
    for (size_t i = 0; i < c->n; i++)
        if (strcmp(c->v[i].name, t->name) == 0)
            return;
    if (c->n == c->cap)
        return;
    c->v[c->n++] = (struct pb_sql_source){
        .name = pb_arena_strdup(c->arena, t->name),
        .live = t->source == PB_FROM_LIVE,
        .view = t->source == PB_FROM_VIEW,
        .shared = t->shared,
        .timed = t->source == PB_FROM_RING && has_column(t, "timestamp"),
    };
}

/* A name with a schema may stand anywhere; a bare one is a table behind FROM, JOIN or a comma. */
static void collect(struct collecting *c, const char *sql, size_t len, int depth)
{
    struct pb_sql_token t, before = {PB_SQL_END, 0, 0};
    char name[PB_RING_NAME];
    size_t pos = 0;

    for (; (t = pb_sql_next(sql, len, &pos)).kind != PB_SQL_END; before = t) {
        const struct pb_catalog_table *table;

        if ((t.kind != PB_SQL_WORD && t.kind != PB_SQL_QUOTED) ||
            (before.kind == PB_SQL_SYMBOL && sql[before.at] == '.'))
            continue;
        pb_sql_name_at(sql, len, t.at, name, sizeof name);
        if (!strchr(name, '.') && !pb_sql_is(sql, before, "from") &&
            !pb_sql_is(sql, before, "join") && !pb_sql_is(sql, before, ","))
            continue;
        table = pb_catalog_find(c->catalog, name);
        if (!table)
            continue;
        add(c, table);
        if (table->source == PB_FROM_VIEW && depth > 0)
            collect(c, table->sql, strlen(table->sql), depth - 1);
    }
}

size_t pb_sql_sources(struct pb_sql *s, const char *sql, struct pb_arena *a,
                      struct pb_sql_source **ret)
{
    struct collecting c = {.catalog = &s->catalog, .arena = a};

    pthread_rwlock_rdlock(&s->catalog_lock);
    c.cap = s->catalog.ntables;
    c.v = PB_NEW_N(a, struct pb_sql_source, c.cap + 1);
    collect(&c, sql, strlen(sql), DEPTH_MAX);
    pthread_rwlock_unlock(&s->catalog_lock);
    *ret = c.v;
    return c.n;
}
