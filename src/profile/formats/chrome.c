/*
 * Trace events of Chrome: a flame chart over time. A frame that stays from one sample of a thread
 * to the next is one event.
 */
#include "profile/formats.h"

struct open_frames {
    uint32_t *nodes; /* from the outermost on */
    size_t n;
};

static void put_time(struct pb_buf *out, uint64_t ns)
{
    pb_buf_printf(out, "%llu.%03u", (unsigned long long)(ns / 1000), (unsigned)(ns % 1000));
}

static void put_event(struct pb_buf *out, char phase, const struct pb_rec_thread *t, uint64_t ns)
{
    pb_buf_printf(out, ",\n{\"ph\":\"%c\",\"pid\":%d,\"tid\":%d,\"ts\":", phase, (int)t->pid,
                  (int)t->tid);
    put_time(out, ns);
}

static void begin(struct pb_buf *out, const struct pb_rec_thread *t, uint64_t ns,
                  const struct pb_prof_frame *f, const struct pb_rec_sample *e)
{
    put_event(out, 'B', t, ns);
    pb_buf_puts(out, ",\"name\":");
    pb_json_string(out, f->func);
    pb_buf_printf(out, ",\"cat\":\"%s\",\"args\":{\"file\":", f->native ? "native" : "python");
    pb_json_string(out, f->file);
    pb_buf_printf(out, ",\"line\":%d,\"state\":\"%s\"}}", f->lineno, pb_state_name(e->state));
}

static void end(struct pb_buf *out, const struct pb_rec_thread *t, uint64_t ns)
{
    put_event(out, 'E', t, ns);
    pb_buf_putc(out, '}');
}

static void change(const struct pb_recording *r, const struct pb_rec_sample *e,
                   struct open_frames *open, uint64_t closed_ns, struct pb_arena *a,
                   struct pb_buf *out)
{
    const struct pb_rec_thread *t = &r->threads[e->thread];
    size_t depth = 0, common = 0;
    uint32_t *nodes;

    for (uint32_t n = e->node; n; n = r->stacks.nodes[n].parent)
        depth++;
    nodes = PB_NEW_N(a, uint32_t, depth + 1);
    for (uint32_t n = e->node, i = (uint32_t)depth; n; n = r->stacks.nodes[n].parent)
        nodes[--i] = n;
    while (common < depth && common < open->n && nodes[common] == open->nodes[common])
        common++;
    for (size_t i = open->n; i > common; i--)
        end(out, t, closed_ns);
    for (size_t i = common; i < depth; i++)
        begin(out, t, e->at_ns, &r->stacks.frames[r->stacks.nodes[nodes[i]].frame], e);
    *open = (struct open_frames){nodes, depth};
}

static void put_thread(const struct pb_recording *r, uint32_t thread, struct pb_buf *out)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_rec_sample nothing = {.thread = thread};
    struct open_frames open = {NULL, 0};
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
