/*
 * A writer that is killed at any instant: what it leaves is whole rows in order, and at most the
 * one that it was at is missing. Two threads write, so at most two.
 */
#include "store/ring_folder.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/clock.h"

enum { ROUNDS = 300, THREADS = 2, ROWS = 256 };

/* Every cell is a function of one number, so that a row from two halves is seen. */
static void append(struct pb_ring *r, int64_t x)
{
    char s[32];
    size_t len = (size_t)snprintf(s, sizeof s, "text %lld", (long long)x);
    union pb_cell cells[C_COUNT] = {
        {.i = x * 3},
        {.i = x},
        {.d = (double)x / 4},
        {.b = x & 1},
        {.name = pb_ring_name(r, s, 5 + (size_t)(x % 3))},
        {.text = {s, len}},
    };

    pb_ring_append(r, cells);
}

static void *write_on(void *arg)
{
    for (int64_t x = 100;; x++)
        append(arg, x);
    return NULL;
}

static pid_t start(const struct folder *f, struct pb_ring **ret)
{
    struct pb_ring *r = *ret = ring_make(f, &all_types);
    pid_t pid = fork();

    if (pid == 0) {
        pthread_t thread;

        prctl(PR_SET_PDEATHSIG, SIGKILL); /* when a check fails */
        for (int i = 1; i < THREADS; i++)
            pthread_create(&thread, NULL, write_on, r);
        write_on(r);
    }
    return pid;
}

static void check(const struct pb_reader *r, bool at_rest)
{
    static int64_t time[ROWS], number[ROWS];
    static double ratio[ROWS];
    static uint8_t flag[ROWS];
    static uint32_t word[ROWS];
    static uint64_t line[ROWS], rows[ROWS];
    const size_t columns[] = {0, 1, 2, 3, 4, 5};
    void *const out[] = {time, number, ratio, flag, word, line};
    uint64_t first, next;
    size_t n;

    pb_reader_range(r, &first, &next);
    n = pb_reader_copy(r, first, (size_t)(next - first), columns, C_COUNT, out, rows, NULL);
    /* Rows that were dropped behind a slow writer are missing as well. */
    if (at_rest)
        assert_true(n + THREADS + pb_reader_dropped(r) >= next - first);
    for (size_t i = 0; i < n; i++) {
        char buf[64], wanted[64];
        int64_t x = number[i];
        long got = pb_reader_text(r, line[i], buf, sizeof buf);

        assert_true(i == 0 || rows[i] > rows[i - 1]);
        assert_int_equal(time[i], x * 3);
        assert_true(ratio[i] == (double)x / 4);
        assert_int_equal(flag[i], x & 1);
        assert_int_equal(pb_reader_name(r, word[i], wanted, sizeof wanted), 5 + x % 3);
        if (got >= 0) {
            assert_int_equal(got, snprintf(wanted, sizeof wanted, "text %lld", (long long)x));
            assert_memory_equal(buf, wanted, (size_t)got);
        }
    }
}

static void killed(void **state)
{
    uint64_t random = pb_clock_ns() | 1;

    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        struct folder f = folder_make();
        struct pb_ring *mine;
        pid_t pid = start(&f, &mine);
        struct pb_reader r = reader_open(&f, "test.all_types.0.ring");
        int status;

        random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
        usleep((useconds_t)(random >> 33) % 3000);
        check(&r, false);
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        check(&r, true);
        assert_false(pb_reader_closed(&r));
        pb_reader_close(&r);
        pb_ring_abandon(mine);
        pb_ring_close(mine);
        folder_remove(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(killed)};

    return RUN_TESTS(tests);
}
