/*
 * Trace events of Chrome: a flame chart over time. A frame that stays from one sample of a thread
 * to the next is one event.
 */
#include "profile/formats.h"

struct open_frames {
    uint32_t *nodes; /* from the outermost on */
    uint64_t *since;
    size_t n;
};

static void put_time(struct pb_buf *out, const char *key, uint64_t ns)
{
    pb_buf_printf(out, ",\"%s\":%llu.%03u", key, (unsigned long long)(ns / 1000),
                  (unsigned)(ns % 1000));
}

/* A whole event: pairs of begin and end are matched by each viewer in a way of its own. */
static void put_event(struct pb_buf *out, const struct pb_rec_thread *t,
                      const struct pb_prof_frame *f, uint64_t from, uint64_t to)
{
    struct pb_buf label = PB_BUF_INIT;

    pb_format_label(&label, f);
    pb_buf_printf(out, ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"cat\":\"%s\",\"name\":",
                  (int)t->pid, (int)t->tid, f->native ? "native" : "python");
    pb_json_string(out, label.data);
    put_time(out, "ts", from);
    put_time(out, "dur", to - from);
    pb_buf_putc(out, '}');
    pb_buf_finish(&label);
}

static void change(const struct pb_recording *r, const struct pb_rec_sample *e,
                   struct open_frames *open, uint64_t closed_ns, struct pb_arena *a,
                   struct pb_buf *out)
{
    const struct pb_stacks *s = &r->stacks;
    struct open_frames now = {0};
    size_t common = 0;

    for (uint32_t n = e->node; n; n = s->nodes[n].parent)
        now.n++;
    now.nodes = PB_NEW_N(a, uint32_t, now.n + 1);
    now.since = PB_NEW_N(a, uint64_t, now.n + 1);
    for (uint32_t n = e->node, i = (uint32_t)now.n; n; n = s->nodes[n].parent)
        now.nodes[--i] = n;
    while (common < now.n && common < open->n && now.nodes[common] == open->nodes[common])
        common++;
    for (size_t i = open->n; i-- > common;)
        put_event(out, &r->threads[e->thread], &s->frames[s->nodes[open->nodes[i]].frame],
                  open->since[i], closed_ns);
    for (size_t i = 0; i < now.n; i++)
        now.since[i] = i < common ? open->since[i] : e->at_ns;
    *open = now;
}

static void put_thread(const struct pb_recording *r, uint32_t thread, struct pb_buf *out)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_rec_sample nothing = {.thread = thread};
    struct open_frames open = {0};
    uint64_t closed = 0;

    for (size_t i = 0; i < r->nentries; i++) {
        const struct pb_rec_sample *e = &r->entries[i];

        if (e->thread != thread)
            continue;
        if (open.n && e->at_ns > closed) /* left out by a filter */
            change(r, &nothing, &open, closed, &a, out);
        change(r, e, &open, e->at_ns, &a, out);
        closed = e->at_ns + e->weight_ns;
    }
    if (open.n)
        change(r, &nothing, &open, closed, &a, out);
    pb_arena_finish(&a);
}

void pb_format_chrome(const struct pb_recording *r, struct pb_buf *out)
{
    struct pb_arena a = PB_ARENA_INIT;

    pb_buf_printf(out, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
                       "{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_name\",\"args\":{\"name\":",
                  (int)r->pid);
    pb_json_string(out, pb_format_title(r, &a));
    pb_buf_puts(out, "}}");
    for (uint32_t t = 0; t < r->nthreads; t++) {
        pb_buf_printf(out, ",\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"thread_name\","
                           "\"args\":{\"name\":",
                      (int)r->threads[t].pid, (int)r->threads[t].tid);
        pb_json_string(out, r->threads[t].name);
        pb_buf_puts(out, "}}");
        put_thread(r, t, out);
    }
    pb_buf_puts(out, "\n]}\n");
    pb_arena_finish(&a);
}
