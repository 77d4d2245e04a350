#include <string.h>

#include "node/sample/procfile.h"
#include "node/sample/sampler.h"

#define COLUMNS(X)                                                                                \
    X(timestamp, TIME, "", "when the row was made")                                               \
    X(resource, NAME, "", "cpu, memory, io")                                                      \
    X(some_avg10, REAL, "%", "time in which something waited, over 10 s")                         \
    X(some_avg60, REAL, "%", "time in which something waited, over a minute")                     \
    X(some_avg300, REAL, "%", "time in which something waited, over five minutes")                \
    X(some_ms, REAL, "ms", "time in which something waited, since the last look")                 \
    X(full_avg10, REAL, "%", "time in which everything waited, over 10 s")                        \
    X(full_avg60, REAL, "%", "time in which everything waited, over a minute")                    \
    X(full_avg300, REAL, "%", "time in which everything waited, over five minutes")               \
    X(full_ms, REAL, "ms", "time in which everything waited, since the last look")                \
    PB_SAMPLE_OF_MACHINE(X)

PB_TABLE_COLUMNS(COLUMNS);

static const char *const resources[] = {"cpu", "memory", "io"};

enum { NRESOURCES = sizeof resources / sizeof *resources };

struct state {
    char last[NRESOURCES][256]; /* text of the last look */
    uint64_t some_us[NRESOURCES], full_us[NRESOURCES];
};

static int start(void *state, struct pb_err *err);
static void tick(void *state, const struct pb_sample_tick *t, struct pb_ring *ring);

const struct pb_sampler pb_sampler_system_pressure = {
    .ring = {PB_TABLE_SPEC("system.pressure",
                           "how much the machine's programs wait for CPU, memory and disks: a "
                           "row when it changes"),
             .rows = 4096,
             .flags = PB_RING_SHARED},
    .every_s = 1,
    .state_size = sizeof(struct state),
    .start = start,
    .tick = tick,
};

static int start(void *state, struct pb_err *err)
{
    char text[256];

    (void)state;
    if (pb_sample_file(text, sizeof text, "/proc/pressure/cpu") <= 0)
        return pb_err_set(err, PB_FAIL, "this kernel does not tell: no /proc/pressure");
    return 0;
}

static bool scan_percent(const char *line, const char *key, double *ret)
{
    const char *at = strstr(line, key), *end = strchr(line, '\n');

    if (!at || (end && at > end))
        return false;
    at += strlen(key);
    return pb_scan_decimal(&at, ret);
}

/* One line, "some avg10=0.00 avg60=0.00 avg300=0.00 total=0", into four columns. */
static void parse_line(const char *line, union pb_cell *cells, uint64_t *total_us, bool first)
{
    const char *at = strstr(line, "total=");
    uint64_t total;

    if (!scan_percent(line, "avg10=", &cells[0].d) || !scan_percent(line, "avg60=", &cells[1].d) ||
        !scan_percent(line, "avg300=", &cells[2].d) || !at)
        return;
    at += strlen("total=");
    if (!pb_scan_u64(&at, &total))
        return;
    if (!first && total >= *total_us)
        cells[3].d = (double)(total - *total_us) / 1000;
    *total_us = total;
}

static void tick(void *state, const struct pb_sample_tick *t, struct pb_ring *ring)
{
    struct state *s = state;
    union pb_cell row[NCOLUMNS];
    char text[256];

    for (int i = 0; i < NRESOURCES; i++) {
        const char *full;

        if (pb_sample_file(text, sizeof text, "/proc/pressure/%s", resources[i]) <= 0 ||
            strcmp(text, s->last[i]) == 0)
            continue;
        memcpy(s->last[i], text, sizeof text);
        pb_sample_row(row, &pb_sampler_system_pressure, t);
        row[AT_resource].name = pb_sample_name(ring, resources[i]);
        parse_line(text, &row[AT_some_avg10], &s->some_us[i], t->seconds <= 0);
        full = strstr(text, "full ");
        if (full)
            parse_line(full, &row[AT_full_avg10], &s->full_us[i], t->seconds <= 0);
        pb_ring_append(ring, row);
    }
}
