#include <stdlib.h>
#include <string.h>

#include "host/text/alloc.h"
#include "host/text/json.h"
#include "recording/timeline/timeline_internal.h"

enum { DEPTH_MAX = 512, LANES_MAX = 16, COLUMNS = 13 };

struct pb_timeline {
    const struct pb_timeline_writer *writer;
    const struct pb_recording *samples;
    struct pb_buf *out;
    int64_t base_us; /* what times count from */
    uint64_t tracks, events;
    int64_t pid;   /* process of the track that is being written; -1: the machine */
    int64_t named; /* process whose name was written last; -2: none yet */
    struct pb_buf track; /* name of the track */
    bool entered;  /* there is such a track */
    bool nested;   /* its slices lie in each other; else in lanes */
    uint64_t id;   /* id of the track, or of its first lane */
    int64_t ends[DEPTH_MAX]; /* ends of the open slices, outermost first; or of each lane */
    size_t nends;
};

struct pb_timeline *pb_timeline_begin(enum pb_timeline_format format,
                                      const struct pb_history_window *w,
                                      const struct pb_recording *samples, struct pb_buf *out)
{
    struct pb_recording none = {.started_ns = w->from_ms * 1000000};
    struct pb_timeline *t = pb_alloc_resize(NULL, sizeof *t);

    memset(t, 0, sizeof *t);
    t->writer = format == PB_TIMELINE_CHROME ? &pb_timeline_chrome : &pb_timeline_perfetto;
    t->samples = samples;
    t->out = out;
    t->named = -2;
    t->base_us = format == PB_TIMELINE_CHROME ? w->from_ms * 1000 : 0;
    t->writer->begin(out, samples ? samples : &none);
    return t;
}

/* What is open ends where it said it would. */
static void close_before(struct pb_timeline *t, int64_t at_us)
{
    while (t->nends && t->ends[t->nends - 1] <= at_us)
        t->writer->close(t->out, t->id, t->ends[--t->nends]);
}

static void leave_track(struct pb_timeline *t)
{
    if (t->nested)
        close_before(t, INT64_MAX);
    t->nends = 0;
    t->entered = false;
}

static void name_process(struct pb_timeline *t, const struct pb_timeline_row *row)
{
    struct pb_arena a = PB_ARENA_INIT;
    const char *name = row->pid < 0 ? "machine" : "python";

    if (row->pid == t->named)
        return;
    t->named = row->pid;
    if (row->rank >= 0)
        name = pb_arena_printf(&a, "rank %lld", (long long)row->rank);
    else if (t->samples && t->samples->pid == row->pid && t->samples->command)
        name = pb_arena_printf(&a, "%.200s", t->samples->command);
    t->writer->process(t->out, row->pid, name);
    pb_arena_finish(&a);
}

/* The track of a row; rows of one come together. */
static void enter_track(struct pb_timeline *t, const struct pb_timeline_row *row)
{
    if (t->entered && t->pid == row->pid && strcmp(t->track.data, row->track) == 0)
        return;
    leave_track(t);
    pb_buf_clear(&t->track);
    pb_buf_puts(&t->track, row->track);
    pb_buf_putc(&t->track, '\0');
    t->entered = true;
    t->nested = strcmp(row->kind, "nested") == 0;
    t->pid = row->pid;
    name_process(t, row);
    t->id = ++t->tracks;
    t->tracks += LANES_MAX - 1;
    t->writer->track(t->out, t->id, row->track, row);
}

/* Inside of the slice around it, whatever its own length says. */
static void put_nested(struct pb_timeline *t, struct pb_timeline_row *row)
{
    close_before(t, row->from_us);
    if (t->nends == DEPTH_MAX)
        return;
    if (t->nends && row->to_us > t->ends[t->nends - 1])
        row->to_us = t->ends[t->nends - 1];
    t->writer->open(t->out, t->id, row);
    t->ends[t->nends++] = row->to_us;
}

/* Slices that overlap without one being part of the other: each in a lane that is free. */
static void put_lane(struct pb_timeline *t, struct pb_timeline_row *row)
{
    size_t lane = 0;

    while (lane < t->nends && t->ends[lane] > row->from_us)
        lane++;
    if (lane == LANES_MAX)
        return;
    if (lane == t->nends && lane)
        t->writer->track(t->out, t->id + lane, row->track, row);
    if (lane == t->nends)
        t->nends++;
    t->ends[lane] = row->to_us;
    t->writer->open(t->out, t->id + lane, row);
    t->writer->close(t->out, t->id + lane, row->to_us);
}

static int64_t whole_of(const struct pb_json *cell)
{
    return cell->type == PB_J_INT ? cell->v.i : -1;
}

static double real_of(const struct pb_json *cell, double none)
{
    return cell->type == PB_J_REAL ? cell->v.d : cell->type == PB_J_INT ? (double)cell->v.i : none;
}

static const char *text_of(const struct pb_json *cell)
{
    return cell->type == PB_J_STRING ? cell->s : "";
}

static bool read_row(const struct pb_json *line, struct pb_timeline_row *ret)
{
    const struct pb_json *c = line->items;
    int64_t length;

    if (line->type != PB_J_ARRAY || line->n != COLUMNS || c[4].type != PB_J_INT)
        return false;
    length = whole_of(&c[5]);
    *ret = (struct pb_timeline_row){
        .kind = text_of(&c[0]), .pid = whole_of(&c[1]), .rank = whole_of(&c[2]),
        .track = text_of(&c[3]), .from_us = c[4].v.i, .name = text_of(&c[6]),
        .value = real_of(&c[7], 0), .unit = text_of(&c[8]), .step = whole_of(&c[9]),
        .bytes = whole_of(&c[10]), .gpu_ms = real_of(&c[11], -1), .detail = text_of(&c[12]),
    };
    /* A sum of the two must be one that can be written. */
    if (ret->from_us < 0 || ret->from_us > INT64_MAX / 4000 || length > INT64_MAX / 4000)
        return false;
    ret->to_us = ret->from_us + (length > 0 ? length : 0);
    return true;
}

int pb_timeline_line(struct pb_timeline *t, const char *line, size_t len, struct pb_err *err)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_timeline_row row;
    struct pb_json json;
    int rc = 0;

    if (!len || line[0] != '[') { /* columns of the next statement */
        leave_track(t);
        return 0;
    }
    if (pb_json_parse(&a, line, len, &json, err) < 0) {
        rc = -1;
    } else if (!read_row(&json, &row)) {
        rc = pb_err_set(err, PB_FAIL, "a row of a trace is not as it was asked for");
    } else {
        row.from_us = row.from_us > t->base_us ? row.from_us - t->base_us : 0;
        row.to_us = row.to_us > t->base_us ? row.to_us - t->base_us : 0;
        enter_track(t, &row);
        t->events++;
        if (strcmp(row.kind, "counter") == 0)
            t->writer->count(t->out, t->id, &row);
        else if (t->nested)
            put_nested(t, &row);
        else
            put_lane(t, &row);
    }
    pb_arena_finish(&a);
    return rc;
}

uint64_t pb_timeline_end(struct pb_timeline *t)
{
    uint64_t events = t->events;

    leave_track(t);
    t->writer->end(t->out);
    pb_timeline_destroy(t);
    return events;
}

void pb_timeline_destroy(struct pb_timeline *t)
{
    if (!t)
        return;
    pb_buf_finish(&t->track);
    free(t);
}
