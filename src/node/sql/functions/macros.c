/* Functions of another engine that users know, as macros of this one. */
#include <string.h>

#include "node/sql/internal.h"

static const struct macro {
    const char *name, *parameters, *expression;
} macros[] = {
#define PB_MACRO(name, parameters, expression) {#name, parameters, expression},
#include "node/sql/functions/macros.def"
#undef PB_MACRO
};

/* All in one text: it is the number of statements that takes time. */
int pb_sql_macros_register(struct pb_sql *s, duckdb_connection c)
{
    size_t n = sizeof macros / sizeof *macros;
    struct pb_buf b = PB_BUF_INIT;
    duckdb_result r;
    int rc;

    pb_buf_puts(&b, "BEGIN; ");
    for (size_t i = 0; i < n; i++) {
        bool again = i && strcmp(macros[i - 1].name, macros[i].name) == 0;

        pb_buf_printf(&b, "%s%s (%s) AS %s", again ? ", " : "CREATE MACRO memory.main.",
                      again ? "" : macros[i].name, macros[i].parameters, macros[i].expression);
        if (i + 1 == n || strcmp(macros[i + 1].name, macros[i].name) != 0)
            pb_buf_puts(&b, "; ");
    }
    pb_buf_puts(&b, "COMMIT");
    rc = s->duck->query(c, b.data, &r) == 0 ? 0 : -1;
    s->duck->destroy_result(&r);
    pb_buf_finish(&b);
    return rc;
}
