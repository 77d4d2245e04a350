#include "host/text/buf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/text/alloc.h"

void pb_buf_finish(struct pb_buf *b)
{
    if (!b)
        return;
    free(b->data);
    *b = (struct pb_buf)PB_BUF_INIT;
}

void pb_buf_clear(struct pb_buf *b)
{
    b->len = 0;
    if (b->data)
        b->data[0] = '\0';
}

void pb_buf_cut(struct pb_buf *b, size_t len)
{
    if (len < b->len) {
        b->len = len;
        b->data[len] = '\0';
    }
}

/* Makes room for len more bytes and the terminator. */
static char *reserve(struct pb_buf *b, size_t len)
{
    if (len >= SIZE_MAX / 4 || b->len >= SIZE_MAX / 4)
        len = SIZE_MAX / 4; /* cannot be served: ends in pb_alloc_resize */
    if (b->cap - b->len <= len) {
        size_t cap = b->cap ? b->cap * 2 : 128;

        if (cap <= b->len + len)
            cap = b->len + len + 1;
        b->data = pb_alloc_resize(b->data, cap);
        b->cap = cap;
    }
    return b->data + b->len;
}

void pb_buf_add(struct pb_buf *b, const void *data, size_t len)
{
    char *p = reserve(b, len);

    if (len)
        memcpy(p, data, len);
    b->len += len;
    b->data[b->len] = '\0';
}

void pb_buf_puts(struct pb_buf *b, const char *s)
{
    pb_buf_add(b, s, strlen(s));
}

void pb_buf_putc(struct pb_buf *b, char c)
{
    pb_buf_add(b, &c, 1);
}

void pb_buf_vprintf(struct pb_buf *b, const char *fmt, va_list ap)
{
    va_list again;
    char *p;
    int n;

    va_copy(again, ap);
    n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    if (n < 0)
        return;
    p = reserve(b, (size_t)n);
    vsnprintf(p, (size_t)n + 1, fmt, ap);
    b->len += (size_t)n;
}

void pb_buf_printf(struct pb_buf *b, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    pb_buf_vprintf(b, fmt, ap);
    va_end(ap);
}

size_t pb_utf8_len(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t n;
    uint32_t c;

    if (s[0] < 0x80)
        return 1;
    if (s[0] >= 0xc2 && s[0] <= 0xdf) {
        n = 2;
        c = s[0] & 0x1fu;
    } else if (s[0] >= 0xe0 && s[0] <= 0xef) {
        n = 3;
        c = s[0] & 0x0fu;
    } else if (s[0] >= 0xf0 && s[0] <= 0xf4) {
        n = 4;
        c = s[0] & 0x07u;
    } else {
        return 0;
    }
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (s[i] & 0x3fu);
    }
    if (n == 3 && (c < 0x800 || (c >= 0xd800 && c <= 0xdfff)))
        return 0;
    if (n == 4 && (c < 0x10000 || c > 0x10ffff))
        return 0;
    return n;
}

size_t pb_utf8_unfinished(const char *s, size_t len)
{
    for (size_t back = 1; back <= 3 && back <= len; back++) {
        unsigned char c = (unsigned char)s[len - back];
        size_t need = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;

        if ((c & 0xc0) != 0x80)
            return need > back ? back : 0;
    }
    return 0;
}
