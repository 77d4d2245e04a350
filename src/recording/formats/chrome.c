/*
 * Trace events of Chrome: a flame chart over time. A frame that stays from one sample of a thread
 * to the next is one event. Of events that begin and end together viewers take the first for the
 * caller: they are written in the order of their begin, the longest and outermost first.
 */
#include <stdlib.h>

#include "host/text/alloc.h"
#include "host/text/json_write.h"
#include "recording/formats.h"

struct event {
    uint32_t frame, depth;
    uint64_t from_ns, to_ns;
};

/* One thread: what is on its stack, and what was. */
struct chart {
    const struct pb_recording *r;
    struct event *open; /* from the outermost on */
    size_t nopen, open_cap;
    struct event *done;
    size_t ndone, done_cap;
};

static void append(struct event **v, size_t *n, size_t *cap, const struct event *e)
{
    if (*n == *cap) {
        *cap = *cap ? *cap * 2 : 256;
        *v = pb_alloc_resize(*v, *cap * sizeof **v);
    }
    (*v)[(*n)++] = *e;
}

static size_t depth_of(const struct pb_stacks *s, uint32_t node)
{
    size_t n = 0;

    for (; node; node = s->nodes[node].parent)
        n++;
    return n;
}

/* From the stack that is open to another; what both have stays open. */
static void change(struct chart *c, uint32_t before, uint32_t node, uint64_t closed_ns,
                   uint64_t at_ns)
{
    const struct pb_stacks *s = &c->r->stacks;
    uint32_t common = node;
    size_t kept;

    for (uint32_t x = before; x != common;) { /* callers have lower numbers */
        if (x > common)
            x = s->nodes[x].parent;
        else
            common = s->nodes[common].parent;
    }
    for (kept = depth_of(s, common); c->nopen > kept; c->nopen--) {
        struct event e = c->open[c->nopen - 1];

        e.to_ns = closed_ns;
        append(&c->done, &c->ndone, &c->done_cap, &e);
    }
    for (size_t i = depth_of(s, node); i > kept; i--) /* room for all of them */
        append(&c->open, &c->nopen, &c->open_cap, &(struct event){0});
    for (size_t i = c->nopen; i > kept; i--, node = s->nodes[node].parent)
        c->open[i - 1] = (struct event){s->nodes[node].frame, (uint32_t)i, at_ns, 0};
}

static int by_begin(const void *x, const void *y)
{
    const struct event *a = x, *b = y;

    if (a->from_ns != b->from_ns)
        return a->from_ns < b->from_ns ? -1 : 1;
    if (a->to_ns != b->to_ns)
        return a->to_ns > b->to_ns ? -1 : 1;
    return (a->depth > b->depth) - (a->depth < b->depth);
}

static void put_time(struct pb_buf *out, const char *key, uint64_t ns)
{
    pb_buf_printf(out, ",\"%s\":%llu.%03u", key, (unsigned long long)(ns / 1000),
                  (unsigned)(ns % 1000));
}

/* A whole event: pairs of begin and end are matched by each viewer in a way of its own. */
static void put_event(struct pb_buf *out, const struct pb_rec_thread *t,
                      const struct pb_prof_frame *f, const struct event *e)
{
    struct pb_buf label = PB_BUF_INIT;

    pb_format_label(&label, f);
    pb_buf_printf(out, ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"cat\":\"%s\",\"name\":",
                  (int)t->pid, (int)t->tid, f->native ? "native" : "python");
    pb_json_string(out, label.data);
    put_time(out, "ts", e->from_ns);
    put_time(out, "dur", e->to_ns - e->from_ns);
    pb_buf_putc(out, '}');
    pb_buf_finish(&label);
}

static void put_thread(const struct pb_recording *r, uint32_t thread, struct pb_buf *out)
{
    struct chart c = {.r = r};
    uint32_t node = 0;
    uint64_t closed = 0;

    for (size_t i = 0; i < r->nentries; i++) {
        const struct pb_rec_sample *e = &r->entries[i];

        if (e->thread != thread)
            continue;
        if (e->at_ns > closed) { /* left out by a filter */
            change(&c, node, 0, closed, closed);
            node = 0;
        }
        change(&c, node, e->node, e->at_ns, e->at_ns);
        node = e->node;
        closed = e->at_ns + e->weight_ns;
    }
    change(&c, node, 0, closed, closed);
    if (c.ndone)
        qsort(c.done, c.ndone, sizeof *c.done, by_begin);
    for (size_t i = 0; i < c.ndone; i++)
        put_event(out, &r->threads[thread], &r->stacks.frames[c.done[i].frame], &c.done[i]);
    free(c.open);
    free(c.done);
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
