/*
 * A picture for tickets and chats: outermost frame at the top, width is time. No script in it;
 * a browser shows what a frame is when the pointer rests on it.
 */
#include "recording/formats.h"

#define WIDTH 1200.0
#define ROW 17
#define HEAD 44
#define SMALLEST 0.4 /* pixels; thinner frames cannot be seen */
#define LETTER 6.6
#define CERTAIN 0.005 /* a difference of this share is shown at its full strength */

struct drawing {
    const struct pb_recording *r;
    const uint64_t *total, *before; /* before: of a comparison, else NULL */
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

/* Red for what takes longer than before, blue for what takes less; the more, the stronger. */
static void put_difference(struct pb_buf *out, uint64_t before, uint64_t now, uint64_t whole)
{
    double most = (double)(now > before ? now : before), delta = (double)now - (double)before;
    double size = delta < 0 ? -delta : delta, certain = size / (CERTAIN * (double)whole);
    double change = most > 0 ? delta / most * (certain < 1 ? certain : 1) : 0;
    int light = 96 - (int)(40 * (change < 0 ? -change : change));

    pb_buf_printf(out, "hsl(%d,%d%%,%d%%)", change > 0 ? 8 : 215, light > 94 ? 10 : 80, light);
}

static void put_node(struct drawing *d, uint32_t node, double width)
{
    const struct pb_prof_frame *f = &d->r->stacks.frames[d->r->stacks.nodes[node].frame];
    double y = HEAD + (d->depth[node] - 1) * (double)ROW;
    size_t letters = (size_t)((width - 6) / LETTER);
    struct pb_buf label = PB_BUF_INIT;
    struct pb_arena a = PB_ARENA_INIT;

    pb_format_label(&label, f);
    pb_buf_puts(d->out, "<g><title>");
    pb_format_xml(d->out, label.data);
    pb_buf_printf(d->out, " %s, %.2f %%", pb_format_amount(d->r, &a, d->total[node]),
                  100.0 * (double)d->total[node] / (double)d->total[0]);
    if (d->before)
        pb_buf_printf(d->out, ", before %s", pb_format_amount(d->r, &a, d->before[node]));
    pb_arena_finish(&a);
    pb_buf_printf(d->out, "</title><rect x=\"%.1f\" y=\"%.0f\" width=\"%.1f\" "
                          "height=\"%d\" fill=\"",
                  d->x[node], y,
                  width > 2 ? width - 0.7 : width, ROW - 1);
    if (d->before)
        put_difference(d->out, d->before[node], d->total[node], d->total[0]);
    else
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
static uint32_t lay_out(struct drawing *d)
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
    pb_buf_puts(d->out, "</text>\n<text x=\"10\" y=\"34\" fill=\"#666\">");
    pb_format_xml(d->out, pb_format_info(d->r, a));
    if (d->r->is_memory)
        pb_buf_printf(d->out, ", %s</text>\n", pb_format_amount(d->r, a, d->total[0]));
    else
        pb_buf_printf(d->out, ", %.1f thread seconds</text>\n", (double)d->total[0] / 1e9);
}

void pb_format_svg(const struct pb_recording *r, struct pb_buf *out)
{
    struct pb_arena a = PB_ARENA_INIT;
    size_t n = r->stacks.nnodes;
    uint64_t *self = PB_NEW_N(&a, uint64_t, n), *total = PB_NEW_N(&a, uint64_t, n);
    uint64_t *old = PB_NEW_N(&a, uint64_t, n), *before = PB_NEW_N(&a, uint64_t, n);
    struct drawing d = {
        r, total, r->before_title ? before : NULL, PB_NEW_N(&a, double, n),
        PB_NEW_N(&a, double, n), PB_NEW_N(&a, uint32_t, n), 0, out};
    uint32_t deepest;

    pb_recording_sums(r, self, total);
    pb_recording_sums_before(r, old, before);
    d.scale = total[0] ? WIDTH / (double)total[0] : 0;
    d.x[0] = 10;
    deepest = lay_out(&d);
    put_head(&d, deepest, &a);
    for (uint32_t i = 1; i < n; i++) {
        double width = (double)total[i] * d.scale;

        if (width >= SMALLEST)
            put_node(&d, i, width);
    }
    pb_buf_puts(out, "</svg>\n");
    pb_arena_finish(&a);
}
