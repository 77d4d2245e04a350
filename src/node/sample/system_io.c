#include "node/sample/procfile.h"
#include "node/sample/sampler.h"

#define COLUMNS(X)                                                                                \
    X(timestamp, TIME, "", "when the row was made")                                               \
    X(read_mb_s, REAL, "MB/s", "read from disks")                                                 \
    X(write_mb_s, REAL, "MB/s", "sent to disks")                                                  \
    X(asked_read_mb_s, REAL, "MB/s", "asked for by system calls, cached files and pipes included")\
    X(asked_write_mb_s, REAL, "MB/s", "given to system calls, cached files and pipes included")   \
    X(reads_s, REAL, "1/s", "reading system calls")                                               \
    X(writes_s, REAL, "1/s", "writing system calls")                                              \
    PB_SAMPLE_OF_PROCESS(X)

PB_TABLE_COLUMNS(COLUMNS);

#define COUNTERS(X)                                                                               \
    X(read_mb_s, "read_bytes", PB_SAMPLE_MB)                                                      \
    X(write_mb_s, "write_bytes", PB_SAMPLE_MB)                                                    \
    X(asked_read_mb_s, "rchar", PB_SAMPLE_MB)                                                     \
    X(asked_write_mb_s, "wchar", PB_SAMPLE_MB)                                                    \
    X(reads_s, "syscr", 1)                                                                        \
    X(writes_s, "syscw", 1)

static const struct {
    unsigned column;
    const char *key;
    double unit;
} counters[] = {
#define X(column, key, unit) {AT_##column, key, unit},
    COUNTERS(X)
#undef X
};

enum { NCOUNTERS = sizeof counters / sizeof *counters };

struct state {
    struct {
        uint64_t serial;
        uint64_t v[NCOUNTERS];
        bool moved; /* the last row had something to say */
    } of[PB_SAMPLED_MAX];
};

static void tick(void *state, const struct pb_sample_tick *t, struct pb_ring *ring);

const struct pb_sampler pb_sampler_system_io = {
    .ring = {PB_TABLE_SPEC("system.io",
                           "reading and writing of each Python process: a row while there is "
                           "any, and one when it stops"),
             .rows = 8192,
             .flags = PB_RING_SHARED},
    .every_s = 1,
    .state_size = sizeof(struct state),
    .tick = tick,
};

/* False where the kernel does not let us look: only those who may trace a process may. */
static bool read_counters(pid_t pid, uint64_t v[NCOUNTERS])
{
    char text[512];

    if (pb_sample_file(text, sizeof text, "/proc/%d/io", (int)pid) <= 0)
        return false;
    for (int i = 0; i < NCOUNTERS; i++) {
        if (!pb_scan_key(text, counters[i].key, &v[i]))
            return false;
    }
    return true;
}

static void tick(void *state, const struct pb_sample_tick *t, struct pb_ring *ring)
{
    struct state *s = state;
    union pb_cell row[NCOLUMNS];
    uint64_t now[NCOUNTERS];

    for (size_t i = 0; i < t->nprocesses; i++) {
        const struct pb_sampled *p = &t->processes[i];
        bool known = s->of[p->slot].serial == p->serial, moved = false;

        if (!read_counters(p->pid, now))
            continue;
        pb_sample_row(row, &pb_sampler_system_io, t);
        for (int k = 0; k < NCOUNTERS; k++) {
            uint64_t before = s->of[p->slot].v[k];

            moved |= known && now[k] != before;
            row[counters[k].column].d =
                pb_sample_rate(now[k], before, counters[k].unit, t->seconds);
            s->of[p->slot].v[k] = now[k];
        }
        s->of[p->slot].serial = p->serial;
        row[AT_pid].i = p->pid;
        row[AT_rank].i = pb_sample_rank(p);
        if (moved || (known && s->of[p->slot].moved))
            pb_ring_append(ring, row);
        s->of[p->slot].moved = moved;
    }
}
