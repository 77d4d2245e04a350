/*
 * The protocol buffer of pprof (profile.proto), not compressed, which its readers accept. Values
 * of a sample: how many, and nanoseconds of wall time. Labels: thread, state, GIL. Of
 * memory: blocks and bytes in use, no labels.
 */
#include "recording/formats.h"
#include "recording/timeline/varint.h"

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
       S_RUNNING, S_IDLE, S_WAITING, S_STOPPED, S_BLOCKS, S_SPACE, S_BYTES, S_FIRST };
static const char *const fixed[S_FIRST] = {
    "", "samples", "count", "wall", "nanoseconds", "thread", "state", "gil", "held", "waited for",
    "running", "idle", "waiting", "stopped", "inuse_objects", "inuse_space", "bytes"};

struct writer {
    struct pb_buf *out;
    struct pb_buf strings; /* messages of the string table, written last */
    uint64_t nstrings;
};

static uint64_t string(struct writer *w, const char *text)
{
    pb_varint_text(&w->strings, PROFILE_STRING, text);
    return w->nstrings++;
}

static void value_type(struct pb_buf *out, unsigned number, uint64_t type, uint64_t unit)
{
    struct pb_buf m = PB_BUF_INIT;

    pb_varint_field(&m, 1, type);
    pb_varint_field(&m, 2, unit);
    pb_varint_message(out, number, &m);
    pb_buf_finish(&m);
}

static void label(struct pb_buf *sample, uint64_t key, uint64_t value)
{
    struct pb_buf m = PB_BUF_INIT;

    pb_varint_field(&m, 1, key);
    pb_varint_field(&m, 2, value);
    pb_varint_message(sample, 3, &m);
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
            pb_varint(&packed, r->stacks.nodes[node].frame + 1u);
        pb_varint_message(&s, 1, &packed);
        pb_varint(&packed, leaves[i].count);
        pb_varint(&packed, r->is_memory ? leaves[i].weight_ns / 1000 : leaves[i].weight_ns);
        pb_varint_message(&s, 2, &packed);
        if (!r->is_memory) {
            label(&s, S_THREAD, threads[leaves[i].thread]);
            label(&s, S_STATE, states[leaves[i].state]);
        }
        if (leaves[i].holds_gil || leaves[i].waits_gil)
            label(&s, S_GIL, leaves[i].holds_gil ? S_HELD : S_WAITED);
        pb_varint_message(w->out, PROFILE_SAMPLE, &s);
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

    pb_varint_field(&line, 1, id);
    pb_varint_field(&line, 2, f->lineno > 0 ? (uint64_t)f->lineno : 0);
    pb_varint_field(&m, 1, id);
    pb_varint_message(&m, 4, &line);
    pb_varint_message(w->out, PROFILE_LOCATION, &m);
    pb_varint_field(&m, 1, id);
    pb_varint_field(&m, 2, name);
    pb_varint_field(&m, 3, name);
    pb_varint_field(&m, 4, string(w, f->file));
    pb_varint_message(w->out, PROFILE_FUNCTION, &m);
    pb_buf_finish(&line);
    pb_buf_finish(&m);
}

void pb_format_pprof(const struct pb_recording *r, struct pb_buf *out)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct writer w = {out, PB_BUF_INIT, 0};
    uint64_t *threads = PB_NEW_N(&a, uint64_t, r->nthreads + 1);
    uint64_t what = r->is_memory ? S_SPACE : S_WALL, unit = r->is_memory ? S_BYTES : S_NS;

    for (size_t i = 0; i < S_FIRST; i++)
        string(&w, fixed[i]);
    for (size_t i = 0; i < r->nthreads; i++)
        threads[i] = string(&w, pb_format_thread(r, i, &a));
    value_type(out, PROFILE_SAMPLE_TYPE, r->is_memory ? S_BLOCKS : S_SAMPLES, S_COUNT);
    value_type(out, PROFILE_SAMPLE_TYPE, what, unit);
    put_samples(&w, r, threads);
    for (size_t i = 0; i < r->stacks.nframes; i++)
        put_frame(&w, i + 1, &r->stacks.frames[i]);
    pb_varint_field(out, PROFILE_TIME, (uint64_t)r->started_ns);
    pb_varint_field(out, PROFILE_DURATION, r->length_ns);
    value_type(out, PROFILE_PERIOD_TYPE, what, unit);
    pb_varint_field(out, PROFILE_PERIOD, r->rate > 0 ? (uint64_t)(1e9 / r->rate) : 0);
    pb_varint_field(out, PROFILE_COMMENT, string(&w, pb_format_title(r, &a)));
    pb_varint_field(out, PROFILE_DEFAULT, what);
    pb_buf_add(out, w.strings.data, w.strings.len);
    pb_buf_finish(&w.strings);
    pb_arena_finish(&a);
}
