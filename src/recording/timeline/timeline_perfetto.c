/*
 * Perfetto's own trace: packets of a sequence beside that of the samples (formats/perfetto.c),
 * whose tracks of processes are used here as well.
 */
#include <string.h>

#include "recording/formats.h"
#include "recording/timeline/timeline_internal.h"
#include "recording/timeline/varint.h"

/* Fields of perfetto_trace.proto, by message. */
enum { TRACE_PACKET = 1 };
enum { PACKET_TIMESTAMP = 8, PACKET_SEQUENCE = 10, PACKET_TRACK_EVENT = 11, PACKET_TRACK = 60 };
enum {
    TRACK_UUID = 1,
    TRACK_NAME = 2,
    TRACK_PROCESS = 3,
    TRACK_PARENT = 5,
    TRACK_COUNTER = 8,
};
enum { PROCESS_PID = 1, PROCESS_NAME = 6 };
enum { COUNTER_UNIT_NAME = 6 };
enum {
    EVENT_ANNOTATION = 4,
    EVENT_TYPE = 9,
    EVENT_TRACK = 11,
    EVENT_NAME = 23,
    EVENT_DOUBLE_VALUE = 44,
};
enum { TYPE_BEGIN = 1, TYPE_END = 2, TYPE_COUNTER = 4 };
enum { ANNOTATION_INT = 4, ANNOTATION_DOUBLE = 5, ANNOTATION_TEXT = 6, ANNOTATION_NAME = 10 };

enum { SEQUENCE = 2 };
/* Above the numbers of processes and threads. */
#define TRACK_FIRST (UINT64_C(1) << 62)

static void begin(struct pb_buf *out, const struct pb_recording *samples)
{
    if (samples->nthreads)
        pb_format_perfetto(samples, out);
}

static void put_packet(struct pb_buf *out, unsigned field, struct pb_buf *inner, int64_t at_us)
{
    struct pb_buf packet = PB_BUF_INIT;

    if (at_us >= 0)
        pb_varint_field(&packet, PACKET_TIMESTAMP, (uint64_t)at_us * 1000);
    pb_varint_message(&packet, field, inner);
    pb_varint_field(&packet, PACKET_SEQUENCE, SEQUENCE);
    pb_varint_message(out, TRACE_PACKET, &packet);
    pb_buf_finish(&packet);
    pb_buf_finish(inner);
}

static void process(struct pb_buf *out, int64_t pid, const char *name)
{
    struct pb_buf track = PB_BUF_INIT, inner = PB_BUF_INIT;

    if (pid < 0)
        return; /* tracks of the machine have no process */
    pb_varint_field(&inner, PROCESS_PID, (uint64_t)pid);
    pb_varint_text(&inner, PROCESS_NAME, name);
    pb_varint_field(&track, TRACK_UUID, (uint64_t)pid << 32);
    pb_varint_message(&track, TRACK_PROCESS, &inner);
    put_packet(out, PACKET_TRACK, &track, -1);
    pb_buf_finish(&inner);
}

static void track(struct pb_buf *out, uint64_t id, const char *name,
                  const struct pb_timeline_row *row)
{
    struct pb_buf made = PB_BUF_INIT, counter = PB_BUF_INIT;

    pb_varint_field(&made, TRACK_UUID, TRACK_FIRST + id);
    pb_varint_text(&made, TRACK_NAME, name);
    if (row->pid >= 0)
        pb_varint_field(&made, TRACK_PARENT, (uint64_t)row->pid << 32);
    if (strcmp(row->kind, "counter") == 0) {
        pb_varint_text(&counter, COUNTER_UNIT_NAME, row->unit);
        pb_varint_message(&made, TRACK_COUNTER, &counter);
    }
    put_packet(out, PACKET_TRACK, &made, -1);
    pb_buf_finish(&counter);
}

static void put_double(struct pb_buf *b, unsigned number, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    pb_varint(b, (uint64_t)number << 3 | 1);
    for (int i = 0; i < 8; i++)
        pb_buf_putc(b, (char)(bits >> 8 * i));
}

static void annotate(struct pb_buf *event, const char *name, int64_t whole, double real,
                     const char *text)
{
    struct pb_buf one = PB_BUF_INIT;

    pb_varint_text(&one, ANNOTATION_NAME, name);
    if (text)
        pb_varint_text(&one, ANNOTATION_TEXT, text);
    else if (whole >= 0)
        pb_varint_field(&one, ANNOTATION_INT, (uint64_t)whole);
    else
        put_double(&one, ANNOTATION_DOUBLE, real);
    pb_varint_message(event, EVENT_ANNOTATION, &one);
    pb_buf_finish(&one);
}

static void open_slice(struct pb_buf *out, uint64_t id, const struct pb_timeline_row *row)
{
    struct pb_buf event = PB_BUF_INIT;

    if (row->step >= 0)
        annotate(&event, "step", row->step, 0, NULL);
    if (row->bytes >= 0)
        annotate(&event, "bytes", row->bytes, 0, NULL);
    if (row->gpu_ms >= 0)
        annotate(&event, "gpu_ms", -1, row->gpu_ms, NULL);
    if (row->detail[0])
        annotate(&event, "detail", -1, 0, row->detail);
    pb_varint_field(&event, EVENT_TYPE, TYPE_BEGIN);
    pb_varint_field(&event, EVENT_TRACK, TRACK_FIRST + id);
    pb_varint_text(&event, EVENT_NAME, row->name);
    put_packet(out, PACKET_TRACK_EVENT, &event, row->from_us);
}

static void close_slice(struct pb_buf *out, uint64_t id, int64_t at_us)
{
    struct pb_buf event = PB_BUF_INIT;

    pb_varint_field(&event, EVENT_TYPE, TYPE_END);
    pb_varint_field(&event, EVENT_TRACK, TRACK_FIRST + id);
    put_packet(out, PACKET_TRACK_EVENT, &event, at_us);
}

static void count(struct pb_buf *out, uint64_t id, const struct pb_timeline_row *row)
{
    struct pb_buf event = PB_BUF_INIT;

    pb_varint_field(&event, EVENT_TYPE, TYPE_COUNTER);
    pb_varint_field(&event, EVENT_TRACK, TRACK_FIRST + id);
    put_double(&event, EVENT_DOUBLE_VALUE, row->value);
    put_packet(out, PACKET_TRACK_EVENT, &event, row->from_us);
}

static void end(struct pb_buf *out)
{
    (void)out;
}

const struct pb_timeline_writer pb_timeline_perfetto = {
    .begin = begin, .process = process, .track = track, .open = open_slice,
    .close = close_slice, .count = count, .end = end,
};
