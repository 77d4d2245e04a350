/*
 * Perfetto's own trace: for each thread its stacks over time as slices, and the samples with their
 * call stacks, of which Perfetto makes flame graphs of any window.
 */
#include "recording/formats.h"
#include "recording/timeline/varint.h"

/* Fields of perfetto_trace.proto, by message. */
enum { TRACE_PACKET = 1 };
enum {
    PACKET_TIMESTAMP = 8,
    PACKET_SEQUENCE = 10,
    PACKET_TRACK_EVENT = 11,
    PACKET_INTERNED = 12,
    PACKET_FLAGS = 13,
    PACKET_TRACK = 60,
    PACKET_PERF_SAMPLE = 66,
};
enum { TRACK_UUID = 1, TRACK_PROCESS = 3, TRACK_THREAD = 4 };
enum { PROCESS_PID = 1, PROCESS_NAME = 6 };
enum { THREAD_PID = 1, THREAD_TID = 2, THREAD_NAME = 5 };
enum { EVENT_TYPE = 9, EVENT_NAME_IID = 10, EVENT_TRACK = 11, EVENT_BEGIN = 1, EVENT_END = 2 };
enum {
    INTERNED_EVENT_NAMES = 2,
    INTERNED_FUNCTIONS = 5,
    INTERNED_FRAMES = 6,
    INTERNED_CALLSTACKS = 7,
    INTERNED_PATHS = 17,
    INTERNED_SOURCES = 18,
    INTERNED_MAPPINGS = 19,
};
enum { IID = 1, INTERNED_TEXT = 2 };
enum { FRAME_FUNCTION = 2, FRAME_MAPPING = 3, FRAME_SOURCE = 5, FRAME_LINE = 6 };
enum { MAPPING_PATH = 7 };
enum { CALLSTACK_FRAMES = 2 };
enum { SAMPLE_PID = 2, SAMPLE_TID = 3, SAMPLE_CALLSTACK = 4, SAMPLE_MODE = 5, MODE_USER = 2 };

enum { SEQUENCE = 1, STATE_CLEARED = 1, NEEDS_STATE = 2 };

struct writer {
    const struct pb_recording *r;
    struct pb_buf *out;
    struct pb_buf packet, inner;
    uint64_t start_ns;
};

static void end_packet(struct writer *w, unsigned flags)
{
    pb_varint_field(&w->packet, PACKET_SEQUENCE, SEQUENCE);
    pb_varint_field(&w->packet, PACKET_FLAGS, flags);
    pb_varint_message(w->out, TRACE_PACKET, &w->packet);
}

/* One numbered text of the interned ones. */
static void put_text(struct pb_buf *data, unsigned field, uint64_t iid, const char *text)
{
    struct pb_buf m = PB_BUF_INIT;

    pb_varint_field(&m, IID, iid);
    pb_varint_text(&m, INTERNED_TEXT, text);
    pb_varint_message(data, field, &m);
    pb_buf_finish(&m);
}

/* Frame i has number i + 1, and so have its function, its file and its mapping. */
static void put_frames(struct writer *w, struct pb_buf *data)
{
    const struct pb_stacks *s = &w->r->stacks;
    struct pb_buf m = PB_BUF_INIT, label = PB_BUF_INIT;

    for (size_t i = 0; i < s->nframes; i++) {
        const struct pb_prof_frame *f = &s->frames[i];

        pb_buf_clear(&label);
        pb_format_label(&label, f);
        put_text(data, INTERNED_EVENT_NAMES, i + 1, label.data);
        put_text(data, INTERNED_FUNCTIONS, i + 1, f->func);
        put_text(data, INTERNED_SOURCES, i + 1, f->file);
        put_text(data, INTERNED_PATHS, i + 1, f->file[0] ? pb_stacks_short_file(f->file) : "?");
        pb_varint_field(&m, IID, i + 1);
        pb_varint_field(&m, MAPPING_PATH, i + 1);
        pb_varint_message(data, INTERNED_MAPPINGS, &m);
        pb_varint_field(&m, IID, i + 1);
        pb_varint_field(&m, FRAME_FUNCTION, i + 1);
        pb_varint_field(&m, FRAME_MAPPING, i + 1);
        pb_varint_field(&m, FRAME_SOURCE, i + 1);
        if (f->lineno > 0)
            pb_varint_field(&m, FRAME_LINE, (uint64_t)f->lineno);
        pb_varint_message(data, INTERNED_FRAMES, &m);
    }
    pb_buf_finish(&label);
    pb_buf_finish(&m);
}

static void put_interned(struct writer *w)
{
    const struct pb_stacks *s = &w->r->stacks;
    struct pb_buf data = PB_BUF_INIT, m = PB_BUF_INIT;
    struct pb_arena a = PB_ARENA_INIT;
    bool *used = PB_NEW_N(&a, bool, s->nnodes);

    for (size_t i = 0; i < w->r->nentries; i++)
        used[w->r->entries[i].node] = true;
    put_frames(w, &data);
    for (uint32_t node = 1; node < s->nnodes; node++) {
        uint32_t *frames;
        size_t n = used[node] ? pb_format_path(s, node, &a, &frames) : 0;

        if (!n)
            continue;
        pb_varint_field(&m, IID, node);
        for (size_t i = 0; i < n; i++)
            pb_varint_field(&m, CALLSTACK_FRAMES, frames[i] + 1u);
        pb_varint_message(&data, INTERNED_CALLSTACKS, &m);
    }
    pb_varint_field(&w->packet, PACKET_TIMESTAMP, w->start_ns);
    pb_varint_message(&w->packet, PACKET_INTERNED, &data);
    end_packet(w, STATE_CLEARED);
    pb_buf_finish(&m);
    pb_buf_finish(&data);
    pb_arena_finish(&a);
}

/* A track for the process of each thread, and one for the thread below it. */
static void put_tracks(struct writer *w)
{
    const struct pb_recording *r = w->r;
    struct pb_arena a = PB_ARENA_INIT;

    for (size_t i = 0; i < r->nthreads; i++) {
        const struct pb_rec_thread *t = &r->threads[i];
        struct pb_buf m = PB_BUF_INIT;
        bool first = true;

        for (size_t k = 0; k < i; k++)
            first &= r->threads[k].pid != t->pid;
        if (first) {
            pb_varint_field(&m, PROCESS_PID, (uint64_t)t->pid);
            pb_varint_text(&m, PROCESS_NAME, t->pid == r->pid ? pb_format_title(r, &a) : "python");
            pb_varint_field(&w->inner, TRACK_UUID, (uint64_t)t->pid << 32);
            pb_varint_message(&w->inner, TRACK_PROCESS, &m);
            pb_varint_message(&w->packet, PACKET_TRACK, &w->inner);
            end_packet(w, NEEDS_STATE);
        }
        pb_varint_field(&m, THREAD_PID, (uint64_t)t->pid);
        pb_varint_field(&m, THREAD_TID, (uint64_t)t->tid);
        pb_varint_text(&m, THREAD_NAME, t->name);
        pb_varint_field(&w->inner, TRACK_UUID, i + 1);
        pb_varint_message(&w->inner, TRACK_THREAD, &m);
        pb_varint_message(&w->packet, PACKET_TRACK, &w->inner);
        end_packet(w, NEEDS_STATE);
        pb_buf_finish(&m);
    }
    pb_arena_finish(&a);
}

static void put_event(struct writer *w, uint64_t at_ns, uint32_t thread, uint32_t frame, int type)
{
    pb_varint_field(&w->packet, PACKET_TIMESTAMP, w->start_ns + at_ns);
    pb_varint_field(&w->inner, EVENT_TYPE, (uint64_t)type);
    pb_varint_field(&w->inner, EVENT_TRACK, thread + 1u);
    if (type == EVENT_BEGIN)
        pb_varint_field(&w->inner, EVENT_NAME_IID, frame + 1u);
    pb_varint_message(&w->packet, PACKET_TRACK_EVENT, &w->inner);
    end_packet(w, NEEDS_STATE);
}

/* From one stack of a thread to the next: what both have stays open. Nodes are shared prefixes. */
static void change(struct writer *w, uint32_t thread, uint32_t from, uint32_t to, uint64_t at_ns)
{
    const struct pb_stacks *s = &w->r->stacks;
    struct pb_arena a = PB_ARENA_INIT;
    uint32_t common = to, *path, depth = 0, n = 0;

    /* Numbers of callers are lower: the higher of the two cannot be the other's caller. */
    for (uint32_t x = from; x != common;) {
        if (x > common)
            x = s->nodes[x].parent;
        else
            common = s->nodes[common].parent;
    }
    for (uint32_t x = from; x != common; x = s->nodes[x].parent)
        put_event(w, at_ns, thread, 0, EVENT_END);
    for (uint32_t x = to; x != common; x = s->nodes[x].parent)
        depth++;
    path = PB_NEW_N(&a, uint32_t, depth + 1);
    for (uint32_t x = to; x != common; x = s->nodes[x].parent)
        path[n++] = s->nodes[x].frame;
    while (n)
        put_event(w, at_ns, thread, path[--n], EVENT_BEGIN);
    pb_arena_finish(&a);
}

static void put_sample(struct writer *w, const struct pb_rec_sample *e, uint64_t at_ns)
{
    const struct pb_rec_thread *t = &w->r->threads[e->thread];

    pb_varint_field(&w->packet, PACKET_TIMESTAMP, w->start_ns + at_ns);
    pb_varint_field(&w->inner, SAMPLE_PID, (uint64_t)t->pid);
    pb_varint_field(&w->inner, SAMPLE_TID, (uint64_t)t->tid);
    pb_varint_field(&w->inner, SAMPLE_CALLSTACK, e->node);
    pb_varint_field(&w->inner, SAMPLE_MODE, MODE_USER);
    pb_varint_message(&w->packet, PACKET_PERF_SAMPLE, &w->inner);
    end_packet(w, NEEDS_STATE);
}

/* Perfetto counts samples: an entry of many comes as many, spread over its time. */
static void put_thread(struct writer *w, uint32_t thread)
{
    uint32_t open = 0;
    uint64_t closed = 0;

    for (size_t i = 0; i < w->r->nentries; i++) {
        const struct pb_rec_sample *e = &w->r->entries[i];

        if (e->thread != thread || !e->node)
            continue;
        if (e->at_ns > closed) { /* left out by a filter */
            change(w, thread, open, 0, closed);
            open = 0;
        }
        change(w, thread, open, e->node, e->at_ns);
        open = e->node;
        closed = e->at_ns + e->weight_ns;
        for (uint32_t k = 0; k < e->count; k++)
            put_sample(w, e, e->at_ns + e->weight_ns / e->count * k);
    }
    change(w, thread, open, 0, closed);
}

void pb_format_perfetto(const struct pb_recording *r, struct pb_buf *out)
{
    struct writer w = {.r = r, .out = out,
                       .start_ns = r->started_ns > 0 ? (uint64_t)r->started_ns : 0};

    put_interned(&w);
    put_tracks(&w);
    for (uint32_t t = 0; t < r->nthreads; t++)
        put_thread(&w, t);
    pb_buf_finish(&w.packet);
    pb_buf_finish(&w.inner);
}
