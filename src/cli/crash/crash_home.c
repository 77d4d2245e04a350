#include "cli/crash/crash_home.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/home.h"
#include "store/format.h"
#include "store/reader.h"
#include "store/reader_progress.h"

enum { ROWS_MAX = 64, TEXT_MAX = 256 };

static int open_home(pid_t pid)
{
    uint64_t start = pb_home_start_time(pid);
    char path[PB_HOME_MAX];
    int fd = -1;

    for (size_t i = 0; pb_home_roots[i] && fd < 0; i++) {
        pb_home_path(path, pb_home_roots[i], geteuid(), pid, start);
        fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    return fd;
}

struct newest {
    const char *table;
    char file[PB_RING_NAME + 24];
    long generation;
};

/* "<table>.<generation>.ring". */
static bool look_at(int fd, const char *name, void *arg)
{
    struct newest *w = arg;
    size_t len = strlen(w->table);
    long generation;

    (void)fd;
    if (!pb_home_is_ring(name) || strncmp(name, w->table, len) != 0 || name[len] != '.' ||
        strlen(name) >= sizeof w->file)
        return true;
    generation = strtol(name + len + 1, NULL, 10);
    if (generation >= w->generation) {
        w->generation = generation;
        memcpy(w->file, name, strlen(name) + 1);
    }
    return true;
}

static bool open_table(struct pb_reader *r, int home, const char *table)
{
    struct newest w = {.table = table, .generation = -1};

    pb_home_list(home, look_at, &w);
    return w.generation >= 0 && pb_reader_open(r, home, w.file, NULL) == 0;
}

static bool find_column(const struct pb_reader *r, const char *name, size_t *ret)
{
    for (size_t i = 0; i < r->ncolumns; i++)
        if (strcmp(r->columns[i].name, name) == 0) {
            *ret = i;
            return true;
        }
    return false;
}

static void read_memory(struct pb_crash_home *h, int home, int64_t now_ns)
{
    int64_t times[ROWS_MAX];
    double rss[ROWS_MAX];
    uint64_t rows[ROWS_MAX], first, next;
    size_t columns[2], n;
    void *out[2] = {times, rss};
    struct pb_reader r;

    if (!open_table(&r, home, "python.memory"))
        return;
    if (find_column(&r, "timestamp", &columns[0]) && find_column(&r, "rss_mb", &columns[1])) {
        pb_reader_range(&r, &first, &next);
        if (next - first > PB_CRASH_MINUTE)
            first = next - PB_CRASH_MINUTE;
        n = pb_reader_copy(&r, first, (size_t)(next - first), columns, 2, out, rows, NULL);
        for (size_t i = 0; i < n && h->nrss < PB_CRASH_MINUTE; i++)
            if (times[i] > now_ns - INT64_C(61000000000))
                h->rss_mb[h->nrss++] = rss[i];
    }
    pb_reader_close(&r);
}

static const char *name_of(const struct pb_reader *r, uint32_t name, struct pb_arena *a)
{
    char text[TEXT_MAX];
    long n = pb_reader_name(r, name, text, sizeof text);

    return n > 0 ? pb_arena_strndup(a, text, (size_t)n) : NULL;
}

/* The operation that this process began last. */
static void read_collectives(struct pb_crash_home *h, int home, struct pb_arena *a)
{
    static const char *const wanted[] = {"op", "group_name", "seq", "state"};
    uint32_t op[ROWS_MAX], group[ROWS_MAX], state[ROWS_MAX];
    int64_t seq[ROWS_MAX];
    void *out[] = {op, group, seq, state};
    uint64_t rows[ROWS_MAX], first, next;
    size_t columns[4], n = 0;
    struct pb_reader r;
    bool all = true;

    if (!open_table(&r, home, "python.comm"))
        return;
    for (size_t i = 0; i < 4; i++)
        all = all && find_column(&r, wanted[i], &columns[i]);
    if (all) {
        pb_reader_range(&r, &first, &next);
        if (next - first > ROWS_MAX)
            first = next - ROWS_MAX;
        n = pb_reader_copy(&r, first, (size_t)(next - first), columns, 4, out, rows, NULL);
    }
    if (n) {
        h->collective = name_of(&r, op[n - 1], a);
        h->group = name_of(&r, group[n - 1], a);
        h->collective_state = name_of(&r, state[n - 1], a);
        h->collective_seq = seq[n - 1];
    }
    pb_reader_close(&r);
}

static const char *progress_name(int fd, uint32_t name, struct pb_arena *a)
{
    char text[TEXT_MAX];

    return name && pb_progress_text(fd, name, text, sizeof text) ? pb_arena_strdup(a, text) : NULL;
}

/* Names of what the record has by number. */
static void read_progress(struct pb_crash_home *h, int home, const struct pb_crash_record *r,
                          struct pb_arena *a)
{
    int fd = pb_progress_open(home);
    const char *collective;

    if (fd < 0)
        return;
    h->module = progress_name(fd, r->module, a);
    if (r->phase && r->phase < PB_PHASE_COUNT)
        h->phase = pb_progress_phase_name((enum pb_progress_phase)r->phase);
    collective = progress_name(fd, r->collective, a);
    if (collective) {
        h->collective = collective;
        h->group = progress_name(fd, r->group, a);
        h->collective_seq = r->collective_seq;
        h->in_collective = true;
    }
    close(fd);
}

void pb_crash_home_read(struct pb_crash_home *ret, pid_t pid, const struct pb_crash_record *r,
                        struct pb_arena *a)
{
    int home = open_home(pid);

    *ret = (struct pb_crash_home){.collective_seq = PB_NULL_INT};
    if (home < 0)
        return;
    read_memory(ret, home, r->wall_ns);
    read_collectives(ret, home, a);
    read_progress(ret, home, r, a);
    close(home);
}
