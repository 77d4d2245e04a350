#include <string.h>
#include <unistd.h>

#include "node/sample/procfile.h"
#include "node/sample/sampler.h"

#define COLUMNS(X)                                                                                \
    X(timestamp, TIME, "", "when the row was made")                                               \
    X(cpus, INT, "", "processors")                                                                \
    X(cpu_pct, REAL, "%", "share of all processors that worked")                                  \
    X(user_pct, REAL, "%", "share of all processors that worked in programs")                     \
    X(system_pct, REAL, "%",                                                                      \
      "share of all processors that worked in the kernel, interrupts included")                   \
    X(iowait_pct, REAL, "%", "idle while something waited for a disk")                            \
    X(steal_pct, REAL, "%", "taken by other virtual machines")                                    \
    X(load_1, REAL, "", "load average of a minute")                                               \
    X(load_5, REAL, "", "load average of five minutes")                                           \
    X(load_15, REAL, "", "load average of fifteen minutes")                                       \
    X(threads, INT, "", "threads of the whole machine")                                           \
    X(memory_total_mb, REAL, "MB", "main memory")                                                 \
    X(memory_available_mb, REAL, "MB", "what programs can still have without swapping")           \
    X(memory_used_mb, REAL, "MB", "total less available")                                         \
    X(swap_total_mb, REAL, "MB", "swap space")                                                    \
    X(swap_used_mb, REAL, "MB", "swap space used")                                                \
    PB_SAMPLE_OF_MACHINE(X)

PB_TABLE_COLUMNS(COLUMNS);

enum { USER, NICE, SYSTEM, IDLE, IOWAIT, IRQ, SOFTIRQ, STEAL, NTIMES };

struct state {
    uint64_t times[NTIMES];
};

static void tick(void *state, const struct pb_sample_tick *t, struct pb_ring *ring);

const struct pb_sampler pb_sampler_system_machine = {
    .ring = {PB_TABLE_SPEC("system.machine",
                           "processors, load, memory and swap of the machine, once an interval"),
             .rows = 4096,
             .flags = PB_RING_SHARED},
    .every_s = 1,
    .state_size = sizeof(struct state),
    .tick = tick,
};

/* The line of all processors. Kernels differ in how many numbers it has. */
static bool read_times(uint64_t times[NTIMES])
{
    char text[512];
    const char *at = text + 4;

    if (pb_sample_file(text, sizeof text, "/proc/stat") < 4 || memcmp(text, "cpu ", 4) != 0)
        return false;
    for (int i = 0; i < NTIMES; i++) {
        if (!pb_scan_u64(&at, &times[i]))
            times[i] = 0;
    }
    return true;
}

static void add_times(struct state *s, union pb_cell *row, bool first)
{
    uint64_t now[NTIMES], delta[NTIMES], all = 0;

    if (!read_times(now))
        return;
    for (int i = 0; i < NTIMES; i++) {
        /* iowait may run backwards. */
        delta[i] = now[i] > s->times[i] ? now[i] - s->times[i] : 0;
        all += delta[i];
    }
    memcpy(s->times, now, sizeof now);
    if (first || !all)
        return;
    row[AT_cpu_pct].d = 100.0 * (double)(all - delta[IDLE] - delta[IOWAIT] - delta[STEAL]) /
                        (double)all;
    row[AT_user_pct].d = 100.0 * (double)(delta[USER] + delta[NICE]) / (double)all;
    row[AT_system_pct].d =
        100.0 * (double)(delta[SYSTEM] + delta[IRQ] + delta[SOFTIRQ]) / (double)all;
    row[AT_iowait_pct].d = 100.0 * (double)delta[IOWAIT] / (double)all;
    row[AT_steal_pct].d = 100.0 * (double)delta[STEAL] / (double)all;
}

static void add_load(union pb_cell *row)
{
    char text[128];
    const char *at = text, *slash;
    uint64_t threads;

    if (pb_sample_file(text, sizeof text, "/proc/loadavg") <= 0)
        return;
    if (!pb_scan_decimal(&at, &row[AT_load_1].d) || !pb_scan_decimal(&at, &row[AT_load_5].d) ||
        !pb_scan_decimal(&at, &row[AT_load_15].d))
        return;
    slash = strchr(at, '/');
    if (slash && (at = slash + 1, pb_scan_u64(&at, &threads)))
        row[AT_threads].i = (int64_t)threads;
}

static void add_memory(union pb_cell *row)
{
    char text[4096];
    uint64_t total, available, swap, free_swap;

    if (pb_sample_file(text, sizeof text, "/proc/meminfo") <= 0)
        return;
    if (pb_scan_key(text, "MemTotal", &total) && pb_scan_key(text, "MemAvailable", &available)) {
        row[AT_memory_total_mb].d = (double)total / 1024;
        row[AT_memory_available_mb].d = (double)available / 1024;
        row[AT_memory_used_mb].d = ((double)total - (double)available) / 1024;
    }
    if (pb_scan_key(text, "SwapTotal", &swap) && pb_scan_key(text, "SwapFree", &free_swap)) {
        row[AT_swap_total_mb].d = (double)swap / 1024;
        row[AT_swap_used_mb].d = ((double)swap - (double)free_swap) / 1024;
    }
}

static void tick(void *state, const struct pb_sample_tick *t, struct pb_ring *ring)
{
    union pb_cell row[NCOLUMNS];

    pb_sample_row(row, &pb_sampler_system_machine, t);
    row[AT_cpus].i = sysconf(_SC_NPROCESSORS_ONLN);
    add_times(state, row, t->seconds <= 0);
    add_load(row);
    add_memory(row);
    pb_ring_append(ring, row);
}
