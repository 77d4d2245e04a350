/*
 * Trace events of Chrome. A track is a thread with a number that no thread has; times count from
 * the begin of the window, as those of the samples do (formats/chrome.c).
 */
#include <string.h>

#include "host/text/json_write.h"
#include "recording/formats.h"
#include "recording/timeline/timeline_internal.h"

/* Above all numbers that the kernel gives out. */
#define TRACK_FIRST 1000000000llu

static const char array_end[] = "\n]}\n";

static void begin(struct pb_buf *out, const struct pb_recording *samples)
{
    if (samples->nthreads) {
        pb_format_chrome(samples, out);
        pb_buf_cut(out, out->len - strlen(array_end));
    } else {
        pb_buf_puts(out, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
                         "{\"ph\":\"M\",\"pid\":0,\"name\":\"process_name\","
                         "\"args\":{\"name\":\"machine\"}}");
    }
}

static long long pid_of(const struct pb_timeline_row *row)
{
    return row->pid < 0 ? 0 : (long long)row->pid;
}

static void process(struct pb_buf *out, int64_t pid, const char *name)
{
    pb_buf_printf(out, ",\n{\"ph\":\"M\",\"pid\":%lld,\"name\":\"process_name\","
                       "\"args\":{\"name\":",
                  pid < 0 ? 0 : (long long)pid);
    pb_json_string(out, name);
    pb_buf_puts(out, "}}");
}

/* Counters are known by their names. */
static void track(struct pb_buf *out, uint64_t id, const char *name,
                  const struct pb_timeline_row *row)
{
    if (strcmp(row->kind, "counter") == 0)
        return;
    pb_buf_printf(out, ",\n{\"ph\":\"M\",\"pid\":%lld,\"tid\":%llu,\"name\":\"thread_name\","
                       "\"args\":{\"name\":",
                  pid_of(row), TRACK_FIRST + (unsigned long long)id);
    pb_json_string(out, name);
    pb_buf_puts(out, "}}");
}

static void put_args(struct pb_buf *out, const struct pb_timeline_row *row)
{
    pb_buf_puts(out, ",\"args\":{");
    if (row->step >= 0) {
        pb_json_key(out, "step");
        pb_json_int(out, row->step);
    }
    if (row->bytes >= 0) {
        pb_json_key(out, "bytes");
        pb_json_int(out, row->bytes);
    }
    if (row->gpu_ms >= 0) {
        pb_json_key(out, "gpu_ms");
        pb_buf_printf(out, "%.9g", row->gpu_ms);
    }
    if (row->detail[0]) {
        pb_json_key(out, "detail");
        pb_json_string(out, row->detail);
    }
    pb_buf_putc(out, '}');
}

static void open_slice(struct pb_buf *out, uint64_t id, const struct pb_timeline_row *row)
{
    pb_buf_printf(out, ",\n{\"ph\":\"X\",\"pid\":%lld,\"tid\":%llu,\"ts\":%lld,\"dur\":%lld,"
                       "\"cat\":",
                  pid_of(row), TRACK_FIRST + (unsigned long long)id, (long long)row->from_us,
                  (long long)(row->to_us - row->from_us));
    pb_json_string(out, row->track);
    pb_buf_puts(out, ",\"name\":");
    pb_json_string(out, row->name);
    put_args(out, row);
    pb_buf_putc(out, '}');
}

/* Each slice is written whole. */
static void close_slice(struct pb_buf *out, uint64_t id, int64_t at_us)
{
    (void)out;
    (void)id;
    (void)at_us;
}

static void count(struct pb_buf *out, uint64_t id, const struct pb_timeline_row *row)
{
    (void)id;
    pb_buf_printf(out, ",\n{\"ph\":\"C\",\"pid\":%lld,\"ts\":%lld,\"name\":", pid_of(row),
                  (long long)row->from_us);
    pb_json_string(out, row->track);
    pb_buf_puts(out, ",\"args\":{");
    pb_json_string(out, row->unit[0] ? row->unit : "value");
    pb_buf_printf(out, ":%.12g}}", row->value);
}

static void end(struct pb_buf *out)
{
    pb_buf_puts(out, array_end);
}

const struct pb_timeline_writer pb_timeline_chrome = {
    .begin = begin, .process = process, .track = track, .open = open_slice,
    .close = close_slice, .count = count, .end = end,
};
