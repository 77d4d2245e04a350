#include "recording/formats.h"

#include <string.h>
#include <time.h>

const struct pb_format pb_formats[] = {
#define X(name, compares, measures, endings, what)                                                 \
    {#name, compares, measures, endings, what, pb_format_##name},
    PB_FORMATS(X)
#undef X
    {NULL, false, false, NULL, NULL, NULL},
};

const struct pb_format *pb_format_find(const char *name)
{
    for (const struct pb_format *f = pb_formats; f->name; f++)
        if (strcmp(f->name, name) == 0)
            return f;
    return NULL;
}

const struct pb_format *pb_format_by_path(const char *path)
{
    const struct pb_format *best = NULL;
    size_t best_len = 0, len = strlen(path);

    for (const struct pb_format *f = pb_formats; f->name; f++) {
        for (const char *at = f->endings; *at;) {
            size_t n = strcspn(at, " ");

            if (n > best_len && n < len && memcmp(path + len - n, at, n) == 0) {
                best = f;
                best_len = n;
            }
            at += n + (at[n] == ' ');
        }
    }
    return best;
}

void pb_format_label(struct pb_buf *out, const struct pb_prof_frame *f)
{
    pb_buf_puts(out, f->func);
    if (!f->file[0])
        return;
    pb_buf_printf(out, " (%s", pb_stacks_short_file(f->file));
    if (f->lineno > 0)
        pb_buf_printf(out, ":%d", f->lineno);
    pb_buf_putc(out, ')');
}

void pb_format_xml(struct pb_buf *out, const char *text)
{
    while (*text) {
        size_t n = pb_utf8_len(text);
        unsigned char c = (unsigned char)*text;

        if (c == '&')
            pb_buf_puts(out, "&amp;");
        else if (c == '<')
            pb_buf_puts(out, "&lt;");
        else if (c == '>')
            pb_buf_puts(out, "&gt;");
        else if (c == '"')
            pb_buf_puts(out, "&quot;");
        else if (!n || c < 0x20 || c == 0x7f)
            pb_buf_puts(out, "\xef\xbf\xbd");
        else
            pb_buf_add(out, text, n);
        text += n ? n : 1;
    }
}

size_t pb_format_path(const struct pb_stacks *s, uint32_t node, struct pb_arena *a,
                      uint32_t **ret_frames)
{
    size_t depth = 0;

    for (uint32_t n = node; n; n = s->nodes[n].parent)
        depth++;
    *ret_frames = PB_NEW_N(a, uint32_t, depth + 1);
    for (size_t i = depth; node; node = s->nodes[node].parent)
        (*ret_frames)[--i] = s->nodes[node].frame;
    return depth;
}

const char *pb_format_thread(const struct pb_recording *r, size_t thread, struct pb_arena *a)
{
    const struct pb_rec_thread *t = &r->threads[thread];
    const char *name = t->name[0] ? t->name : "thread";

    if (t->pid != r->pid)
        return pb_arena_printf(a, "%d %s (%d)", (int)t->pid, name, (int)t->tid);
    return pb_arena_printf(a, "%s (%d)", name, (int)t->tid);
}

const char *pb_format_title(const struct pb_recording *r, struct pb_arena *a)
{
    const char *title = r->command && r->command[0] ? r->command : "flame graph";

    title = pb_arena_printf(a, "%.200s", title);
    if (r->processes > 1 && !r->before_title)
        return pb_arena_printf(a, "%s · %zu processes", title, r->processes);
    if (r->pid)
        title = pb_arena_printf(a, "%s · %d", title, (int)r->pid);
    return r->python ? pb_arena_printf(a, "%s · Python %s", title, r->python) : title;
}

const char *pb_format_clock(struct pb_arena *a, int64_t ns)
{
    time_t seconds = (time_t)(ns / 1000000000);
    struct tm tm;
    char text[40];

    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", localtime_r(&seconds, &tm));
    return pb_arena_strdup(a, text);
}

const char *pb_format_amount(const struct pb_recording *r, struct pb_arena *a, uint64_t weight)
{
    double v = (double)weight / 1000 / 1048576;

    if (!r->is_memory)
        return pb_arena_printf(a, "%.3f s", (double)weight / 1e9);
    return v >= 1024 ? pb_arena_printf(a, "%.2f GB", v / 1024) : pb_arena_printf(a, "%.2f MB", v);
}

/* What is known of memory: how many blocks stand for it. */
static const char *memory_info(const struct pb_recording *r, struct pb_arena *a)
{
    return pb_arena_printf(a, "memory in use by who allocated it, %s to %s, %llu sampled blocks",
                           pb_format_clock(a, r->started_ns),
                           pb_format_clock(a, r->started_ns + (int64_t)r->length_ns) + 11,
                           (unsigned long long)r->samples);
}

const char *pb_format_info(const struct pb_recording *r, struct pb_arena *a)
{
    const char *when = "", *compared = "";

    if (r->is_memory)
        return memory_info(r, a);
    if (r->rate > 0)
        when = pb_arena_printf(a, "%.1f s at %g Hz, ", (double)r->length_ns / 1e9, r->rate);
    else if (r->started_ns)
        when = pb_arena_printf(a, "%s to %s, ", pb_format_clock(a, r->started_ns),
                               pb_format_clock(a, r->started_ns + (int64_t)r->length_ns));
    if (r->before_title)
        compared = pb_arena_printf(a, "; compared with %.200s", r->before_title);
    return pb_arena_printf(a, "%s%llu samples, %llu missed, %llu torn%s", when,
                           (unsigned long long)r->samples, (unsigned long long)r->missed,
                           (unsigned long long)r->torn, compared);
}
