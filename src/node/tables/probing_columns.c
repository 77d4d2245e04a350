/*
 * probing.columns - every column of every table, with its type, its unit and what it means.
 */
#include <string.h>

#include "node/sql/catalog.h"
#include "node/tables/read/common.h"

static pb_live_fill fill;

#define COLUMNS(X)                                                                                 \
    X(name, NAME, "", "the table as it is written in SQL")                                         \
    X(schema, NAME, "", "the part in front of the point")                                          \
    X(table, NAME, "", "the part behind the point")                                                \
    X(position, INT, "", "place in the table, from 1")                                             \
    X(column, NAME, "", "name of the column")                                                      \
    X(type, NAME, "", "type in SQL")                                                               \
    X(unit, NAME, "", "unit of the column's numbers")                                              \
    X(doc, TEXT, "", "what the column means")                                                      \
    PB_LIVE_COMMON(X)

PB_TABLE_COLUMNS(COLUMNS);

const struct pb_live pb_live_probing_columns = {
    PB_TABLE_SPEC("probing.columns", "every column: type, unit, meaning"),
    .fill = fill,
};

static void add_column(struct pb_node *n, struct pb_rows *rows, const struct pb_sql_table *t,
                       size_t at)
{
    const struct pb_column_spec *c = &t->columns[at];
    struct pb_row_cell *row = pb_rows_add(rows);

    pb_live_table_name(rows, row, AT_name, t->name);
    pb_rows_int(row, AT_position, (int64_t)at + 1);
    pb_rows_text(rows, row, AT_column, c->name);
    pb_rows_text(rows, row, AT_type, pb_catalog_type_name(c->type));
    pb_rows_text(rows, row, AT_unit, c->unit && *c->unit ? c->unit : NULL);
    pb_rows_text(rows, row, AT_doc, c->doc && *c->doc ? c->doc : NULL);
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
