/*
 * probing.settings - the settings of the process in scope, or of the node.
 */
#include "node/tables/read/common.h"

static pb_live_fill fill;

#define COLUMNS(X)                                                                                 \
    X(name, NAME, "", "SET probing.<name> = … changes it")                                         \
    X(value, NAME, "", "value of the setting now")                                                 \
    X(default, NAME, "", "value of the setting where nobody has set it")                           \
    X(doc, TEXT, "", "what the setting does")                                                      \
    PB_LIVE_COMMON(X)

PB_TABLE_COLUMNS(COLUMNS);

const struct pb_live pb_live_probing_settings = {
    PB_TABLE_SPEC("probing.settings", "settings of the process in scope, or of the node"),
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

        pb_rows_text(rows, row, AT_name, v[i].name);
        pb_rows_text(rows, row, AT_value, v[i].value);
        pb_rows_text(rows, row, AT_default, v[i].default_value);
        pb_rows_text(rows, row, AT_doc, v[i].doc);
        pb_live_common(rows, row, n->host, one ? scope->processes[0].pid : 0, -1);
    }
    pb_arena_finish(&a);
    return rc;
}
