#include <inttypes.h>
#include <string.h>

#include "host/text/json_write.h"

static void json_escape(struct pb_buf *b, unsigned char c)
{
    switch (c) {
    case '"':
        pb_buf_puts(b, "\\\"");
        break;
    case '\\':
        pb_buf_puts(b, "\\\\");
        break;
    case '\n':
        pb_buf_puts(b, "\\n");
        break;
    case '\r':
        pb_buf_puts(b, "\\r");
        break;
    case '\t':
        pb_buf_puts(b, "\\t");
        break;
    default:
        pb_buf_printf(b, "\\u%04x", c);
    }
}

/* The character of n bytes at p, when it has two or three; else 0. */
static uint32_t decode(const unsigned char *p, size_t n)
{
    if (n == 2)
        return (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu);
    return n == 3 ? (p[0] & 0x0fu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu) : 0;
}

bool pb_utf8_is_hidden(const char *text, size_t n)
{
    uint32_t c = decode((const unsigned char *)text, n);

    return (c >= 0x80 && c < 0xa0) || c == 0x061c || c == 0x200e || c == 0x200f ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

void pb_json_string(struct pb_buf *b, const char *s)
{
    const unsigned char *p = (const unsigned char *)s;

    pb_buf_putc(b, '"');
    while (*p) {
        const unsigned char *plain = p;
        size_t n;

        while (*p >= 0x20 && *p < 0x7f && *p != '"' && *p != '\\')
            p++;
        pb_buf_add(b, plain, (size_t)(p - plain));
        if (!*p)
            break;
        n = pb_utf8_len((const char *)p);
        if (n == 0)
            pb_buf_puts(b, "\\ufffd");
        else if (n == 1)
            json_escape(b, *p);
        else if (pb_utf8_is_hidden((const char *)p, n)) /* readers get the same text either way */
            pb_buf_printf(b, "\\u%04x", (unsigned)decode(p, n));
        else
            pb_buf_add(b, p, n);
        p += n ? n : 1;
    }
    pb_buf_putc(b, '"');
}

void pb_json_shown(struct pb_buf *b, const char *json)
{
    for (const char *p = json; *p;) {
        size_t n = pb_utf8_len(p);

        if (n == 0)
            pb_buf_puts(b, "\\ufffd");
        else if (pb_utf8_is_hidden(p, n))
            pb_buf_printf(b, "\\u%04x", (unsigned)decode((const unsigned char *)p, n));
        else
            pb_buf_add(b, p, n);
        p += n ? n : 1;
    }
}

void pb_json_comma(struct pb_buf *b)
{
    char last = b->len ? b->data[b->len - 1] : '\0';

    /* A newline stands between two documents of a stream. */
    if (last && !strchr("[{:,\n", last))
        pb_buf_putc(b, ',');
}

void pb_json_key(struct pb_buf *b, const char *key)
{
    pb_json_comma(b);
    pb_json_string(b, key);
    pb_buf_putc(b, ':');
}

void pb_json_int(struct pb_buf *b, int64_t v)
{
    pb_buf_printf(b, "%" PRId64, v);
}

void pb_json_bool(struct pb_buf *b, bool v)
{
    pb_buf_puts(b, v ? "true" : "false");
}

void pb_json_string_or_null(struct pb_buf *b, const char *s)
{
    if (s)
        pb_json_string(b, s);
    else
        pb_buf_puts(b, "null");
}
