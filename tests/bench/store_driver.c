/*
 * What a row costs: store_driver FOLDER ROUNDS prints one number a line, "what value".
 *
 * Of one thread, its own processor time: what others take in between is not its cost. Times of
 * batches of rows; the median of many.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "store/reader.h"
#include "store/writer.h"

enum { BATCH = 20000, ROWS = 65536, MANY = 1 << 20, THREADS = 4, COLUMNS = 8, READ = 2048 };

static const struct pb_column_spec columns[COLUMNS] = {
    {"timestamp", PB_TIME, "", ""}, {"step", PB_INT, "", ""},   {"seq", PB_INT, "", ""},
    {"bytes", PB_INT, "", ""},      {"ms", PB_REAL, "ms", ""},  {"gpu_ms", PB_REAL, "ms", ""},
    {"module", PB_NAME, "", ""},    {"stage", PB_NAME, "", ""},
};

static uint64_t own_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, by_size);
    return values[n / 2];
}

static struct pb_ring *make(int folder, const char *name, uint64_t rows)
{
    struct pb_ring_spec spec = {
        .name = name, .doc = "", .columns = columns, .ncolumns = COLUMNS, .rows = rows};
    struct pb_err err = {0};
    struct pb_ring *r;

    if (pb_ring_create(&r, folder, &spec, NULL, &err) < 0) {
        fprintf(stderr, "store_driver: %s\n", err.msg);
        exit(1);
    }
    return r;
}

/* Nanoseconds a row. */
static double append(struct pb_ring *r, int64_t n)
{
    uint32_t module = pb_ring_name(r, "torch.nn.modules.linear.Linear", 30);
    uint32_t stage = pb_ring_name(r, "forward", 7);
    uint64_t began = own_ns();

    for (int64_t i = 0; i < n; i++) {
        union pb_cell cells[COLUMNS] = {{.i = i},         {.i = i / 100},         {.i = i},
                                        {.i = 4096},      {.d = 0.5 * (double)i}, {.d = 0.25},
                                        {.name = module}, {.name = stage}};

        pb_ring_append(r, cells);
    }
    return (double)(own_ns() - began) / (double)n;
}

static double name(struct pb_ring *r, int n)
{
    uint64_t began = own_ns();
    uint32_t sum = 0;

    for (int i = 0; i < n; i++)
        sum += pb_ring_name(r, "torch.nn.modules.linear.Linear", 30);
    return sum ? (double)(own_ns() - began) / n : 0;
}

static void *append_many(void *arg)
{
    append(arg, MANY);
    return NULL;
}

/* Million rows a second by several threads into one ring. */
static double together(struct pb_ring *r)
{
    pthread_t threads[THREADS];
    uint64_t began = pb_clock_ns();

    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, append_many, r);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return THREADS * (double)MANY * 1000 / (double)(pb_clock_ns() - began);
}

/* Milliseconds for all rows of three columns. */
static double read_all(const struct pb_reader *r, uint64_t *ret_rows)
{
    static int64_t time[READ];
    static double ms[READ];
    static uint32_t module[READ];
    static uint64_t rows[READ];
    const size_t wanted[] = {0, 4, 6};
    void *const out[] = {time, ms, module};
    uint64_t first, next, began = own_ns();

    pb_reader_range(r, &first, &next);
    *ret_rows = 0;
    for (; first < next; first += READ)
        *ret_rows += pb_reader_copy(r, first, READ, wanted, 3, out, rows, NULL);
    return (double)(own_ns() - began) / 1e6;
}

int main(int argc, char **argv)
{
    int folder = argc == 3 ? open(argv[1], O_RDONLY | O_DIRECTORY) : -1;
    int rounds = argc == 3 ? atoi(argv[2]) : 0;
    double *found = calloc((size_t)rounds + 1, sizeof *found);
    struct pb_ring *small, *large;
    struct pb_err err = {0};
    struct pb_reader r;
    uint64_t began, rows;

    if (folder < 0 || rounds <= 0 || !found)
        return 2;
    began = own_ns();
    small = make(folder, "bench.small", ROWS);
    printf("create_ms %f\n", (double)(own_ns() - began) / 1e6);
    printf("first_ns %f\n", append(small, ROWS)); /* every page for the first time */
    for (int i = 0; i < rounds; i++)
        found[i] = append(small, BATCH);
    printf("append_ns %f\n", median(found, rounds));
    printf("append_least_ns %f\n", found[0]);
    for (int i = 0; i < rounds; i++)
        found[i] = name(small, BATCH);
    printf("name_ns %f\n", median(found, rounds));
    large = make(folder, "bench.large", MANY);
    append(large, MANY);
    printf("alone_mrows %f\n", 1000 / append(large, 4 * MANY));
    printf("together_mrows %f\n", together(large));
    if (pb_reader_open(&r, folder, "bench.large.0.ring", &err) < 0)
        return 1;
    read_all(&r, &rows);
    for (int i = 0; i < 5; i++)
        found[i % rounds] = read_all(&r, &rows);
    printf("read_ms %f\n", median(found, rounds < 5 ? rounds : 5));
    printf("read_rows %llu\n", (unsigned long long)rows);
    return 0;
}
