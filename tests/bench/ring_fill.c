/*
 * usage: ring_fill TABLE ROWS[/ROOM] [leave]
 *
 * A process with a table of its own, which has room for ROOM rows: ROWS rows as fast as they go in,
 * then "ready PID START" and sleep. With "leave" it ends instead, and leaves them behind.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/home.h"
#include "store/writer.h"

#define NAMES 100

static const struct pb_column_spec columns[] = {
    {"timestamp", PB_TIME, "", "when"},
    {"name", PB_NAME, "", "one of a hundred"},
    {"number", PB_INT, "", "of the row"},
    {"value", PB_REAL, "", "half of it"},
};

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void write_meta(int home, unsigned long long start)
{
    char boot[40], host[64] = "";
    FILE *f;
    char path[64];

    pb_home_boot_id(boot);
    gethostname(host, sizeof host - 1);
    snprintf(path, sizeof path, "/proc/self/fd/%d/" PB_HOME_META, home);
    f = fopen(path, "w");
    if (!f)
        exit(1);
    fprintf(f, "format=1\npid=%d\nstart=%llu\nboot_id=%s\nhost=%s\nuid=%u\nstarted_ns=%lld\n"
               "command=ring_fill\n", (int)getpid(), start, boot, host, (unsigned)getuid(),
            (long long)now_ns());
    fclose(f);
}

int main(int argc, char **argv)
{
    char none[] = "", *room = none, path[PB_HOME_MAX];
    uint64_t rows = argc > 2 ? strtoull(argv[2], &room, 10) : 0;
    uint64_t start = pb_home_start_time(0);
    int home = pb_home_create(path, pb_home_roots[0], getuid(), getpid(), start);
    struct pb_ring_spec spec = {.name = argv[1], .doc = "rows of the benchmark",
                                .columns = columns, .ncolumns = 4,
                                .rows = *room == '/' ? strtoull(room + 1, NULL, 10) : rows,
                                .flags = PB_RING_KEEP};
    struct pb_err err = {0};
    struct pb_ring *ring;
    uint32_t names[NAMES];

    if (home < 0) {
        fprintf(stderr, "ring_fill: no folder: %s\n", strerror(-home));
        return 1;
    }
    write_meta(home, start);
    if (pb_ring_create(&ring, home, &spec, NULL, &err) < 0) {
        fprintf(stderr, "ring_fill: %s\n", err.msg);
        return 1;
    }
    for (unsigned i = 0; i < NAMES; i++) {
        char text[16];
        int len = snprintf(text, sizeof text, "op%u", i);

        names[i] = pb_ring_name(ring, text, (size_t)len);
    }
    for (uint64_t i = 0; i < rows; i++) {
        union pb_cell cells[4] = {{.i = now_ns()}, {.name = names[i % NAMES]},
                                  {.i = (int64_t)i}, {.d = (double)i * 0.5}};

        pb_ring_append(ring, cells);
    }
    printf("ready %d %llu\n", (int)getpid(), (unsigned long long)start);
    fflush(stdout);
    if (argc > 3)
        pb_ring_close(ring);
    else
        pause();
    return 0;
}
