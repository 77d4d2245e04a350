#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "display/print.h"

struct range {
    uint32_t first, last;
};

/* Characters that take no column: marks that combine, joiners, variation selectors. */
static const struct range zero_width[] = {
    {0x0300, 0x036f}, {0x0483, 0x0489}, {0x0591, 0x05bd},   {0x0610, 0x061a}, {0x064b, 0x065f},
    {0x06d6, 0x06dc}, {0x0900, 0x0902}, {0x093c, 0x093c},   {0x0941, 0x0948}, {0x094d, 0x094d},
    {0x0e31, 0x0e31}, {0x0e34, 0x0e3a}, {0x0e47, 0x0e4e},   {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff},
    {0x200b, 0x200f}, {0x202a, 0x202e}, {0x2060, 0x2064},   {0x20d0, 0x20f0}, {0xfe00, 0xfe0f},
    {0xfe20, 0xfe2f}, {0xfeff, 0xfeff}, {0xe0100, 0xe01ef},
};

/* Characters that take two: East Asian wide and full-width, emoji. */
static const struct range double_width[] = {
    {0x1100, 0x115f},   {0x231a, 0x231b},   {0x2329, 0x232a},   {0x23e9, 0x23ec},
    {0x25fd, 0x25fe},   {0x2614, 0x2615},   {0x2648, 0x2653},   {0x26a1, 0x26a1},
    {0x26bd, 0x26be},   {0x2705, 0x2705},   {0x2728, 0x2728},   {0x274c, 0x274c},
    {0x2753, 0x2755},   {0x2757, 0x2757},   {0x2795, 0x2797},   {0x2b50, 0x2b50},
    {0x2e80, 0x303e},   {0x3041, 0x33ff},   {0x3400, 0x4dbf},   {0x4e00, 0x9fff},
    {0xa000, 0xa4cf},   {0xa960, 0xa97f},   {0xac00, 0xd7a3},   {0xf900, 0xfaff},
    {0xfe30, 0xfe6f},   {0xff01, 0xff60},   {0xffe0, 0xffe6},   {0x16fe0, 0x18aff},
    {0x1b000, 0x1b2ff}, {0x1f004, 0x1f004}, {0x1f0cf, 0x1f0cf}, {0x1f18e, 0x1f18e},
    {0x1f191, 0x1f19a}, {0x1f200, 0x1f320}, {0x1f32d, 0x1f335}, {0x1f337, 0x1f37c},
    {0x1f37e, 0x1f393}, {0x1f3a0, 0x1f3ca}, {0x1f3e0, 0x1f3f0}, {0x1f400, 0x1f43e},
    {0x1f440, 0x1f4fc}, {0x1f4ff, 0x1f53d}, {0x1f54b, 0x1f567}, {0x1f595, 0x1f596},
    {0x1f5fb, 0x1f64f}, {0x1f680, 0x1f6c5}, {0x1f6d0, 0x1f6d2}, {0x1f6eb, 0x1f6ec},
    {0x1f6f4, 0x1f6fc}, {0x1f7e0, 0x1f7eb}, {0x1f90c, 0x1f9ff}, {0x1fa70, 0x1faff},
    {0x20000, 0x3fffd},
};

static bool in_ranges(const struct range *v, size_t n, uint32_t c)
{
    size_t low = 0, high = n;

    while (low < high) {
        size_t mid = (low + high) / 2;

        if (c > v[mid].last)
            low = mid + 1;
        else if (c < v[mid].first)
            high = mid;
        else
            return true;
    }
    return false;
}

static size_t char_width(uint32_t c)
{
    if (c < 0x300)
        return 1;
    if (in_ranges(zero_width, sizeof zero_width / sizeof *zero_width, c))
        return 0;
    return in_ranges(double_width, sizeof double_width / sizeof *double_width, c) ? 2 : 1;
}

/* Next character and its length in bytes; 0 when the bytes are no UTF-8. */
static size_t decode(const char *text, uint32_t *ret)
{
    size_t n = pb_utf8_len(text);
    const unsigned char *s = (const unsigned char *)text;

    if (n <= 1) {
        *ret = s[0];
        return n;
    }
    *ret = s[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++)
        *ret = *ret << 6 | (s[i] & 0x3fu);
    return n;
}

static void add_control(struct pb_buf *b, uint32_t c)
{
    static const char letters[] = "abtnvfr"; /* 0x07 to 0x0d */

    if (c >= 0x07 && c <= 0x0d)
        pb_buf_printf(b, "\\%c", letters[c - 0x07]);
    else
        pb_buf_printf(b, "\\x%02x", c);
}

/* Embeddings and isolates would turn the rest of the line around. */
static bool turns_text(uint32_t c)
{
    return c == 0x061c || c == 0x200e || c == 0x200f || (c >= 0x202a && c <= 0x202e) ||
           (c >= 0x2066 && c <= 0x2069);
}

/* The next character as it may be shown; its length in bytes. */
static size_t add_clean(struct pb_buf *b, const char *s)
{
    uint32_t c;
    size_t n = decode(s, &c);

    if (n == 0)
        pb_buf_puts(b, "\xef\xbf\xbd");
    else if (c < 0x20 || (c >= 0x7f && c < 0xa0))
        add_control(b, c);
    else if (turns_text(c) || c == 0x2028 || c == 0x2029)
        pb_buf_printf(b, "\\u%04x", c);
    else
        pb_buf_add(b, s, n);
    return n ? n : 1;
}

void pb_text_stream(struct pb_text_tail *tail, const void *data, size_t len, struct pb_buf *ret)
{
    struct pb_buf in = PB_BUF_INIT;
    size_t hold, at = 0;

    pb_buf_add(&in, tail->bytes, tail->len);
    pb_buf_add(&in, data, len);
    pb_buf_putc(&in, '\0');
    in.len--;
    hold = !len ? 0 : in.data[in.len - 1] == '\r' ? 1 : pb_utf8_unfinished(in.data, in.len);
    while (at < in.len - hold) {
        if (in.data[at] == '\r' && in.data[at + 1] == '\n')
            at++; /* a line end of CSV */
        else if (in.data[at] == '\n' || in.data[at] == '\t')
            pb_buf_putc(ret, in.data[at++]);
        else
            at += add_clean(ret, in.data + at);
    }
    memcpy(tail->bytes, in.data + in.len - hold, hold);
    tail->len = hold;
    pb_buf_finish(&in);
}

char *pb_text_clean(struct pb_arena *a, const char *s)
{
    struct pb_buf b = PB_BUF_INIT;
    char *copy;

    while (*s)
        s += add_clean(&b, s);
    copy = pb_arena_strndup(a, b.data ? b.data : "", b.len);
    pb_buf_finish(&b);
    return copy;
}

size_t pb_text_width(const char *s)
{
    size_t width = 0;

    while (*s) {
        uint32_t c;
        size_t n = decode(s, &c);

        width += n ? char_width(c) : 1;
        s += n ? n : 1;
    }
    return width;
}

/* Bytes at the start of s that fit into width columns. */
static size_t head_bytes(const char *s, size_t width)
{
    size_t used = 0, len = 0;

    while (s[len]) {
        uint32_t c;
        size_t n = decode(s + len, &c);
        size_t w = n ? char_width(c) : 1;

        if (used + w > width)
            break;
        used += w;
        len += n ? n : 1;
    }
    return len;
}

/* Where the longest end of s begins that fits into width columns. */
static const char *tail_start(const char *s, size_t width)
{
    size_t total = pb_text_width(s);

    while (*s && total > width) {
        uint32_t c;
        size_t n = decode(s, &c);

        total -= n ? char_width(c) : 1;
        s += n ? n : 1;
    }
    return s;
}

char *pb_text_middle(struct pb_arena *a, const char *s, size_t width)
{
    size_t head;

    if (pb_text_width(s) <= width)
        return pb_arena_strdup(a, s);
    if (width < 3)
        return pb_text_end(a, s, width);
    /* The end of a path says more than its start. */
    head = (width - 1) / 3;
    return pb_arena_printf(a, "%.*s…%s", (int)head_bytes(s, head), s,
                           tail_start(s, width - 1 - head));
}

char *pb_text_end(struct pb_arena *a, const char *s, size_t width)
{
    if (pb_text_width(s) <= width)
        return pb_arena_strdup(a, s);
    if (width == 0)
        return pb_arena_strdup(a, "");
    return pb_arena_printf(a, "%.*s…", (int)head_bytes(s, width - 1), s);
}
