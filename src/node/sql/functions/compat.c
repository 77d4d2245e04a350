/*
 * What users write and DuckDB does not know: `now() - 60` (seconds), the table of settings that
 * stands in a schema where no view can be made, and functions by another engine's name.
 */
#include <string.h>
#include <strings.h>

#include "node/sql/internal.h"
#include "node/sql/settings.h"

/* timestamp - seconds, in microseconds; both kinds of timestamp are the same number. */
static void minus_seconds(duckdb_function_info info, duckdb_data_chunk input,
                          duckdb_vector output)
{
    const struct pb_duck *d = pb_duck();
    duckdb_vector left = d->data_chunk_get_vector(input, 0);
    duckdb_vector right = d->data_chunk_get_vector(input, 1);
    const int64_t *times = d->vector_get_data(left), *seconds = d->vector_get_data(right);
    int64_t *out = d->vector_get_data(output);
    size_t n = d->data_chunk_get_size(input);

    for (size_t i = 0; i < n; i++) {
        int64_t micros;

        if (__builtin_mul_overflow(seconds[i], INT64_C(1000000), &micros) ||
            __builtin_sub_overflow(times[i], micros, &out[i])) {
            d->scalar_function_set_error(info, "timestamp out of range");
            return;
        }
    }
}

static int add_minus(const struct pb_duck *d, duckdb_connection c, int type)
{
    duckdb_scalar_function f = d->create_scalar_function();
    duckdb_logical_type time = d->create_logical_type(type);
    duckdb_logical_type seconds = d->create_logical_type(DUCKDB_TYPE_BIGINT);
    int rc;

    d->scalar_function_set_name(f, "-");
    d->scalar_function_add_parameter(f, time);
    d->scalar_function_add_parameter(f, seconds);
    d->scalar_function_set_return_type(f, time);
    d->scalar_function_set_function(f, minus_seconds);
    rc = d->register_scalar_function(c, f) == 0 ? 0 : -1;
    d->destroy_logical_type(&time);
    d->destroy_logical_type(&seconds);
    d->destroy_scalar_function(&f);
    return rc;
}

/* Asked for each table that the engine does not find; it tells only the last part of the name. */
static void replace(duckdb_replacement_scan_info info, const char *table, void *data)
{
    const struct pb_duck *d = pb_duck();
    duckdb_value name;

    (void)data;
    if (strcasecmp(table, "df_settings") != 0)
        return;
    name = pb_sql_text_value(d, pb_live_df_settings.name);
    d->replacement_scan_set_function_name(info, "probing_live");
    d->replacement_scan_add_parameter(info, name);
    d->destroy_value(&name);
}

int pb_sql_compat_register(struct pb_sql *s, duckdb_connection c)
{
    s->duck->add_replacement_scan(s->db, replace, NULL, NULL);
    return add_minus(s->duck, c, DUCKDB_TYPE_TIMESTAMP_TZ) < 0 ||
                   add_minus(s->duck, c, DUCKDB_TYPE_TIMESTAMP) < 0 ||
                   pb_sql_macros_register(s, c) < 0
               ? -1
               : 0;
}
