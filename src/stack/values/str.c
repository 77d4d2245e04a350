#include "stack/values/object.h"

#include <string.h>

#include "base/utf8.h"

#define CHUNK 256 /* characters read at once */

/* The bits above `kind` in the state word. */
#define STATE_COMPACT 8u
#define STATE_ASCII 16u

bool pb_py_str_chars(struct pb_py_src *s, const struct pb_py_obj *o, struct pb_py_chars *ret)
{
    const struct pb_py_layout *py = s->r->py;
    uint64_t word;
    unsigned state, kind;

    if (o->type->kind != PB_PY_STR || !pb_py_word(s, o, py->str_state, &word) ||
        !pb_py_word(s, o, py->str_length, &ret->length))
        return false;
    state = pb_py_str_state(py, word);
    kind = state & 7;
    ret->ascii = (state & STATE_ASCII) != 0;
    if (kind == 0) {
        /* A str made by old C code may hold only wide characters. */
        if (!pb_py_word(s, o, py->str_wide, &ret->addr) ||
            !pb_py_word(s, o, py->str_wide_length, &ret->length))
            return false;
        ret->width = (int)sizeof(wchar_t);
    } else {
        ret->width = (int)kind;
        if (!(state & STATE_COMPACT)) {
            if (!pb_py_word(s, o, py->str_compact_size, &ret->addr))
                return false;
        } else {
            ret->addr =
                o->addr + (uint64_t)(ret->ascii ? py->str_ascii_size : py->str_compact_size);
        }
    }
    return (ret->width == 1 || ret->width == 2 || ret->width == 4) &&
           ret->length < (UINT64_C(1) << 40);
}

static uint32_t char_at(const uint8_t *p, int width)
{
    uint16_t v16;
    uint32_t v32;

    if (width == 1)
        return *p;
    if (width == 2) {
        memcpy(&v16, p, sizeof v16);
        return v16;
    }
    memcpy(&v32, p, sizeof v32);
    return v32;
}

static size_t put_utf8(char *out, uint32_t c)
{
    return pb_utf8_put(out, pb_utf8_or_replacement(c));
}

/* Reads up to CHUNK characters from position `at`; returns how many, 0 when unreadable. */
static size_t read_chars(struct pb_py_src *s, const struct pb_py_obj *o,
                         const struct pb_py_chars *chars, uint64_t at, uint64_t limit, uint8_t *buf)
{
    size_t n = limit - at < CHUNK ? (size_t)(limit - at) : CHUNK;
    size_t bytes = n * (size_t)chars->width;
    uint64_t addr = chars->addr + at * (uint64_t)chars->width;

    /* A short str lies whole in what was read of the object. */
    if (o && addr >= o->addr && addr - o->addr + bytes <= o->have) {
        memcpy(buf, o->head + (addr - o->addr), bytes);
        return n;
    }
    return pb_py_get(s, addr, buf, bytes) ? n : 0;
}

/*
 * Bytes that Python could not decode stand as lone surrogates in paths and names; outside of UTF-8
 * locales that is every byte beyond ASCII. They become the bytes that they were.
 */
static bool is_escaped_byte(uint32_t c)
{
    return c >= 0xdc80 && c <= 0xdcff;
}

/* What is no UTF-8 after all becomes U+FFFD. */
static char *repair(struct pb_arena *a, const char *text, size_t len)
{
    char *out = pb_arena_alloc(a, len * 3 + 1);
    size_t n = 0;

    for (size_t i = 0; i < len;) {
        size_t k = pb_utf8_len(text + i);

        if (k)
            memcpy(out + n, text + i, k);
        n += k ? k : put_utf8(out + n, 0xfffd);
        i += k ? k : 1;
    }
    out[n] = '\0';
    return out;
}

char *pb_py_str_at(struct pb_py_src *s, uint64_t addr, size_t max)
{
    struct pb_py_obj o;
    struct pb_py_chars chars;
    uint8_t buf[CHUNK * 4];
    uint64_t limit;
    bool escaped = false;
    size_t len = 0;
    char *text;

    if (!pb_py_open(s, addr, &o) || !pb_py_str_chars(s, &o, &chars))
        return NULL;
    limit = chars.length < max ? chars.length : max;
    text = pb_arena_alloc(s->r->arena, (size_t)limit * (chars.ascii ? 1 : 4) + 5);
    for (uint64_t at = 0; at < limit && len < max;) {
        size_t n = read_chars(s, &o, &chars, at, limit, buf);

        if (n == 0)
            return NULL;
        for (size_t i = 0; i < n; i++) {
            uint32_t c = char_at(buf + i * (size_t)chars.width, chars.width);
            size_t k = is_escaped_byte(c) ? 1 : put_utf8(text + len, c);

            if (is_escaped_byte(c)) {
                text[len] = (char)(c & 0xff);
                escaped = true;
            }
            if (len + k > max)
                goto done;
            len += k;
        }
        at += n;
    }
done:
    text[len] = '\0';
    return escaped ? repair(s->r->arena, text, len) : text;
}

/* Roughly what str.isprintable() says no to: controls, spaces, formats, private use. */
static bool is_printable(uint32_t c)
{
    static const uint32_t no[][2] = {
        {0x7f, 0xa0},     {0xad, 0xad},     {0x378, 0x379},     {0x600, 0x605},
        {0x61c, 0x61c},   {0x6dd, 0x6dd},   {0x70f, 0x70f},     {0x1680, 0x1680},
        {0x180e, 0x180e}, {0x2000, 0x200f}, {0x2028, 0x202f},   {0x205f, 0x206f},
        {0x3000, 0x3000}, {0xd800, 0xf8ff}, {0xfdd0, 0xfdef},   {0xfeff, 0xfeff},
        {0xfff0, 0xfffb}, {0xfffe, 0xffff}, {0xe0000, 0xe00ff}, {0xf0000, 0xffffffff},
    };

    if (c < ' ')
        return false;
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++)
        if (c >= no[i][0] && c <= no[i][1])
            return false;
    return true;
}

static void put_escaped(struct pb_buf *out, uint32_t c, char quote)
{
    char utf8[4];

    if (c == (uint32_t)quote || c == '\\')
        pb_buf_printf(out, "\\%c", (char)c);
    else if (c == '\n')
        pb_buf_puts(out, "\\n");
    else if (c == '\r')
        pb_buf_puts(out, "\\r");
    else if (c == '\t')
        pb_buf_puts(out, "\\t");
    else if (is_printable(c))
        pb_buf_add(out, utf8, put_utf8(utf8, c));
    else if (c <= 0xff)
        pb_buf_printf(out, "\\x%02x", (unsigned)c);
    else if (c <= 0xffff)
        pb_buf_printf(out, "\\u%04x", (unsigned)c);
    else
        pb_buf_printf(out, "\\U%08x", (unsigned)c);
}

/* repr() prefers single quotes, unless only they would need escaping. */
static char choose_quote(bool has_single, bool has_double)
{
    return has_single && !has_double ? '"' : '\'';
}

/* Only what is shown decides on the quotes: the rest is not read. */
static char quote_for(const uint8_t *buf, size_t n, int width)
{
    bool has_single = false, has_double = false;

    for (size_t i = 0; i < n; i++) {
        uint32_t c = char_at(buf + i * (size_t)width, width);

        has_single |= c == '\'';
        has_double |= c == '"';
    }
    return choose_quote(has_single, has_double);
}

void pb_py_str_repr(struct pb_py_src *s, const struct pb_py_obj *o, int max, struct pb_buf *out)
{
    struct pb_py_chars chars;
    uint8_t buf[CHUNK * 4];
    uint64_t limit;
    size_t n = 0;
    char quote;

    if (!pb_py_str_chars(s, o, &chars)) {
        pb_buf_puts(out, "<unreadable str>");
        return;
    }
    if (max > CHUNK)
        max = CHUNK;
    limit = chars.length < (uint64_t)max ? chars.length : (uint64_t)max;
    if (limit > 0)
        n = read_chars(s, o, &chars, 0, limit, buf);
    if (n < limit) {
        pb_buf_puts(out, "<unreadable str>");
        return;
    }
    quote = quote_for(buf, n, chars.width);
    pb_buf_putc(out, quote);
    for (size_t i = 0; i < n; i++)
        put_escaped(out, char_at(buf + i * (size_t)chars.width, chars.width), quote);
    if (n < chars.length)
        pb_buf_puts(out, "…");
    pb_buf_putc(out, quote);
}

void pb_py_bytes_repr(struct pb_py_src *s, uint64_t data, uint64_t total, int max,
                      struct pb_buf *out)
{
    uint8_t buf[CHUNK] = {0};
    uint64_t n = max < CHUNK ? (uint64_t)max : CHUNK;
    char quote;

    n = total < n ? total : n;
    if (n > 0 && !pb_py_get(s, data, buf, (size_t)n)) {
        pb_buf_puts(out, "<unreadable bytes>");
        return;
    }
    quote = quote_for(buf, (size_t)n, 1);
    pb_buf_printf(out, "b%c", quote);
    for (uint64_t i = 0; i < n; i++) {
        if (buf[i] >= 0x80)
            pb_buf_printf(out, "\\x%02x", buf[i]);
        else
            put_escaped(out, buf[i], quote);
    }
    if (n < total)
        pb_buf_puts(out, "…");
    pb_buf_putc(out, quote);
}

char *pb_py_str(struct pb_py_reader *r, uint64_t addr, size_t max)
{
    struct pb_py_src s = {r, PB_PY_READS_MAX};

    return pb_py_str_at(&s, pb_py_untag(r->py, addr), max);
}

uint8_t *pb_py_bytes(struct pb_py_reader *r, uint64_t addr, size_t max, size_t *ret_len)
{
    struct pb_py_src s = {r, PB_PY_READS_MAX};
    struct pb_py_obj o;
    uint64_t size;
    uint8_t *copy;

    if (!pb_py_open(&s, addr, &o) || o.type->kind != PB_PY_BYTES ||
        !pb_py_word(&s, &o, r->py->ob_size, &size) || size > max)
        return NULL;
    copy = pb_arena_alloc(r->arena, (size_t)size + 1);
    if (size > 0 && !pb_py_get(&s, addr + (uint64_t)r->py->bytes_data, copy, (size_t)size))
        return NULL;
    *ret_len = (size_t)size;
    return copy;
}
