#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "node/sample/procfile.h"
#include "node/sample/sampler.h"

#define COLUMNS(X)                                                                                \
    X(timestamp, TIME, "", "when the row was made")                                               \
    X(device, NAME, "", "disk, as the kernel calls it")                                           \
    X(util_pct, REAL, "%", "time in which it had something to do")                                \
    X(read_mb_s, REAL, "MB/s", "read")                                                            \
    X(write_mb_s, REAL, "MB/s", "written")                                                        \
    X(reads_s, REAL, "1/s", "reads that it finished")                                             \
    X(writes_s, REAL, "1/s", "writes that it finished")                                           \
    X(await_ms, REAL, "ms", "average time of a request, queueing included")                       \
    X(in_flight, INT, "", "requests under way")                                                   \
    PB_SAMPLE_OF_MACHINE(X)

PB_TABLE_COLUMNS(COLUMNS);

/* As /proc/diskstats has them behind the name; a sector is 512 bytes always. */
enum { READS, READS_MERGED, READ_SECTORS, READ_MS, WRITES, WRITES_MERGED, WRITE_SECTORS, WRITE_MS,
       IN_FLIGHT, BUSY_MS, NCOUNTERS };

enum { NAME_MAX_ = 32, DISKS_MAX = 256, TEXT_MAX = 64 << 10 };

struct disk {
    char name[NAME_MAX_];
    bool whole; /* not a part of another, nor made of memory */
    bool known, moved;
    uint64_t v[NCOUNTERS];
};

struct state {
    struct disk disks[DISKS_MAX];
    size_t n;
    char text[TEXT_MAX];
};

static int start(void *state, struct pb_err *err);
static void tick(void *state, const struct pb_sample_tick *t, struct pb_ring *ring);

const struct pb_sampler pb_sampler_system_disk = {
    .ring = {PB_TABLE_SPEC("system.disk",
                           "disks of the machine: a row while one is used, and one when that "
                           "stops"),
             .rows = 4096,
             .flags = PB_RING_SHARED},
    .every_s = 1,
    .state_size = sizeof(struct state),
    .start = start,
    .tick = tick,
};

static int start(void *state, struct pb_err *err)
{
    struct state *s = state;

    if (pb_sample_file(s->text, sizeof s->text, "/proc/diskstats") < 0)
        return pb_err_set(err, PB_FAIL, "no /proc/diskstats");
    return 0;
}

static bool is_whole(const char *name)
{
    char path[96];

    if (strncmp(name, "loop", 4) == 0 || strncmp(name, "ram", 3) == 0)
        return false;
    snprintf(path, sizeof path, "/sys/class/block/%s/partition", name);
    return access(path, F_OK) < 0;
}

static struct disk *find(struct state *s, const char *name, size_t len)
{
    struct disk *d;

    for (size_t i = 0; i < s->n; i++) {
        if (strncmp(s->disks[i].name, name, len) == 0 && !s->disks[i].name[len])
            return &s->disks[i];
    }
    if (s->n == DISKS_MAX)
        return NULL;
    d = &s->disks[s->n++];
    memset(d, 0, sizeof *d);
    memcpy(d->name, name, len);
    d->whole = is_whole(d->name);
    return d;
}

static void add_row(struct disk *d, const uint64_t now[NCOUNTERS], const struct pb_sample_tick *t,
                    struct pb_ring *ring)
{
    union pb_cell row[NCOLUMNS];
    const uint64_t *was = d->v;
    uint64_t requests = now[READS] - was[READS] + now[WRITES] - was[WRITES];

    pb_sample_row(row, &pb_sampler_system_disk, t);
    row[AT_device].name = pb_sample_name(ring, d->name);
    row[AT_util_pct].d = pb_sample_rate(now[BUSY_MS], was[BUSY_MS], 10, t->seconds);
    if (row[AT_util_pct].d > 100)
        row[AT_util_pct].d = 100;
    row[AT_read_mb_s].d = pb_sample_rate(now[READ_SECTORS], was[READ_SECTORS], 2048, t->seconds);
    row[AT_write_mb_s].d =
        pb_sample_rate(now[WRITE_SECTORS], was[WRITE_SECTORS], 2048, t->seconds);
    row[AT_reads_s].d = pb_sample_rate(now[READS], was[READS], 1, t->seconds);
    row[AT_writes_s].d = pb_sample_rate(now[WRITES], was[WRITES], 1, t->seconds);
    if (requests)
        row[AT_await_ms].d =
            (double)(now[READ_MS] - was[READ_MS] + now[WRITE_MS] - was[WRITE_MS]) /
            (double)requests;
    row[AT_in_flight].i = (int64_t)now[IN_FLIGHT];
    pb_ring_append(ring, row);
}

static void parse_line(struct state *s, const char *line, const struct pb_sample_tick *t,
                       struct pb_ring *ring)
{
    const char *at = line, *name;
    uint64_t now[NCOUNTERS];
    struct disk *d;
    bool moved;

    if (!pb_scan_skip(&at, 2))
        return;
    name = at + strspn(at, " ");
    at = name + strcspn(name, " \n");
    if (at == name || at - name >= NAME_MAX_)
        return;
    d = find(s, name, (size_t)(at - name));
    if (!d || !d->whole)
        return;
    for (int i = 0; i < NCOUNTERS; i++) {
        if (!pb_scan_u64(&at, &now[i]))
            return;
    }
    moved = d->known && (now[READS] > d->v[READS] || now[WRITES] > d->v[WRITES] ||
                         now[BUSY_MS] > d->v[BUSY_MS]);
    if ((moved || d->moved) && t->seconds > 0)
        add_row(d, now, t, ring);
    d->moved = moved;
    d->known = true;
    memcpy(d->v, now, sizeof now);
}

static void tick(void *state, const struct pb_sample_tick *t, struct pb_ring *ring)
{
    struct state *s = state;
    const char *line = s->text;

    if (pb_sample_file(s->text, sizeof s->text, "/proc/diskstats") <= 0)
        return;
    while (line && *line) {
        parse_line(s, line, t, ring);
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
}
