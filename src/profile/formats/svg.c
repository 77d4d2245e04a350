/*
 * A picture for tickets and chats: outermost frame at the top, width is time. No script in it;
 * a browser shows what a frame is when the pointer rests on it.
 */
#include "profile/formats.h"

#define WIDTH 1200.0
#define ROW 17
#define HEAD 44
#define SMALLEST 0.4 /* pixels; thinner frames cannot be seen */
#define LETTER 6.6

struct drawing {
    const struct pb_recording *r;
    const uint64_t *total;
    double *x;        /* where a node begins, in pixels */
    double *used;     /* pixels of it that its children have taken */
    uint32_t *depth;
    double scale;     /* pixels a nanosecond */
    struct pb_buf *out;
};

/* Warm for Python, cool for C; the same function has the same shade everywhere. */
static void put_colour(struct pb_buf *out, const struct pb_prof_frame *f)
{
    unsigned h = 5381;

    for (const char *s = f->func; *s; s++)
        h = h * 33 + (unsigned char)*s;
    pb_buf_printf(out, f->native ? "hsl(%u,45%%,%u%%)" : "hsl(%u,75%%,%u%%)",
                  (f->native ? 200 : 20) + h % 30, 62 + (h >> 8) % 12);
}

static void put_node(struct drawing *d, uint32_t node, double width)
{
    const struct pb_prof_frame *f = &d->r->stacks.frames[d->r->stacks.nodes[node].frame];
    double y = HEAD + (d->depth[node] - 1) * (double)ROW;
    size_t letters = (size_t)((width - 6) / LETTER);
    struct pb_buf label = PB_BUF_INIT;

    pb_format_label(&label, f);
    pb_buf_puts(d->out, "<g><title>");
    pb_format_xml(d->out, label.data);
    pb_buf_printf(d->out, " %.3f s, %.2f %%</title><rect x=\"%.1f\" y=\"%.0f\" width=\"%.1f\" "
                          "height=\"%d\" fill=\"",
                  (double)d->total[node] / 1e9,
                  100.0 * (double)d->total[node] / (double)d->total[0], d->x[node], y,
                  width > 2 ? width - 0.7 : width, ROW - 1);
    put_colour(d->out, f);
    pb_buf_puts(d->out, "\"/>");
    if (width > 30) {
        size_t cut = 0, n;

        for (size_t i = 0; i < letters && label.data[cut]; i++)
            cut += (n = pb_utf8_len(label.data + cut)) ? n : 1;
        pb_buf_printf(d->out, "<text x=\"%.1f\" y=\"%.0f\">", d->x[node] + 3, y + 12);
        if (label.data[cut])
            label.data[cut] = '\0';
        pb_format_xml(d->out, label.data);
        pb_buf_puts(d->out, "</text>");
    }
    pb_buf_puts(d->out, "</g>\n");
    pb_buf_finish(&label);
}

/* Parents come before their children, so one pass places all. */
static uint32_t place(struct drawing *d)
{
    const struct pb_stacks *s = &d->r->stacks;
    uint32_t deepest = 0;

    for (uint32_t n = 1; n < s->nnodes; n++) {
        uint32_t parent = s->nodes[n].parent;

        d->x[n] = d->x[parent] + d->used[parent];
        d->used[parent] += (double)d->total[n] * d->scale;
        d->depth[n] = d->depth[parent] + 1;
        if ((double)d->total[n] * d->scale >= SMALLEST && d->depth[n] > deepest)
            deepest = d->depth[n];
    }
    return deepest;
}

static void put_head(struct drawing *d, uint32_t deepest, struct pb_arena *a)
{
    int height = HEAD + (int)(deepest ? deepest : 1) * ROW + 10;

    pb_buf_printf(d->out,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %d\" "
                  "width=\"%.0f\" height=\"%d\" "
                  "font-family=\"Verdana,sans-serif\" font-size=\"11\">\n"
                  "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n"
                  "<text x=\"10\" y=\"17\" font-size=\"13\">",
                  WIDTH + 20, height, WIDTH + 20, height);
    pb_format_xml(d->out, pb_format_title(d->r, a));
    pb_buf_printf(d->out, "</text>\n<text x=\"10\" y=\"34\" fill=\"#666\">%.1f s at %g Hz, %llu "
                          "samples, %.1f thread seconds</text>\n",
                  (double)d->r->length_ns / 1e9, d->r->rate, (unsigned long long)d->r->samples,
                  (double)d->total[0] / 1e9);
}

void pb_format_svg(const struct pb_recording *r, struct pb_buf *out)
{
    struct pb_arena a = PB_ARENA_INIT;
    size_t n = r->stacks.nnodes;
    uint64_t *self = PB_NEW_N(&a, uint64_t, n), *total = PB_NEW_N(&a, uint64_t, n);
    struct drawing d = {r, total, PB_NEW_N(&a, double, n), PB_NEW_N(&a, double, n),
                        PB_NEW_N(&a, uint32_t, n), 0, out};
    uint32_t deepest;

    pb_recording_sums(r, self, total);
    d.scale = total[0] ? WIDTH / (double)total[0] : 0;
    d.x[0] = 10;
    deepest = place(&d);
    put_head(&d, deepest, &a);
    for (uint32_t i = 1; i < n; i++) {
        double width = (double)total[i] * d.scale;

        if (width >= SMALLEST)
            put_node(&d, i, width);
    }
    pb_buf_puts(out, "</svg>\n");
    pb_arena_finish(&a);
}
