/* Putting values into the engine's vectors. */
#include <string.h>

#include "host/text/buf.h"
#include "node/sql/internal.h"
#include "store/reader.h"

/*
 * The one place where text enters the engine, which takes it for UTF-8 without a look and breaks on
 * anything else. Bytes that are not come out as \xNN.
 */
static void escape(struct pb_buf *b, const char *s, size_t len)
{
    pb_buf_add(b, "", 0);
    for (size_t i = 0; i < len;) {
        size_t n = pb_reader_valid(s + i, len - i);

        pb_buf_add(b, s + i, n);
        if (i + n < len)
            pb_buf_printf(b, "\\x%02x", (unsigned char)s[i + n]);
        i += n + 1;
    }
}

void pb_sql_put_text(const struct pb_duck *d, duckdb_vector v, uint64_t row, const char *s,
                     size_t len)
{
    struct pb_buf b = PB_BUF_INIT;

    if (pb_reader_valid(s, len) == len) {
        d->unsafe_vector_assign_string_element_len(v, row, s, len);
        return;
    }
    escape(&b, s, len);
    d->unsafe_vector_assign_string_element_len(v, row, b.data, b.len);
    pb_buf_finish(&b);
}

duckdb_value pb_sql_text_value(const struct pb_duck *d, const char *s)
{
    struct pb_buf b = PB_BUF_INIT;
    duckdb_value value;
    size_t len = strlen(s);

    if (pb_reader_valid(s, len) == len)
        return d->create_varchar(s);
    escape(&b, s, len);
    pb_buf_putc(&b, '\0');
    value = d->create_varchar(b.data);
    pb_buf_finish(&b);
    return value;
}

void pb_sql_put_nulls(const struct pb_duck *d, duckdb_vector v, size_t n)
{
    d->vector_ensure_validity_writable(v);
    memset(d->vector_get_validity(v), 0, (n + 63) / 64 * sizeof(uint64_t));
}

duckdb_logical_type pb_sql_type(const struct pb_duck *d, enum pb_type type)
{
    switch (type) {
    case PB_TIME:
        return d->create_logical_type(DUCKDB_TYPE_TIMESTAMP_TZ);
    case PB_INT:
        return d->create_logical_type(DUCKDB_TYPE_BIGINT);
    case PB_REAL:
        return d->create_logical_type(DUCKDB_TYPE_DOUBLE);
    case PB_BOOL:
        return d->create_logical_type(DUCKDB_TYPE_BOOLEAN);
    case PB_NAME:
    case PB_TEXT:
        break;
    }
    return d->create_logical_type(DUCKDB_TYPE_VARCHAR);
}

const char *pb_catalog_type_name(enum pb_type type)
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

bool pb_catalog_type(const char *name, enum pb_type *ret)
{
    static const enum pb_type types[] = {PB_TIME, PB_INT, PB_REAL, PB_BOOL, PB_TEXT};

    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(pb_catalog_type_name(types[i]), name) == 0) {
            *ret = types[i];
            return true;
        }
    return false;
}
