#include "node/sql/answer/value.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/text/number.h"
#include "node/sql/answer/value_time.h"

static void put_uint(struct pb_buf *b, uint64_t v)
{
    char text[20];
    size_t n = sizeof text;

    do {
        text[--n] = (char)('0' + v % 10);
        v /= 10;
    } while (v);
    pb_buf_add(b, text + n, sizeof text - n);
}

static void put_int(struct pb_buf *b, int64_t v)
{
    if (v < 0)
        pb_buf_putc(b, '-');
    put_uint(b, v < 0 ? -(uint64_t)v : (uint64_t)v);
}

static void put_wide(struct pb_buf *b, unsigned __int128 v, bool negative, int scale)
{
    char text[48];
    size_t n = sizeof text;
    int digits = 0;

    do {
        if (scale > 0 && digits == scale)
            text[--n] = '.';
        text[--n] = (char)('0' + (int)(v % 10));
        v /= 10;
        digits++;
    } while (v || digits <= scale);
    if (negative)
        text[--n] = '-';
    pb_buf_add(b, text + n, sizeof text - n);
}

static void put_huge(struct pb_buf *b, const duckdb_hugeint *h, bool is_signed, int scale)
{
    unsigned __int128 v = (unsigned __int128)(uint64_t)h->upper << 64 | h->lower;
    bool negative = is_signed && h->upper < 0;

    put_wide(b, negative ? -v : v, negative, scale);
}

/* The shortest digits that read back as the same number. */
static void put_double(struct pb_buf *b, double v, bool is_single, bool json)
{
    char text[PB_NUMBER_TEXT];

    if (!isfinite(v)) {
        if (json)
            pb_buf_puts(b, "null");
        else
            pb_buf_puts(b, isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
        return;
    }
    if (fabs(v) < 1e15 && v == (double)(int64_t)v) {
        if (v == 0 && signbit(v))
            pb_buf_putc(b, '-');
        put_int(b, (int64_t)v);
        pb_buf_puts(b, ".0");
        return;
    }
    pb_number_shortest(v, is_single, 'g', text);
    pb_buf_puts(b, text);
}

static uint64_t stored_uint(int storage, const void *data, uint64_t row)
{
    switch (storage) {
    case DUCKDB_TYPE_UTINYINT:
        return ((const uint8_t *)data)[row];
    case DUCKDB_TYPE_USMALLINT:
        return ((const uint16_t *)data)[row];
    default:
        return ((const uint32_t *)data)[row];
    }
}

static void put_decimal(struct pb_buf *b, const struct pb_value_type *t, const void *data,
                        uint64_t row)
{
    duckdb_hugeint wide = {0};
    int64_t v;

    switch (t->storage) {
    case DUCKDB_TYPE_SMALLINT:
        v = ((const int16_t *)data)[row];
        break;
    case DUCKDB_TYPE_INTEGER:
        v = ((const int32_t *)data)[row];
        break;
    case DUCKDB_TYPE_BIGINT:
        v = ((const int64_t *)data)[row];
        break;
    default:
        put_huge(b, (const duckdb_hugeint *)data + row, true, t->scale);
        return;
    }
    wide.lower = (uint64_t)v;
    wide.upper = v < 0 ? -1 : 0;
    put_huge(b, &wide, true, t->scale);
}

void pb_value_string(struct pb_buf *b, const char *s, size_t len)
{
    size_t start = 0;

    pb_buf_putc(b, '"');
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];
        const char *escape = c == '"'    ? "\\\""
                             : c == '\\' ? "\\\\"
                             : c == '\n' ? "\\n"
                             : c == '\t' ? "\\t"
                             : c == '\r' ? "\\r"
                                         : NULL;

        if (!escape && c >= 0x20)
            continue;
        pb_buf_add(b, s + start, i - start);
        if (escape)
            pb_buf_puts(b, escape);
        else
            pb_buf_printf(b, "\\u%04x", c);
        start = i + 1;
    }
    pb_buf_add(b, s + start, len - start);
    pb_buf_putc(b, '"');
}

/* Numbers and booleans: the same in JSON and in text but for what is not a number. */
static bool put_number(const struct pb_value_type *t, const void *data, uint64_t row,
                       struct pb_buf *b, bool json)
{
    switch (t->id) {
    case DUCKDB_TYPE_BOOLEAN:
        pb_buf_puts(b, ((const bool *)data)[row] ? "true" : "false");
        return true;
    case DUCKDB_TYPE_TINYINT:
        put_int(b, ((const int8_t *)data)[row]);
        return true;
    case DUCKDB_TYPE_SMALLINT:
        put_int(b, ((const int16_t *)data)[row]);
        return true;
    case DUCKDB_TYPE_INTEGER:
        put_int(b, ((const int32_t *)data)[row]);
        return true;
    case DUCKDB_TYPE_BIGINT:
        put_int(b, ((const int64_t *)data)[row]);
        return true;
    case DUCKDB_TYPE_UTINYINT:
    case DUCKDB_TYPE_USMALLINT:
    case DUCKDB_TYPE_UINTEGER:
        put_uint(b, stored_uint(t->id, data, row));
        return true;
    case DUCKDB_TYPE_UBIGINT:
        put_uint(b, ((const uint64_t *)data)[row]);
        return true;
    case DUCKDB_TYPE_FLOAT:
        put_double(b, ((const float *)data)[row], true, json);
        return true;
    case DUCKDB_TYPE_DOUBLE:
        put_double(b, ((const double *)data)[row], false, json);
        return true;
    case DUCKDB_TYPE_HUGEINT:
    case DUCKDB_TYPE_UHUGEINT:
        put_huge(b, (const duckdb_hugeint *)data + row, t->id == DUCKDB_TYPE_HUGEINT, 0);
        return true;
    case DUCKDB_TYPE_DECIMAL:
        put_decimal(b, t, data, row);
        return true;
    default:
        return false;
    }
}

/* What JSON writes in quotes; nothing in it needs an escape. */
static bool put_plain(const struct pb_value_type *t, const void *data, uint64_t row,
                      struct pb_buf *b)
{
    const int64_t *i = data;

    switch (t->id) {
    case DUCKDB_TYPE_TIMESTAMP_TZ:
    case DUCKDB_TYPE_TIMESTAMP:
        pb_value_timestamp(b, i[row], 1000000, 6, t->id == DUCKDB_TYPE_TIMESTAMP_TZ);
        return true;
    case DUCKDB_TYPE_TIMESTAMP_S:
        pb_value_timestamp(b, i[row], 1, 0, false);
        return true;
    case DUCKDB_TYPE_TIMESTAMP_MS:
        pb_value_timestamp(b, i[row], 1000, 3, false);
        return true;
    case DUCKDB_TYPE_TIMESTAMP_NS:
        pb_value_timestamp(b, i[row], 1000000000, 9, false);
        return true;
    case DUCKDB_TYPE_DATE:
        pb_value_date(b, ((const int32_t *)data)[row]);
        return true;
    case DUCKDB_TYPE_TIME:
        pb_value_clock(b, i[row], 1000000, 6);
        return true;
    case DUCKDB_TYPE_BLOB: {
        size_t len;
        const char *s = pb_duck_text((const duckdb_string_t *)data + row, &len);

        for (size_t k = 0; k < len; k++)
            pb_buf_printf(b, "%02x", (unsigned char)s[k]);
        return true;
    }
    default:
        return false;
    }
}

static void put_list(const struct pb_value_type *t, duckdb_vector v, const void *data,
                     uint64_t row, struct pb_buf *b)
{
    const struct pb_duck *d = pb_duck();
    duckdb_list_entry span = {row * t->size, t->size};
    duckdb_vector child;

    if (t->id == DUCKDB_TYPE_ARRAY) {
        child = d->array_vector_get_child(v);
    } else {
        span = ((const duckdb_list_entry *)data)[row];
        child = d->list_vector_get_child(v);
    }
    pb_buf_putc(b, '[');
    for (uint64_t i = 0; i < span.length; i++) {
        if (i)
            pb_buf_putc(b, ',');
        pb_value_json(&t->children[0], child, span.offset + i, b);
    }
    pb_buf_putc(b, ']');
}

/* A map is an object when its keys are texts or numbers, which they are written as. */
static void put_map(const struct pb_value_type *t, duckdb_vector v, const void *data,
                    uint64_t row, struct pb_buf *b)
{
    const struct pb_duck *d = pb_duck();
    duckdb_list_entry span = ((const duckdb_list_entry *)data)[row];
    duckdb_vector entries = d->list_vector_get_child(v);
    duckdb_vector keys = d->struct_vector_get_child(entries, 0);
    duckdb_vector values = d->struct_vector_get_child(entries, 1);
    struct pb_buf key = PB_BUF_INIT;

    pb_buf_putc(b, '{');
    for (uint64_t i = 0; i < span.length; i++) {
        pb_buf_clear(&key);
        pb_value_text(&t->children[0], keys, span.offset + i, &key);
        if (i)
            pb_buf_putc(b, ',');
        pb_value_string(b, key.data ? key.data : "", key.len);
        pb_buf_putc(b, ':');
        pb_value_json(&t->children[1], values, span.offset + i, b);
    }
    pb_buf_putc(b, '}');
    pb_buf_finish(&key);
}

static void put_struct(const struct pb_value_type *t, duckdb_vector v, uint64_t row,
                       struct pb_buf *b)
{
    pb_buf_putc(b, '{');
    for (size_t i = 0; i < t->nchildren; i++) {
        if (i)
            pb_buf_putc(b, ',');
        pb_value_string(b, t->names[i], strlen(t->names[i]));
        pb_buf_putc(b, ':');
        pb_value_json(&t->children[i], pb_duck()->struct_vector_get_child(v, i), row, b);
    }
    pb_buf_putc(b, '}');
}

static bool is_null(duckdb_vector v, uint64_t row)
{
    const uint64_t *validity = pb_duck()->vector_get_validity(v);

    return validity && !(validity[row / 64] >> (row % 64) & 1);
}

static void put_nested(const struct pb_value_type *t, duckdb_vector v, const void *data,
                       uint64_t row, struct pb_buf *b)
{
    if (t->id == DUCKDB_TYPE_STRUCT)
        put_struct(t, v, row, b);
    else if (t->id == DUCKDB_TYPE_MAP)
        put_map(t, v, data, row, b);
    else
        put_list(t, v, data, row, b);
}

static bool is_nested(int id)
{
    return id == DUCKDB_TYPE_STRUCT || id == DUCKDB_TYPE_MAP || id == DUCKDB_TYPE_LIST ||
           id == DUCKDB_TYPE_ARRAY;
}

void pb_value_json(const struct pb_value_type *t, duckdb_vector v, uint64_t row,
                   struct pb_buf *b)
{
    const void *data = pb_duck()->vector_get_data(v);

    if (is_null(v, row) || t->id == DUCKDB_TYPE_SQLNULL) {
        pb_buf_puts(b, "null");
    } else if (t->id == DUCKDB_TYPE_VARCHAR) {
        size_t len;
        const char *s = pb_duck_text((const duckdb_string_t *)data + row, &len);

        pb_value_string(b, s, len);
    } else if (t->id == DUCKDB_TYPE_ENUM) {
        const char *word = t->names[stored_uint(t->storage, data, row)];

        pb_value_string(b, word, strlen(word));
    } else if (is_nested(t->id)) {
        put_nested(t, v, data, row, b);
    } else if (!put_number(t, data, row, b, true)) {
        pb_buf_putc(b, '"');
        put_plain(t, data, row, b);
        pb_buf_putc(b, '"');
    }
}

bool pb_value_special(const struct pb_value_type *t, duckdb_vector v, uint64_t row,
                      struct pb_buf *b)
{
    const void *data = pb_duck()->vector_get_data(v);
    double d = t->id == DUCKDB_TYPE_DOUBLE  ? ((const double *)data)[row]
               : t->id == DUCKDB_TYPE_FLOAT ? (double)((const float *)data)[row]
                                     : 0;

    if (isfinite(d) || is_null(v, row))
        return false;
    pb_buf_putc(b, '"');
    put_double(b, d, false, false);
    pb_buf_putc(b, '"');
    return true;
}

void pb_value_text(const struct pb_value_type *t, duckdb_vector v, uint64_t row,
                   struct pb_buf *b)
{
    const void *data = pb_duck()->vector_get_data(v);

    if (is_null(v, row) || t->id == DUCKDB_TYPE_SQLNULL)
        return;
    if (t->id == DUCKDB_TYPE_VARCHAR) {
        size_t len;
        const char *s = pb_duck_text((const duckdb_string_t *)data + row, &len);

        pb_buf_add(b, s, len);
    } else if (t->id == DUCKDB_TYPE_ENUM) {
        pb_buf_puts(b, t->names[stored_uint(t->storage, data, row)]);
    } else if (is_nested(t->id)) {
        put_nested(t, v, data, row, b);
    } else if (!put_number(t, data, row, b, false)) {
        put_plain(t, data, row, b);
    }
}
