/* The tables that a global statement may name, as the catalog has them. */
#include <stdlib.h>
#include <string.h>

#include "node/sql/global/plan.h"
#include "node/sql/rewrite.h"
#include "node/sql/settings.h"

const char *pb_plan_aggregates(struct pb_sql *s, struct pb_sql_conn *c)
{
    static const char sql[] =
        "WITH RECURSIVE macros AS (SELECT function_name AS name, macro_definition AS text FROM "
        "duckdb_functions() WHERE function_type = 'macro'), calls AS (SELECT name, "
        "unnest(regexp_extract_all(text, '(\\w+)\"?\\s*\\(', 1)) AS called FROM macros), found AS "
        "(SELECT function_name AS name FROM duckdb_functions() WHERE function_type = 'aggregate' "
        "UNION SELECT 'unnest' UNION SELECT name FROM macros WHERE "
        "regexp_matches(text, '\\b(SELECT|OVER)\\b') UNION "
        "SELECT calls.name FROM calls JOIN found ON called = found.name) "
        "SELECT ' ' || string_agg(DISTINCT name, ' ') || ' ' FROM found";
    duckdb_data_chunk chunk;
    duckdb_result r;

    pthread_mutex_lock(&s->warm_lock);
    if (!s->aggregates && s->duck->query(c->duck, sql, &r) == 0) {
        chunk = s->duck->fetch_chunk(r);
        if (chunk && s->duck->data_chunk_get_size(chunk) == 1) {
            size_t len;
            const char *text = pb_duck_text(
                s->duck->vector_get_data(s->duck->data_chunk_get_vector(chunk, 0)), &len);

            s->aggregates = strndup(text, len);
        }
        if (chunk)
            s->duck->destroy_data_chunk(&chunk);
        s->duck->destroy_result(&r);
    }
    pthread_mutex_unlock(&s->warm_lock);
    return s->aggregates;
}

void pb_plan_learn_columns(struct pb_plan *p, struct pb_plan_table *t)
{
    const struct pb_duck *d = p->sql->duck;
    duckdb_extracted_statements extracted = NULL;
    duckdb_prepared_statement prepared = NULL;
    uint64_t n;

    if (d->extract_statements(p->conn->duck, t->sql, &extracted) == 1 &&
        d->prepare_extracted_statement(p->conn->duck, extracted, 0, &prepared) == 0) {
        n = d->prepared_statement_column_count(prepared);
        t->columns = PB_NEW_N(p->arena, const char *, n + 1);
        t->ncolumns = n;
        for (uint64_t i = 0; i < n; i++) {
            const char *name = d->prepared_statement_column_name(prepared, i);
            duckdb_logical_type type = d->prepared_statement_column_logical_type(prepared, i);

            t->columns[i] = pb_arena_strdup(p->arena, name);
            t->odd |= !pb_plan_travels(type);
            d->destroy_logical_type(&type);
            d->free((void *)(uintptr_t)name);
        }
    }
    if (prepared)
        d->destroy_prepare(&prepared);
    if (extracted)
        d->destroy_extracted(&extracted);
}

void pb_plan_copy_tables(struct pb_plan *p)
{
    const struct pb_catalog *c = &p->sql->catalog;

    p->tables = PB_NEW_N(p->arena, struct pb_plan_table, c->ntables + 1);
    for (size_t i = 0; i < c->ntables; i++) {
        const struct pb_catalog_table *from = &c->tables[i];
        struct pb_plan_table *t = &p->tables[p->ntables];
        struct pb_sql_edited text = {0};

        /* Settings are those of the node that is asked. */
        if (from->live == &pb_live_df_settings)
            continue;
        *t = (struct pb_plan_table){.name = pb_arena_strdup(p->arena, from->name),
                                    .source = from->source, .ncolumns = from->ncolumns,
                                    .users = from->source == PB_FROM_RING &&
                                             !pb_catalog_is_known(from->name)};
        t->columns = PB_NEW_N(p->arena, const char *, from->ncolumns + 1);
        for (size_t k = 0; k < from->ncolumns; k++)
            t->columns[k] = pb_arena_strdup(p->arena, from->columns[k].name);
        if (from->source == PB_FROM_VIEW) {
            pb_buf_puts(&text.text, from->sql);
            pb_rewrite_qualify(&text, c);
            t->sql = pb_arena_strdup(p->arena, text.text.data);
            pb_sql_edited_finish(&text);
        }
        p->ntables++;
    }
}

const char *pb_plan_users(struct pb_plan *p)
{
    struct pb_buf b = PB_BUF_INIT;
    const char *copy;

    pb_buf_putc(&b, '[');
    for (size_t i = 0; i < p->ntables; i++)
        if (p->tables[i].users && p->tables[i].named)
            pb_elsewhere_put(&b, pb_catalog_find(&p->sql->catalog, p->tables[i].name));
    pb_buf_putc(&b, ']');
    copy = b.len > 2 ? pb_arena_strdup(p->arena, b.data) : NULL;
    pb_buf_finish(&b);
    return copy;
}
