#include "node/sql/value.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *string_of(const struct duck_string *s)
{
    return s->len <= 12 ? s->prefix : s->p;
}

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

static void put_huge(struct pb_buf *b, const struct duck_huge *h, bool is_signed, int scale)
{
    unsigned __int128 v = (unsigned __int128)(uint64_t)h->upper << 64 | h->lower;
    bool negative = is_signed && h->upper < 0;

    put_wide(b, negative ? -v : v, negative, scale);
}

/* The shortest digits that read back as the same number. */
static void put_double(struct pb_buf *b, double v, bool is_single, bool json)
{
    char text[40];
    int digits = is_single ? 6 : 15, most = is_single ? 9 : 17;

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
    for (; digits <= most; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (is_single ? strtof(text, NULL) == (float)v : strtod(text, NULL) == v)
            break;
    }
    pb_buf_puts(b, text);
}

/* Days since 1970 to a date of the Gregorian calendar, any year. */
static void put_date(struct pb_buf *b, int64_t days)
{
    int64_t era, day, year;
    unsigned doe, yoe, doy, mp;

    if (days == INT32_MAX || days == -INT32_MAX) {
        pb_buf_puts(b, days > 0 ? "infinity" : "-infinity");
        return;
    }
    day = days + 719468;
    era = (day >= 0 ? day : day - 146096) / 146097;
    doe = (unsigned)(day - era * 146097);
    yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    year = (int64_t)yoe + era * 400;
    doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    mp = (5 * doy + 2) / 153;
    pb_buf_printf(b, "%04" PRId64 "-%02u-%02u", year + (mp >= 10), mp < 10 ? mp + 3 : mp - 9,
                  doy - (153 * mp + 2) / 5 + 1);
}

/* digits: of the fraction; trailing zeros stay, so that texts sort. */
static void put_clock(struct pb_buf *b, int64_t units, int64_t per_second, int digits)
{
    int64_t s = units / per_second, rest = units % per_second;

    pb_buf_printf(b, "%02d:%02d:%02d", (int)(s / 3600), (int)(s / 60 % 60), (int)(s % 60));
    if (rest)
        pb_buf_printf(b, ".%0*" PRId64, digits, rest);
}

static void put_timestamp(struct pb_buf *b, int64_t v, int64_t per_second, int digits, bool zone)
{
    int64_t per_day = per_second * 86400, days = v / per_day;

    if (v == INT64_MAX || v == -INT64_MAX) {
        pb_buf_puts(b, v > 0 ? "infinity" : "-infinity");
        return;
    }
    if (v % per_day < 0)
        days--;
    put_date(b, days);
    pb_buf_putc(b, 'T');
    put_clock(b, v - days * per_day, per_second, digits);
    if (zone)
        pb_buf_putc(b, 'Z');
}

static void put_interval(struct pb_buf *b, const struct duck_interval *v)
{
    size_t before = b->len;
    int64_t micros = v->micros;
    const struct {
        int n;
        const char *word;
    } parts[] = {{v->months / 12, "year"}, {v->months % 12, "month"}, {v->days, "day"}};

    for (size_t i = 0; i < 3; i++)
        if (parts[i].n)
            pb_buf_printf(b, "%s%d %s%s", b->len > before ? " " : "", parts[i].n, parts[i].word,
                          parts[i].n == 1 || parts[i].n == -1 ? "" : "s");
    if (micros || b->len == before) {
        pb_buf_printf(b, "%s%s", b->len > before ? " " : "", micros < 0 ? "-" : "");
        put_clock(b, micros < 0 ? -micros : micros, 1000000, 6);
    }
}

static void put_uuid(struct pb_buf *b, const struct duck_huge *h)
{
    uint64_t high = (uint64_t)h->upper ^ UINT64_C(1) << 63, low = h->lower;

    pb_buf_printf(b, "%08" PRIx64 "-%04" PRIx64 "-%04" PRIx64 "-%04" PRIx64 "-%012" PRIx64,
                  high >> 32, high >> 16 & 0xffff, high & 0xffff, low >> 48,
                  low & UINT64_C(0xffffffffffff));
}

static uint64_t stored_uint(int storage, const void *data, uint64_t row)
{
    switch (storage) {
    case DUCK_UTINYINT:
        return ((const uint8_t *)data)[row];
    case DUCK_USMALLINT:
        return ((const uint16_t *)data)[row];
    default:
        return ((const uint32_t *)data)[row];
    }
}

static void put_decimal(struct pb_buf *b, const struct pb_value_type *t, const void *data,
                        uint64_t row)
{
    struct duck_huge wide = {0};
    int64_t v;

    switch (t->storage) {
    case DUCK_SMALLINT:
        v = ((const int16_t *)data)[row];
        break;
    case DUCK_INTEGER:
        v = ((const int32_t *)data)[row];
        break;
    case DUCK_BIGINT:
        v = ((const int64_t *)data)[row];
        break;
    default:
        put_huge(b, (const struct duck_huge *)data + row, true, t->scale);
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
    case DUCK_BOOLEAN:
        pb_buf_puts(b, ((const bool *)data)[row] ? "true" : "false");
        return true;
    case DUCK_TINYINT:
        put_int(b, ((const int8_t *)data)[row]);
        return true;
    case DUCK_SMALLINT:
        put_int(b, ((const int16_t *)data)[row]);
        return true;
    case DUCK_INTEGER:
        put_int(b, ((const int32_t *)data)[row]);
        return true;
    case DUCK_BIGINT:
        put_int(b, ((const int64_t *)data)[row]);
        return true;
    case DUCK_UTINYINT:
    case DUCK_USMALLINT:
    case DUCK_UINTEGER:
        put_uint(b, stored_uint(t->id, data, row));
        return true;
    case DUCK_UBIGINT:
        put_uint(b, ((const uint64_t *)data)[row]);
        return true;
    case DUCK_FLOAT:
        put_double(b, ((const float *)data)[row], true, json);
        return true;
    case DUCK_DOUBLE:
        put_double(b, ((const double *)data)[row], false, json);
        return true;
    case DUCK_HUGEINT:
    case DUCK_UHUGEINT:
        put_huge(b, (const struct duck_huge *)data + row, t->id == DUCK_HUGEINT, 0);
        return true;
    case DUCK_DECIMAL:
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
    case DUCK_TIMESTAMP_TZ:
    case DUCK_TIMESTAMP:
        put_timestamp(b, i[row], 1000000, 6, t->id == DUCK_TIMESTAMP_TZ);
        return true;
    case DUCK_TIMESTAMP_S:
        put_timestamp(b, i[row], 1, 0, false);
        return true;
    case DUCK_TIMESTAMP_MS:
        put_timestamp(b, i[row], 1000, 3, false);
        return true;
    case DUCK_TIMESTAMP_NS:
        put_timestamp(b, i[row], 1000000000, 9, false);
        return true;
    case DUCK_DATE:
        put_date(b, ((const int32_t *)data)[row]);
        return true;
    case DUCK_TIME:
        put_clock(b, i[row], 1000000, 6);
        return true;
    case DUCK_INTERVAL:
        put_interval(b, (const struct duck_interval *)data + row);
        return true;
    case DUCK_UUID:
        put_uuid(b, (const struct duck_huge *)data + row);
        return true;
    case DUCK_BLOB: {
        const struct duck_string *s = (const struct duck_string *)data + row;

        for (uint32_t k = 0; k < s->len; k++)
            pb_buf_printf(b, "%02x", (unsigned char)string_of(s)[k]);
        return true;
    }
    default:
        return false;
    }
}

static void put_list(const struct pb_value_type *t, struct duck_vector *v, const void *data,
                     uint64_t row, struct pb_buf *b)
{
    const struct pb_duck *d = pb_duck();
    struct duck_list span = {row * t->size, t->size};
    struct duck_vector *child;

    if (t->id == DUCK_ARRAY) {
        child = d->array_vector_get_child(v);
    } else {
        span = ((const struct duck_list *)data)[row];
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
static void put_map(const struct pb_value_type *t, struct duck_vector *v, const void *data,
                    uint64_t row, struct pb_buf *b)
{
    const struct pb_duck *d = pb_duck();
    struct duck_list span = ((const struct duck_list *)data)[row];
    struct duck_vector *entries = d->list_vector_get_child(v);
    struct duck_vector *keys = d->struct_vector_get_child(entries, 0);
    struct duck_vector *values = d->struct_vector_get_child(entries, 1);
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

static void put_struct(const struct pb_value_type *t, struct duck_vector *v, uint64_t row,
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

static bool is_null(struct duck_vector *v, uint64_t row)
{
    const uint64_t *validity = pb_duck()->vector_get_validity(v);

    return validity && !(validity[row / 64] >> (row % 64) & 1);
}

static void put_nested(const struct pb_value_type *t, struct duck_vector *v, const void *data,
                       uint64_t row, struct pb_buf *b)
{
    if (t->id == DUCK_STRUCT)
        put_struct(t, v, row, b);
    else if (t->id == DUCK_MAP)
        put_map(t, v, data, row, b);
    else
        put_list(t, v, data, row, b);
}

static bool is_nested(int id)
{
    return id == DUCK_STRUCT || id == DUCK_MAP || id == DUCK_LIST || id == DUCK_ARRAY;
}

void pb_value_json(const struct pb_value_type *t, struct duck_vector *v, uint64_t row,
                   struct pb_buf *b)
{
    const void *data = pb_duck()->vector_get_data(v);

    if (is_null(v, row) || t->id == DUCK_SQLNULL) {
        pb_buf_puts(b, "null");
    } else if (t->id == DUCK_VARCHAR) {
        const struct duck_string *s = (const struct duck_string *)data + row;

        pb_value_string(b, string_of(s), s->len);
    } else if (t->id == DUCK_ENUM) {
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

bool pb_value_special(const struct pb_value_type *t, struct duck_vector *v, uint64_t row,
                      struct pb_buf *b)
{
    const void *data = pb_duck()->vector_get_data(v);
    double d = t->id == DUCK_DOUBLE  ? ((const double *)data)[row]
               : t->id == DUCK_FLOAT ? (double)((const float *)data)[row]
                                     : 0;

    if (isfinite(d) || is_null(v, row))
        return false;
    pb_buf_putc(b, '"');
    put_double(b, d, false, false);
    pb_buf_putc(b, '"');
    return true;
}

void pb_value_text(const struct pb_value_type *t, struct duck_vector *v, uint64_t row,
                   struct pb_buf *b)
{
    const void *data = pb_duck()->vector_get_data(v);

    if (is_null(v, row) || t->id == DUCK_SQLNULL)
        return;
    if (t->id == DUCK_VARCHAR) {
        const struct duck_string *s = (const struct duck_string *)data + row;

        pb_buf_add(b, string_of(s), s->len);
    } else if (t->id == DUCK_ENUM) {
        pb_buf_puts(b, t->names[stored_uint(t->storage, data, row)]);
    } else if (is_nested(t->id)) {
        put_nested(t, v, data, row, b);
    } else if (!put_number(t, data, row, b, false)) {
        put_plain(t, data, row, b);
    }
}
