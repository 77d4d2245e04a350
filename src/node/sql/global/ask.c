/* Questions of the node itself: a few whole numbers, read out of the engine's own vectors. */
#include <string.h>

#include "base/clock.h"
#include "node/sql/statement.h"

static int64_t cell(const struct pb_duck *d, duckdb_data_chunk chunk, size_t column)
{
    duckdb_vector v = d->data_chunk_get_vector(chunk, column);
    const uint64_t *validity = d->vector_get_validity(v);

    return validity && !(validity[0] & 1) ? PB_NULL_INT : *(int64_t *)d->vector_get_data(v);
}

bool pb_sql_ask(struct pb_sql *s, const struct pb_scope *scope, int timeout_ms, const char *sql,
                int64_t *ret, size_t n)
{
    struct pb_sql_task task = {.sql = s, .scope = scope, .entry = -1, .timeout_ms = timeout_ms,
                               .deadline_ns = pb_clock_ns() + (uint64_t)timeout_ms * 1000000u};
    const struct pb_duck *d = s->duck;
    struct pb_sql_error err = {.at = -1};
    duckdb_data_chunk chunk = NULL;
    struct pb_statement st;
    bool found = false, failed;

    if (pb_sql_warm(s, &err.err) < 0)
        return false;
    if (pb_statement_open(&st, s, &task, sql, strlen(sql), 0, &err) == 0 &&
        pb_statement_prepare(&st) == 0 && d->prepared_statement_column_count(st.prepared) == n &&
        pb_statement_start(&st) == 0)
        chunk = pb_statement_fetch(&st, &failed);
    found = chunk && d->data_chunk_get_size(chunk) > 0;
    for (size_t i = 0; found && i < n; i++)
        ret[i] = cell(d, chunk, i);
    if (chunk)
        d->destroy_data_chunk(&chunk);
    pb_statement_close(&st);
    return found;
}
