/*
 * The file format of speedscope: shared frames, one sampled profile for each thread.
 */
#include "host/text/json_write.h"
#include "recording/formats.h"

static void put_frames(const struct pb_recording *r, struct pb_buf *out)
{
    for (size_t i = 0; i < r->stacks.nframes; i++) {
        const struct pb_prof_frame *f = &r->stacks.frames[i];

        pb_buf_puts(out, i ? ",\n{\"name\":" : "\n{\"name\":");
        pb_json_string(out, f->func);
        if (f->file[0]) {
            pb_buf_puts(out, ",\"file\":");
            pb_json_string(out, f->file);
        }
        if (f->lineno > 0)
            pb_buf_printf(out, ",\"line\":%d", f->lineno);
        pb_buf_putc(out, '}');
    }
}

static void put_samples(const struct pb_recording *r, size_t thread, struct pb_buf *out)
{
    bool first = true;

    for (size_t i = 0; i < r->nentries; i++) {
        struct pb_arena a = PB_ARENA_INIT;
        uint32_t *frames;
        size_t n;

        if (r->entries[i].thread != thread)
            continue;
        n = pb_format_path(&r->stacks, r->entries[i].node, &a, &frames);
        pb_buf_puts(out, first ? "[" : ",[");
        for (size_t k = 0; k < n; k++)
            pb_buf_printf(out, k ? ",%u" : "%u", frames[k]);
        pb_buf_putc(out, ']');
        first = false;
        pb_arena_finish(&a);
    }
}

/* Returns the weight of all samples together. */
static uint64_t put_weights(const struct pb_recording *r, size_t thread, struct pb_buf *out)
{
    uint64_t sum = 0, scale = r->is_memory ? 1000 : 1;

    for (size_t i = 0; i < r->nentries; i++) {
        if (r->entries[i].thread != thread)
            continue;
        pb_buf_printf(out, sum ? ",%llu" : "%llu",
                      (unsigned long long)(r->entries[i].weight_ns / scale));
        sum += r->entries[i].weight_ns / scale;
    }
    return sum;
}

static bool has_samples(const struct pb_recording *r, size_t thread)
{
    for (size_t i = 0; i < r->nentries; i++)
        if (r->entries[i].thread == thread && r->entries[i].weight_ns)
            return true;
    return false;
}

void pb_format_speedscope(const struct pb_recording *r, struct pb_buf *out)
{
    struct pb_arena a = PB_ARENA_INIT;
    bool first = true;

    pb_buf_puts(out, "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\","
                     "\"exporter\":\"probing\",\"name\":");
    pb_json_string(out, pb_format_title(r, &a));
    pb_buf_puts(out, ",\"activeProfileIndex\":0,\"shared\":{\"frames\":[");
    put_frames(r, out);
    pb_buf_puts(out, "]},\"profiles\":[");
    for (size_t t = 0; t < r->nthreads; t++) {
        uint64_t sum;

        if (!has_samples(r, t))
            continue;
        pb_buf_puts(out, first ? "\n" : ",\n");
        first = false;
        pb_buf_puts(out, "{\"type\":\"sampled\",\"name\":");
        pb_json_string(out, pb_format_thread(r, t, &a));
        pb_buf_printf(out, ",\"unit\":\"%s\",\"startValue\":0,\"samples\":[",
                      r->is_memory ? "bytes" : "nanoseconds");
        put_samples(r, t, out);
        pb_buf_puts(out, "],\"weights\":[");
        sum = put_weights(r, t, out);
        pb_buf_printf(out, "],\"endValue\":%llu}", (unsigned long long)sum);
    }
    pb_buf_puts(out, "]}\n");
    pb_arena_finish(&a);
}
