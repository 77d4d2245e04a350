/*
 * probing.settings - the settings of the process in scope, or of the node.
 */
#include "node/tables/common.h"

static int fill(struct pb_node *n, const struct pb_scope *scope, const bool *wanted,
                struct pb_rows *rows, struct pb_err *err);

enum { NAME, VALUE, DEFAULT, DOC };

static const struct pb_column_spec columns[] = {
    [NAME] = {"name", PB_NAME, "", "SET probing.<name> = … changes it"},
    [VALUE] = {"value", PB_NAME, "", "its value now"},
    [DEFAULT] = {"default", PB_NAME, "", "what it is when nobody says"},
    [DOC] = {"doc", PB_TEXT, "", "what it does"},
    PB_LIVE_COMMON,
};

const struct pb_live pb_live_probing_settings = {
    .name = "probing.settings",
    .doc = "settings of the process in scope, or of the node",
    .columns = columns,
    .ncolumns = PB_COUNT_OF(columns),
    .fill = fill,
};

static int fill(struct pb_node *n, const struct pb_scope *scope, const bool *wanted,
                struct pb_rows *rows, struct pb_err *err)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_node_value *v = NULL;
    size_t count = 0;
    bool one = !pb_scope_is_node(scope) && scope->nprocesses == 1;
    int rc = pb_node_get(n, scope, NULL, &a, &v, &count, err);

    (void)wanted;
    for (size_t i = 0; i < count; i++) {
        struct pb_row_cell *row = pb_rows_add(rows);

        pb_rows_text(rows, row, NAME, v[i].name);
        pb_rows_text(rows, row, VALUE, v[i].value);
        pb_rows_text(rows, row, DEFAULT, v[i].otherwise);
        pb_rows_text(rows, row, DOC, v[i].doc);
        pb_live_common(rows, row, n->host, one ? scope->processes[0].pid : 0, -1);
    }
    pb_arena_finish(&a);
    return rc;
}
