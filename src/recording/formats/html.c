/*
 * One page with everything in it: style, script and data. It asks nothing of any other host, which
 * its own policy would refuse as well. What stands around the data is built from web/src/flame.
 */
#include "recording/formats.h"
#include "recording/page.h"

#ifdef PB_WEB

#define PARTS(X)                                                                                   \
    X(head, "flame-head.html")                                                                     \
    X(tail, "flame-tail.html")

#define X(symbol, file)                                                                            \
    __asm__(".pushsection .rodata\n"                                                               \
            "pb_flame_" #symbol "_start:\n"                                                        \
            ".incbin \"" PB_WEB_DIR "/" file "\"\n"                                                \
            "pb_flame_" #symbol "_end:\n"                                                          \
            ".popsection\n");                                                                      \
    extern const char pb_flame_##symbol##_start[] __attribute__((visibility("hidden")));           \
    extern const char pb_flame_##symbol##_end[] __attribute__((visibility("hidden")));
PARTS(X)
#undef X

#define PUT(out, symbol)                                                                           \
    pb_buf_add(out, pb_flame_##symbol##_start,                                                     \
               (size_t)(pb_flame_##symbol##_end - pb_flame_##symbol##_start))

/* One valid character of n bytes; as a pair where it does not fit into 16 bits. */
static void put_escaped(struct pb_buf *out, const char *p, size_t n)
{
    uint32_t c = n > 1 ? (unsigned char)*p & 0x7fu >> n : (unsigned char)*p;

    for (size_t i = 1; i < n; i++)
        c = c << 6 | ((unsigned char)p[i] & 0x3fu);
    if (c >= 0x10000) {
        pb_buf_printf(out, "\\u%04x", (unsigned)(0xd7c0 + (c >> 10)));
        c = 0xdc00 | (c & 0x3ff);
    }
    pb_buf_printf(out, "\\u%04x", (unsigned)c);
}

static bool is_plain(char c)
{
    return c && c != '<' && (unsigned char)c < 0x80;
}

/*
 * JSON in which nothing ends the element. All of the page is ASCII: with a single other character
 * in it a browser keeps the whole text with 16 bits for each, and is longer about reading it.
 */
static void put_data(struct pb_buf *out, const char *json)
{
    for (size_t n; *json; json += n) {
        for (n = 0; is_plain(json[n]); n++)
            ;
        pb_buf_add(out, json, n);
        if (n)
            continue;
        n = pb_utf8_len(json);
        if (n)
            put_escaped(out, json, n);
        n = n ? n : 1; /* the writer of JSON leaves nothing that is no UTF-8 */
    }
}

void pb_format_html(const struct pb_recording *r, struct pb_buf *out)
{
    struct pb_buf data = PB_BUF_INIT;

    PUT(out, head);
    pb_page_json(r, &(struct pb_page_opts){0}, &data);
    put_data(out, data.data);
    PUT(out, tail);
    pb_buf_finish(&data);
}

#endif
