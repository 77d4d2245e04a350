/*
 * probing.columns - every column of every table, with its type, its unit and what it means.
 */
#include <string.h>

#include "node/tables/common.h"

static int fill(struct pb_node *n, const struct pb_scope *scope, const bool *wanted,
                struct pb_rows *rows, struct pb_err *err);

enum { NAME, SCHEMA, TABLE, POSITION, COLUMN, TYPE, UNIT, DOC };

static const struct pb_column_spec columns[] = {
    [NAME] = {"name", PB_NAME, "", "the table as it is written in SQL"},
    [SCHEMA] = {"schema", PB_NAME, "", "the part in front of the point"},
    [TABLE] = {"table", PB_NAME, "", "the part behind it"},
    [POSITION] = {"position", PB_INT, "", "place in the table, from 1"},
    [COLUMN] = {"column", PB_NAME, "", "name of the column"},
    [TYPE] = {"type", PB_NAME, "", "type in SQL"},
    [UNIT] = {"unit", PB_NAME, "", "of its numbers"},
    [DOC] = {"doc", PB_TEXT, "", "what it means"},
    PB_LIVE_COMMON,
};

const struct pb_live pb_live_probing_columns = {
    .name = "probing.columns",
    .doc = "every column: type, unit, meaning",
    .columns = columns,
    .ncolumns = PB_COUNT_OF(columns),
    .fill = fill,
};

static const char *type_name(enum pb_type type)
{
    switch (type) {
    case PB_TIME:
        return "TIMESTAMP WITH TIME ZONE";
    case PB_INT:
        return "BIGINT";
    case PB_REAL:
        return "DOUBLE";
    case PB_BOOL:
        return "BOOLEAN";
    case PB_NAME:
    case PB_TEXT:
        return "VARCHAR";
    }
    return NULL;
}

static void add_column(struct pb_node *n, struct pb_rows *rows, const struct pb_sql_table *t,
                       size_t at)
{
    const struct pb_column_spec *c = &t->columns[at];
    struct pb_row_cell *row = pb_rows_add(rows);
    const char *point = strchr(t->name, '.');

    pb_rows_text(rows, row, NAME, t->name);
    pb_rows_text(rows, row, SCHEMA,
                 point ? pb_arena_strndup(&rows->arena, t->name, (size_t)(point - t->name))
                       : "main");
    pb_rows_text(rows, row, TABLE, point ? point + 1 : t->name);
    pb_rows_int(row, POSITION, (int64_t)at + 1);
    pb_rows_text(rows, row, COLUMN, c->name);
    pb_rows_text(rows, row, TYPE, type_name(c->type));
    pb_rows_text(rows, row, UNIT, c->unit && *c->unit ? c->unit : NULL);
    pb_rows_text(rows, row, DOC, c->doc && *c->doc ? c->doc : NULL);
    pb_live_common(rows, row, n->host, 0, -1);
}

static int fill(struct pb_node *n, const struct pb_scope *scope, const bool *wanted,
                struct pb_rows *rows, struct pb_err *err)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_sql_table *v = NULL;
    size_t count = pb_sql_tables(n->sql, &a, &v);

    (void)scope;
    (void)wanted;
    (void)err;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < v[i].ncolumns; k++)
            add_column(n, rows, &v[i], k);
    pb_arena_finish(&a);
    return 0;
}
