/* Columns of users' tables, asked of all nodes when this one does not know them. */
#include <string.h>

#include "base/clock.h"
#include "node/global/pieces.h"
#include "node/sql/elsewhere.h"
#include "node/sql/text/text.h"

#define LEARN_MS 2000
#define LEARN_BYTES (1 << 20)

static const char *body_of(struct pb_gathering *g, const char *const *names, size_t n)
{
    struct pb_buf sql = PB_BUF_INIT, b = PB_BUF_INIT;
    const char *copy;

    pb_buf_puts(&sql, "SELECT [name, \"column\", type] AS found FROM probing.columns "
                      "WHERE name IN (");
    for (size_t i = 0; i < n; i++) {
        pb_buf_puts(&sql, i ? "," : "");
        pb_sql_literal(&sql, names[i]);
    }
    pb_buf_puts(&sql, ") ORDER BY name, position");
    pb_buf_puts(&b, "{\"quiet\":true,\"format\":\"json\",\"sql\":");
    pb_json_string(&b, sql.data);
    pb_buf_putc(&b, '}');
    copy = pb_arena_strdup(g->arena, b.data);
    pb_buf_finish(&sql);
    pb_buf_finish(&b);
    return copy;
}

/* [{"found":[…]},…] as [[…],…] */
static struct pb_json *read_rows(struct pb_gathering *g, const struct pb_global_node *node)
{
    struct pb_json *rows = PB_NEW(g->arena, struct pb_json);

    if (!node->answered || !node->answer.data ||
        pb_json_parse(g->arena, node->answer.data, node->answer.len, rows, NULL) < 0 ||
        rows->type != PB_J_ARRAY)
        return NULL;
    for (size_t i = 0; i < rows->n; i++) {
        const struct pb_json *found = pb_json_get(&rows->items[i], "found");

        if (found)
            rows->items[i] = *found;
    }
    return rows;
}

bool pb_global_learn(struct pb_gathering *g)
{
    uint64_t until = pb_clock_ns() + LEARN_MS * PB_MS_NS;
    struct pb_global_nodes nodes = {0};
    struct pb_err ignored = {0};
    const char **names;
    size_t n = pb_sql_user_tables(g->q->sql, g->arena, &names);
    bool changed = false;

    if (n && pb_global_ask(g->n, g->scope, "/api/query", body_of(g, names, n), LEARN_BYTES,
                           until < g->deadline_ns ? until : g->deadline_ns, g->q->cancelled,
                           g->arena, &nodes, &ignored) == 0)
        for (size_t i = 0; i < nodes.n; i++)
            changed |= pb_sql_learn(g->n->sql, read_rows(g, &nodes.v[i]));
    pb_global_finish(&nodes);
    return changed;
}
