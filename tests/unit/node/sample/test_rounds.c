/* Real samplers in their threads, over a real Python process; rows are read back from the rings. */
#include "pb_test.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/home.h"
#include "node/parts.h"
#include "node/sample/sampler.h"
#include "store/reader.h"

struct world {
    _Atomic int64_t interval_ms;
    struct pb_samplers *samplers;
    pid_t python;
    char home[PB_HOME_MAX];
};

/* Burns a CPU, in one of its three threads; knows its rank. */
static pid_t start_python(void)
{
    static const char script[] = "import threading, time\n"
                                 "for i in range(2):\n"
                                 "    threading.Thread(target=time.sleep, args=(60,)).start()\n"
                                 "while True: pass\n";
    pid_t pid = fork();

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setenv("RANK", "3", 1);
        execlp("python3", "python3", "-c", script, (char *)NULL);
        _exit(127);
    }
    return pid;
}

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    struct pb_samplers_opts o = {.host = "here", .interval_ms = &w->interval_ms};
    struct pb_err err = {0};

    w->interval_ms = 100;
    w->python = start_python();
    pb_home_path(w->home, pb_home_roots[0], geteuid(), getpid(), pb_home_start_time(0));
    if (pb_samplers_start(&w->samplers, &o, &err) < 0)
        return -1;
    *state = w;
    return 0;
}

/* The folder and nothing else: it is this very process's. */
static void remove_home(const struct world *w)
{
    char command[PB_HOME_MAX + 16];

    snprintf(command, sizeof command, "rm -rf '%s'", w->home);
    assert_int_equal(system(command), 0);
}

static int teardown(void **state)
{
    struct world *w = *state;

    pb_samplers_stop(w->samplers);
    kill(w->python, SIGKILL);
    waitpid(w->python, NULL, 0);
    remove_home(w);
    free(w);
    return 0;
}

enum { ROWS = 4096 };

/* Numbers of three columns, `pid` first; NaN where a cell is NULL. */
struct rows {
    size_t n;
    double v[ROWS][3];
    char text[ROWS][32]; /* of the first text column asked for */
};

static int find(const struct pb_reader *r, const char *name)
{
    for (size_t i = 0; i < r->ncolumns; i++) {
        if (strcmp(r->columns[i].name, name) == 0)
            return (int)i;
    }
    return -1;
}

static double cell(const struct pb_reader *r, int column, const void *v, size_t i, char *text)
{
    const int64_t *whole = v;
    long len;

    switch (r->columns[column].type) {
    case PB_REAL:
        return ((const double *)v)[i];
    case PB_NAME:
        len = pb_reader_name(r, ((const uint32_t *)v)[i], text, 31);
        if (len >= 0)
            text[len] = '\0';
        return len >= 0 ? 1 : (double)NAN;
    default:
        return whole[i] == PB_NULL_INT ? (double)NAN : (double)whole[i];
    }
}

static void read_rows(const struct world *w, const char *table, const char *a, const char *b,
                      struct rows *ret)
{
    int dir = open(w->home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    static uint64_t cells[3][ROWS], numbers[ROWS];
    void *out[3] = {cells[0], cells[1], cells[2]};
    const char *names[3] = {"pid", a, b};
    struct pb_reader r;
    struct pb_err err = {0};
    uint64_t first, next;
    size_t columns[3];
    char file[80];

    memset(ret, 0, sizeof *ret);
    snprintf(file, sizeof file, "%s.0.ring", table);
    if (dir < 0 || pb_reader_open(&r, dir, file, &err) < 0) {
        close(dir);
        return;
    }
    for (int i = 0; i < 3; i++) {
        assert_true(find(&r, names[i]) >= 0);
        columns[i] = (size_t)find(&r, names[i]);
    }
    pb_reader_range(&r, &first, &next);
    ret->n = pb_reader_copy(&r, first, next - first > ROWS ? ROWS : next - first, columns, 3, out,
                            numbers, NULL);
    for (size_t k = 0; k < ret->n; k++) {
        for (int i = 0; i < 3; i++)
            ret->v[k][i] = cell(&r, (int)columns[i], cells[i], k, ret->text[k]);
    }
    pb_reader_close(&r);
    close(dir);
}

/* Looks until a row about the process (or, pid 0, the machine) is good; at most ten seconds. */
static bool comes(const struct world *w, const char *table, const char *a, const char *b,
                  pid_t pid, bool (*good)(double a, double b, const char *text))
{
    static struct rows rows;
    uint64_t end = pb_clock_ns() + 10000000000u;

    do {
        read_rows(w, table, a, b, &rows);
        for (size_t i = 0; i < rows.n; i++) {
            bool about = pid ? rows.v[i][0] == pid : isnan(rows.v[i][0]);

            if (about && good(rows.v[i][1], rows.v[i][2], rows.text[i]))
                return true;
        }
        usleep(20000);
    } while (pb_clock_ns() < end);
    return false;
}

static bool busy(double cpu, double rss, const char *text)
{
    (void)text;
    return cpu > 10 && cpu < 450 && rss > 1 && rss < 1000;
}

static bool of_rank_3(double rank, double threads, const char *text)
{
    (void)text;
    return rank == 3 && threads == 3;
}

static void test_cpu(void **state)
{
    struct world *w = *state;

    assert_true(comes(w, "system.cpu", "cpu_pct", "rss_mb", w->python, busy));
    assert_true(comes(w, "system.cpu", "rank", "threads", w->python, of_rank_3));
}

static bool waits(double cpu, double name, const char *text)
{
    (void)name;
    return isnan(cpu) && strcmp(text, "waiting") == 0;
}

static bool runs(double cpu, double name, const char *text)
{
    (void)name;
    return cpu > 10 && cpu < 150 && strcmp(text, "running") == 0;
}

static void test_thread(void **state)
{
    static struct rows rows;
    struct world *w = *state;
    size_t sleepers = 0;

    assert_true(comes(w, "system.thread", "cpu_pct", "state", w->python, runs));
    assert_true(comes(w, "system.thread", "cpu_pct", "state", w->python, waits));
    /* Threads that do nothing are told of when they are first seen, and not again. */
    usleep(500000);
    read_rows(w, "system.thread", "cpu_pct", "state", &rows);
    for (size_t i = 0; i < rows.n; i++)
        sleepers += rows.v[i][0] == w->python && waits(rows.v[i][1], 0, rows.text[i]);
    assert_in_range(sleepers, 1, 3);
}

static bool plausible(double used, double total, const char *text)
{
    (void)text;
    return used > 1 && total > used;
}

static void test_machine(void **state)
{
    assert_true(comes(*state, "system.machine", "memory_used_mb", "memory_total_mb", 0,
                      plausible));
}

static void test_status(void **state)
{
    struct world *w = *state;
    struct pb_sampler_status v[32];
    size_t n = pb_samplers_status(w->samplers, v, 32), seen = 0;

    assert_true(comes(w, "system.cpu", "cpu_pct", "rss_mb", w->python, busy));
    n = pb_samplers_status(w->samplers, v, 32);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(v[i].name, "system.cpu") == 0) {
            assert_string_equal(v[i].state, "on");
            assert_true(v[i].ticks >= 2 && v[i].rows >= 2);
            seen++;
        }
        /* A sampler is on, or says why it is not. */
        if (strcmp(v[i].state, "off") == 0)
            assert_true(v[i].reason[0]);
    }
    assert_int_equal(seen, 1);
    assert_int_equal(pb_samplers_status(w->samplers, v, 1), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cpu),
        cmocka_unit_test(test_thread),
        cmocka_unit_test(test_machine),
        cmocka_unit_test(test_status),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
