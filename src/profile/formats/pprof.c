/*
 * The protocol buffer of pprof (profile.proto), not compressed, which its readers accept. Values
 * of a sample: how many, and nanoseconds of wall time. Labels: thread, state, GIL.
 */
#include <string.h>

#include "profile/formats.h"

/* Fields of profile.proto. */
enum {
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_SAMPLE = 2,
    PROFILE_LOCATION = 4,
    PROFILE_FUNCTION = 5,
    PROFILE_STRING = 6,
    PROFILE_TIME = 9,
    PROFILE_DURATION = 10,
    PROFILE_PERIOD_TYPE = 11,
    PROFILE_PERIOD = 12,
    PROFILE_COMMENT = 13,
    PROFILE_DEFAULT = 14,
};

/* Strings that every profile has; their place is their number in the string table. */
enum { S_EMPTY, S_SAMPLES, S_COUNT, S_WALL, S_NS, S_THREAD, S_STATE, S_GIL, S_HELD, S_WAITED,
       S_RUNNING, S_IDLE, S_WAITING, S_STOPPED, S_FIRST };
static const char *const fixed[S_FIRST] = {
    "", "samples", "count", "wall", "nanoseconds", "thread", "state", "gil", "held", "waited for",
    "running", "idle", "waiting", "stopped"};

struct writer {
    struct pb_buf *out;
    struct pb_buf strings; /* messages of the string table, written last */
    uint64_t nstrings;
};

static void varint(struct pb_buf *b, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        pb_buf_putc(b, (char)(v | 0x80));
    pb_buf_putc(b, (char)v);
}

static void field(struct pb_buf *b, unsigned number, uint64_t v)
{
    varint(b, number << 3);
    varint(b, v);
}

static void bytes(struct pb_buf *b, unsigned number, const void *data, size_t len)
{
    varint(b, number << 3 | 2);
    varint(b, len);
    pb_buf_add(b, data, len);
}

static void message(struct pb_buf *b, unsigned number, struct pb_buf *inner)
{
    bytes(b, number, inner->data, inner->len);
    pb_buf_clear(inner);
}

/* proto3 wants valid UTF-8. */
static uint64_t string(struct writer *w, const char *text)
{
    struct pb_buf clean = PB_BUF_INIT;

    while (*text) {
        size_t n = pb_utf8_len(text);

        if (n)
            pb_buf_add(&clean, text, n);
        else
            pb_buf_puts(&clean, "\xef\xbf\xbd");
        text += n ? n : 1;
    }
    bytes(&w->strings, PROFILE_STRING, clean.data ? clean.data : "", clean.len);
    pb_buf_finish(&clean);
    return w->nstrings++;
}

static void value_type(struct pb_buf *out, unsigned number, uint64_t type, uint64_t unit)
{
    struct pb_buf m = PB_BUF_INIT;

    field(&m, 1, type);
    field(&m, 2, unit);
    message(out, number, &m);
    pb_buf_finish(&m);
}

static void label(struct pb_buf *sample, uint64_t key, uint64_t value)
{
    struct pb_buf m = PB_BUF_INIT;

    field(&m, 1, key);
    field(&m, 2, value);
    message(sample, 3, &m);
    pb_buf_finish(&m);
}

static void put_samples(struct writer *w, const struct pb_recording *r, const uint64_t *threads)
{
    static const uint64_t states[] = {[PB_RUNNING] = S_RUNNING, [PB_IDLE] = S_IDLE,
                                      [PB_WAITING] = S_WAITING, [PB_STOPPED] = S_STOPPED};
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_buf s = PB_BUF_INIT, packed = PB_BUF_INIT;
    struct pb_rec_leaf *leaves;
    size_t n = pb_recording_leaves(r, &a, &leaves);

    for (size_t i = 0; i < n; i++) {
        for (uint32_t node = leaves[i].node; node; node = r->stacks.nodes[node].parent)
            varint(&packed, r->stacks.nodes[node].frame + 1u);
        message(&s, 1, &packed);
        varint(&packed, leaves[i].count);
        varint(&packed, leaves[i].weight_ns);
        message(&s, 2, &packed);
        label(&s, S_THREAD, threads[leaves[i].thread]);
        label(&s, S_STATE, states[leaves[i].state]);
        if (leaves[i].holds_gil || leaves[i].waits_gil)
            label(&s, S_GIL, leaves[i].holds_gil ? S_HELD : S_WAITED);
        message(w->out, PROFILE_SAMPLE, &s);
    }
    pb_buf_finish(&packed);
    pb_buf_finish(&s);
    pb_arena_finish(&a);
}

/* A frame is a location; its function has the same number. */
static void put_frame(struct writer *w, uint64_t id, const struct pb_prof_frame *f)
{
    struct pb_buf m = PB_BUF_INIT, line = PB_BUF_INIT;
    uint64_t name = string(w, f->func);

    field(&line, 1, id);
    field(&line, 2, f->lineno > 0 ? (uint64_t)f->lineno : 0);
    field(&m, 1, id);
    message(&m, 4, &line);
    message(w->out, PROFILE_LOCATION, &m);
    field(&m, 1, id);
    field(&m, 2, name);
    field(&m, 3, name);
    field(&m, 4, string(w, f->file));
    message(w->out, PROFILE_FUNCTION, &m);
    pb_buf_finish(&line);
    pb_buf_finish(&m);
}

void pb_format_pprof(const struct pb_recording *r, struct pb_buf *out)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct writer w = {out, PB_BUF_INIT, 0};
    uint64_t *threads = PB_NEW_N(&a, uint64_t, r->nthreads + 1);

    for (size_t i = 0; i < S_FIRST; i++)
        string(&w, fixed[i]);
    for (size_t i = 0; i < r->nthreads; i++)
        threads[i] = string(&w, pb_format_thread(r, i, &a));
    value_type(out, PROFILE_SAMPLE_TYPE, S_SAMPLES, S_COUNT);
    value_type(out, PROFILE_SAMPLE_TYPE, S_WALL, S_NS);
    put_samples(&w, r, threads);
    for (size_t i = 0; i < r->stacks.nframes; i++)
        put_frame(&w, i + 1, &r->stacks.frames[i]);
    field(out, PROFILE_TIME, (uint64_t)r->started_ns);
    field(out, PROFILE_DURATION, r->length_ns);
    value_type(out, PROFILE_PERIOD_TYPE, S_WALL, S_NS);
    field(out, PROFILE_PERIOD, r->rate > 0 ? (uint64_t)(1e9 / r->rate) : 0);
    field(out, PROFILE_COMMENT, string(&w, pb_format_title(r, &a)));
    field(out, PROFILE_DEFAULT, S_WALL);
    pb_buf_add(out, w.strings.data, w.strings.len);
    pb_buf_finish(&w.strings);
    pb_arena_finish(&a);
}
