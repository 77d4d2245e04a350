#include "node/sql/elsewhere.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "host/text/alloc.h"
#include "host/text/json_write.h"
#include "node/sql/internal.h"
#include "node/sql/text/text.h"

enum { COLUMNS_MAX = 4096, NAMES_MAX = 256 };

void pb_elsewhere_finish(struct pb_elsewhere *e)
{
    free(e->v);
    *e = (struct pb_elsewhere){0};
}

void pb_elsewhere_add(struct pb_catalog *c, const struct pb_elsewhere *e)
{
    for (size_t i = 0; i < e->n; i++) {
        const struct pb_elsewhere_column *from = &e->v[i];
        struct pb_catalog_table *t = pb_catalog_find(c, from->table);

        if (!t)
            t = pb_catalog_add(c, from->table, "", PB_FROM_RING);
        if (t->source == PB_FROM_RING && !pb_catalog_widen(t, from->name, from->type))
            pb_catalog_add_column(c, t, from->name, from->type, "", "");
    }
}

/* Those that every table has. */
static bool is_common(const char *name)
{
    return strcasecmp(name, "host") == 0 || strcasecmp(name, "pid") == 0 ||
           strcasecmp(name, "rank") == 0;
}

static bool learn_column(struct pb_elsewhere *e, const char *table, const char *name,
                         enum pb_type type)
{
    struct pb_elsewhere_column *one;
    char buf[PB_CATALOG_NAME];

    if (is_common(name) || strlen(table) >= PB_RING_NAME || !*pb_catalog_column(name, buf))
        return false;
    name = buf;
    for (size_t i = 0; i < e->n; i++) {
        one = &e->v[i];
        if (strcmp(one->table, table) != 0 || strcasecmp(one->name, name) != 0)
            continue;
        if (one->type != PB_INT || type != PB_REAL)
            return false;
        one->type = PB_REAL;
        return true;
    }
    if (e->n == COLUMNS_MAX)
        return false;
    if (e->n == e->cap) {
        e->cap = e->cap ? e->cap * 2 : 32;
        e->v = pb_alloc_resize(e->v, e->cap * sizeof *e->v);
    }
    one = &e->v[e->n++];
    *one = (struct pb_elsewhere_column){.type = type};
    snprintf(one->table, sizeof one->table, "%s", table);
    snprintf(one->name, sizeof one->name, "%s", name);
    return true;
}

static const char *cell(const struct pb_json *row, size_t i)
{
    return row->type == PB_J_ARRAY && i < row->n && row->items[i].type == PB_J_STRING
               ? row->items[i].s
               : "";
}

bool pb_sql_learn(struct pb_sql *s, const struct pb_json *rows)
{
    bool changed = false;
    enum pb_type type;

    if (!rows || rows->type != PB_J_ARRAY || !rows->n)
        return false;
    pthread_rwlock_wrlock(&s->catalog_lock);
    for (size_t i = 0; i < rows->n; i++) {
        const struct pb_json *row = &rows->items[i];

        if (pb_catalog_is_table_name(cell(row, 0)) && !pb_catalog_is_known(cell(row, 0)) &&
            pb_catalog_type(cell(row, 2), &type))
            changed |= learn_column(&s->elsewhere, cell(row, 0), cell(row, 1), type);
    }
    s->elsewhere.changes += changed;
    pthread_rwlock_unlock(&s->catalog_lock);
    return changed;
}

void pb_elsewhere_put(struct pb_buf *b, const struct pb_catalog_table *t)
{
    for (size_t i = 0; i < t->ncolumns; i++) {
        pb_json_comma(b);
        pb_buf_putc(b, '[');
        pb_json_string(b, t->name);
        pb_json_comma(b);
        pb_json_string(b, t->columns[i].name);
        pb_json_comma(b);
        pb_json_string(b, pb_catalog_type_name(t->columns[i].type));
        pb_buf_putc(b, ']');
    }
}

static bool has_row(const struct pb_json *rows, const char *table, const char *column)
{
    for (size_t i = 0; i < rows->n; i++)
        if (strcmp(cell(&rows->items[i], 0), table) == 0 &&
            strcasecmp(cell(&rows->items[i], 1), column) == 0)
            return true;
    return false;
}

const char *pb_elsewhere_missing(const struct pb_catalog *c, const struct pb_json *rows,
                                 struct pb_arena *a)
{
    const char *last = "";

    for (size_t i = 0; i < rows->n; i++) {
        const char *name = cell(&rows->items[i], 0);
        const struct pb_catalog_table *t = strcmp(name, last) != 0 ? pb_catalog_find(c, name)
                                                                   : NULL;

        for (size_t k = 0; t && k < t->ncolumns; k++)
            if (!has_row(rows, name, t->columns[k].name))
                return pb_arena_printf(a, "%s.%s", name, t->columns[k].name);
        last = name;
    }
    return NULL;
}

size_t pb_sql_user_tables(const char *sql, struct pb_arena *a, const char ***ret)
{
    char schema[PB_RING_NAME], name[PB_RING_NAME];
    size_t pos = 0, len = strlen(sql), n = 0;
    struct pb_sql_token t;

    *ret = PB_NEW_N(a, const char *, NAMES_MAX);
    while (n < NAMES_MAX && (t = pb_sql_next(sql, len, &pos)).kind != PB_SQL_END) {
        size_t after = pos;
        char *full;

        if (!pb_sql_name(sql, t, schema, sizeof schema) ||
            !pb_sql_is(sql, pb_sql_next(sql, len, &after), ".") ||
            !pb_sql_name(sql, pb_sql_next(sql, len, &after), name, sizeof name))
            continue;
        full = pb_arena_printf(a, "%s.%s", schema, name);
        for (char *c = full; *c; c++)
            *c = (char)(*c >= 'A' && *c <= 'Z' ? *c | 32 : *c);
        if (pb_catalog_is_table_name(full) && !pb_catalog_is_known(full))
            (*ret)[n++] = full;
    }
    return n;
}
