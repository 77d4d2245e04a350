/* Putting values into the engine's vectors. */
#include <string.h>

#include "host/buf.h"
#include "node/sql/internal.h"

static bool is_ascii(const char *s, size_t len)
{
    unsigned char all = 0;

    for (size_t i = 0; i < len; i++)
        all |= (unsigned char)s[i];
    return all < 0x80;
}

void pb_sql_put_text(const struct pb_duck *d, struct duck_vector *v, uint64_t row, const char *s,
                     size_t len)
{
    struct pb_buf b = PB_BUF_INIT;

    if (is_ascii(s, len)) {
        d->unsafe_vector_assign_string_element_len(v, row, s, len);
        return;
    }
    /* Checked on a copy that ends with a NUL: what lies in a ring may change under our eyes. */
    pb_buf_add(&b, s, len);
    for (size_t i = 0; i < b.len;) {
        size_t n = pb_utf8_len(b.data + i);

        if (n == 0 || i + n > b.len) {
            b.data[i] = '?';
            n = 1;
        }
        i += n;
    }
    d->unsafe_vector_assign_string_element_len(v, row, b.data, b.len);
    pb_buf_finish(&b);
}

void pb_sql_put_nulls(const struct pb_duck *d, struct duck_vector *v, size_t n)
{
    d->vector_ensure_validity_writable(v);
    memset(d->vector_get_validity(v), 0, (n + 63) / 64 * sizeof(uint64_t));
}

struct duck_type *pb_sql_type(const struct pb_duck *d, enum pb_type type)
{
    switch (type) {
    case PB_TIME:
        return d->create_logical_type(DUCK_TIMESTAMP_TZ);
    case PB_INT:
        return d->create_logical_type(DUCK_BIGINT);
    case PB_REAL:
        return d->create_logical_type(DUCK_DOUBLE);
    case PB_BOOL:
        return d->create_logical_type(DUCK_BOOLEAN);
    case PB_NAME:
    case PB_TEXT:
        break;
    }
    return d->create_logical_type(DUCK_VARCHAR);
}
