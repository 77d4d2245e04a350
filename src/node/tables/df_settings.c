/*
 * information_schema.df_settings - settings of the process in scope, or of the node, under the name
 * that the seeds use. Not in live.def: it lies in the engine's own schema.
 */
#include "node/sql/settings.h"
#include "node/tables/read/common.h"

static pb_live_fill fill;

#define COLUMNS(X)                                                                                 \
    X(name, NAME, "", "name of the setting, with probing. in front")                               \
    X(value, NAME, "", "value of the setting")

PB_TABLE_COLUMNS(COLUMNS);

const struct pb_live pb_live_df_settings = {
    PB_TABLE_SPEC("information_schema.df_settings", "settings and their values"),
    .fill = fill,
};

static int fill(struct pb_node *n, const struct pb_scope *scope, const bool *wanted,
                struct pb_rows *rows, struct pb_err *err)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_node_value *v = NULL;
    size_t count = 0;
    int rc = pb_node_get(n, scope, NULL, &a, &v, &count, err);

    (void)wanted;
    for (size_t i = 0; i < count; i++) {
        struct pb_row_cell *row = pb_rows_add(rows);

        pb_rows_text(rows, row, AT_name, pb_arena_printf(&a, "probing.%s", v[i].name));
        pb_rows_text(rows, row, AT_value, v[i].value);
    }
    pb_arena_finish(&a);
    return rc;
}
