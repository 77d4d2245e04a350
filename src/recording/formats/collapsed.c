/*
 * One line for each distinct stack, outermost frame first, and the microseconds it took: what
 * flamegraph.pl, inferno and speedscope read. Of a comparison two numbers, before and now, as
 * difffolded.pl has them.
 */
#include "host/text/json_write.h"
#include "recording/formats.h"

/* A frame must not end its field or its line, nor drive the terminal that it may be shown on. */
static void put_frame(struct pb_buf *out, const struct pb_prof_frame *f)
{
    struct pb_buf label = PB_BUF_INIT;

    pb_format_label(&label, f);
    for (const char *s = label.data; *s;) {
        size_t n = pb_utf8_len(s);
        unsigned char c = (unsigned char)s[0];
        bool control = c < 0x20 || c == 0x7f || pb_utf8_is_hidden(s, n);

        if (c == ';')
            pb_buf_putc(out, ':');
        else if (!n || control)
            pb_buf_putc(out, '?');
        else
            pb_buf_add(out, s, n);
        s += n ? n : 1;
    }
    pb_buf_finish(&label);
}

void pb_format_collapsed(const struct pb_recording *r, struct pb_buf *out)
{
    struct pb_arena a = PB_ARENA_INIT;
    uint64_t *self = PB_NEW_N(&a, uint64_t, r->stacks.nnodes);
    uint64_t *total = PB_NEW_N(&a, uint64_t, r->stacks.nnodes);
    uint64_t *before = PB_NEW_N(&a, uint64_t, r->stacks.nnodes);

    pb_recording_sums_before(r, before, total);
    pb_recording_sums(r, self, total);
    for (uint32_t node = 1; node < r->stacks.nnodes; node++) {
        uint64_t us = (self[node] + 500) / 1000, old = (before[node] + 500) / 1000;
        struct pb_arena line = PB_ARENA_INIT;
        uint32_t *frames;
        size_t n;

        if (!us && !old)
            continue;
        n = pb_format_path(&r->stacks, node, &line, &frames);
        for (size_t i = 0; i < n; i++) {
            if (i)
                pb_buf_putc(out, ';');
            put_frame(out, &r->stacks.frames[frames[i]]);
        }
        if (r->before_title)
            pb_buf_printf(out, " %llu", (unsigned long long)old);
        pb_buf_printf(out, " %llu\n", (unsigned long long)us);
        pb_arena_finish(&line);
    }
    pb_arena_finish(&a);
}
