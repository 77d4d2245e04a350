/*
 * A table of your own, from a program that has nothing to do with Python.
 *
 *     cc -std=gnu11 -Isrc examples/ring_writer.c src/store/create.c src/store/file.c \
 *        src/store/writer.c src/base/home.c src/base/err.c -o ring_writer
 *     ./ring_writer 1000 30 &
 *     probing query "SELECT phase, count(*), avg(loss) FROM demo.steps GROUP BY phase"
 *
 * usage: ring_writer ROWS [SECONDS [FOLDER]]: writes ROWS rows and stays for SECONDS. The folder is
 * that of this process below /dev/shm unless one is given; it is printed. Rows stay there when the
 * program ends, in whatever way: that is what post-mortem means.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/home.h"
#include "store/writer.h"

/* The schema is said once; the file carries it, and SQL shows it. */
static const struct pb_column_spec columns[] = {
    {"timestamp", PB_TIME, "", "When the step ended"},
    {"step", PB_INT, "", "Number of the step, from 0"},
    {"loss", PB_REAL, "", "Loss; NULL while warming up"},
    {"phase", PB_NAME, "", "warmup or train"},
    {"improved", PB_BOOL, "", "Is it the lowest loss so far?"},
    {"note", PB_TEXT, "", "A line about the step"},
};

static const struct pb_ring_spec steps = {
    .name = "demo.steps",
    .doc = "Steps of the example",
    .columns = columns,
    .ncolumns = sizeof columns / sizeof *columns,
    .rows = 8192, /* the newest ones; older ones are overwritten */
    .flags = PB_RING_KEEP,
};

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int open_folder(const char *given)
{
    char path[PB_HOME_MAX];

    if (given) {
        printf("%s\n", given);
        return open(given, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    pb_home_path(path, "/dev/shm", getuid(), getpid(), pb_home_start_time(0));
    printf("%s\n", path);
    return pb_home_create(path, "/dev/shm", getuid(), getpid(), pb_home_start_time(0));
}

static void write_steps(struct pb_ring *ring, int64_t n)
{
    /* Names that repeat are looked up once. */
    uint32_t warmup = pb_ring_name(ring, "warmup", 6), train = pb_ring_name(ring, "train", 5);
    double best = INFINITY;

    for (int64_t step = 0; step < n; step++) {
        double loss = 1 / (1 + (double)step / 100) + (double)(step % 7) / 100;
        char note[64];
        int len = snprintf(note, sizeof note, "step %lld of %lld", (long long)step, (long long)n);
        union pb_cell cells[] = {
            {.i = now_ns()},
            {.i = step},
            {.d = step < 10 ? pb_null_real() : loss},
            {.name = step < 10 ? warmup : train},
            {.b = loss < best},
            {.text = {note, (size_t)len}},
        };

        pb_ring_append(ring, cells); /* from any thread, even from a signal handler */
        best = loss < best ? loss : best;
    }
}

int main(int argc, char **argv)
{
    int64_t rows = argc > 1 ? atoll(argv[1]) : 1000;
    unsigned seconds = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
    int folder = open_folder(argc > 3 ? argv[3] : NULL);
    struct pb_err err = {0};
    const char *note = NULL;
    struct pb_ring *ring;

    if (folder < 0) {
        fprintf(stderr, "ring_writer: no such folder\n");
        return 1;
    }
    if (pb_ring_create(&ring, folder, &steps, &note, &err) < 0) {
        fprintf(stderr, "ring_writer: %s\n", err.msg);
        return 1;
    }
    if (note)
        fprintf(stderr, "ring_writer: %s\n", note);
    write_steps(ring, rows);
    fflush(stdout);
    sleep(seconds);
    pb_ring_close(ring);
    close(folder);
    return 0;
}
