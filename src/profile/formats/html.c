/*
 * One page with everything in it: style, script and data. It asks nothing of any other host, which
 * its own policy would refuse as well.
 */
#include "profile/formats.h"

#define PAGE(X)                                                                                    \
    X(head, "head.html")                                                                           \
    X(style, "flame.css")                                                                          \
    X(body, "body.html")                                                                           \
    X(script, "flame.js")

#define X(symbol, file)                                                                            \
    __asm__(".pushsection .rodata\n"                                                               \
            "pb_page_" #symbol "_start:\n"                                                         \
            ".incbin \"" PB_PAGE_DIR "/" file "\"\n"                                               \
            "pb_page_" #symbol "_end:\n"                                                           \
            ".popsection\n");                                                                      \
    extern const char pb_page_##symbol##_start[] __attribute__((visibility("hidden")));            \
    extern const char pb_page_##symbol##_end[] __attribute__((visibility("hidden")));
PAGE(X)
#undef X

#define PUT(out, symbol)                                                                           \
    pb_buf_add(out, pb_page_##symbol##_start,                                                      \
               (size_t)(pb_page_##symbol##_end - pb_page_##symbol##_start))

static void put_frames(const struct pb_stacks *s, struct pb_buf *out)
{
    pb_buf_puts(out, ",\"frames\":[");
    for (size_t i = 0; i < s->nframes; i++) {
        pb_buf_puts(out, i ? ",[" : "[");
        pb_json_string(out, s->frames[i].func);
        pb_buf_putc(out, ',');
        pb_json_string(out, s->frames[i].file);
        pb_buf_printf(out, ",%d,%d]", s->frames[i].lineno, s->frames[i].native);
    }
    pb_buf_puts(out, "],\"parent\":[0");
    for (size_t i = 1; i < s->nnodes; i++)
        pb_buf_printf(out, ",%u", s->nodes[i].parent);
    pb_buf_puts(out, "],\"frame\":[-1");
    for (size_t i = 1; i < s->nnodes; i++)
        pb_buf_printf(out, ",%u", s->nodes[i].frame);
    pb_buf_putc(out, ']');
}

/* Four numbers each: node, thread, what it did as bits, microseconds. */
static void put_leaves(const struct pb_recording *r, struct pb_arena *a, struct pb_buf *out)
{
    struct pb_rec_leaf *v;
    size_t n = pb_recording_leaves(r, a, &v);

    pb_buf_puts(out, ",\"leaves\":[");
    for (size_t i = 0; i < n; i++)
        pb_buf_printf(out, "%s%u,%u,%d,%llu", i ? "," : "", v[i].node, v[i].thread,
                      v[i].on_cpu | v[i].holds_gil << 1 | v[i].waits_gil << 2,
                      (unsigned long long)(v[i].weight_ns / 1000));
    pb_buf_putc(out, ']');
}

static void put_data(const struct pb_recording *r, struct pb_buf *out)
{
    struct pb_arena a = PB_ARENA_INIT;

    pb_buf_puts(out, "{\"title\":");
    pb_json_string(out, pb_format_title(r, &a));
    pb_buf_printf(out, ",\"info\":\"%.1f s at %g Hz, %llu samples, %llu missed, %llu torn\"",
                  (double)r->length_ns / 1e9, r->rate, (unsigned long long)r->samples,
                  (unsigned long long)r->missed, (unsigned long long)r->torn);
    pb_buf_puts(out, ",\"threads\":[");
    for (size_t i = 0; i < r->nthreads; i++) {
        if (i)
            pb_buf_putc(out, ',');
        pb_json_string(out, pb_format_thread(r, i, &a));
    }
    pb_buf_putc(out, ']');
    put_frames(&r->stacks, out);
    put_leaves(r, &a, out);
    pb_buf_putc(out, '}');
    pb_arena_finish(&a);
}

void pb_format_html(const struct pb_recording *r, struct pb_buf *out)
{
    struct pb_buf data = PB_BUF_INIT;

    PUT(out, head);
    pb_buf_puts(out, "<style>\n");
    PUT(out, style);
    pb_buf_puts(out, "</style>\n");
    PUT(out, body);
    pb_buf_puts(out, "<script type=\"application/json\" id=\"data\">");
    put_data(r, &data);
    for (size_t i = 0; i < data.len; i++) { /* nothing in it ends the element */
        if (data.data[i] == '<')
            pb_buf_puts(out, "\\u003c");
        else
            pb_buf_putc(out, data.data[i]);
    }
    pb_buf_puts(out, "</script>\n<script>\n");
    PUT(out, script);
    pb_buf_puts(out, "</script>\n</html>\n");
    pb_buf_finish(&data);
}
