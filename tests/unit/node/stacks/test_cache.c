#include "pb_test.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/home.h"
#include "node/stacks/cache.h"

#define PROCESSES 3
#define ROUNDS 15

static pid_t pids[PROCESSES];

/* python3 of this machine, asleep in a function with a variable; says when it is there. */
static pid_t start_python(int *ret_out)
{
    static const char code[] = "import os, time\n"
                               "def resting(number):\n"
                               "    os.write(1, b'x')\n"
                               "    time.sleep(1000)\n"
                               "resting(42)\n";
    int out[2];
    pid_t pid;

    assert_int_equal(pipe(out), 0);
    pid = fork();
    if (pid == 0) {
        dup2(out[1], 1);
        execlp("python3", "python3", "-c", code, (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    *ret_out = out[0];
    return pid;
}

static int setup(void **state)
{
    char c;

    (void)state;
    for (int i = 0; i < PROCESSES; i++) {
        int out;

        pids[i] = start_python(&out);
        if (read(out, &c, 1) != 1)
            return -1;
        close(out);
    }
    usleep(100000); /* from the write to the sleep */
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < PROCESSES; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
    return 0;
}

static void check(const struct pb_stack_read *r)
{
    const struct pb_frame *f;

    assert_non_null(r);
    assert_int_equal(r->err.code, PB_OK);
    assert_true(r->snapshot.nthreads == 1 && r->snapshot.threads[0].nframes == 2);
    f = &r->snapshot.threads[0].frames[0];
    assert_string_equal(f->func, "resting");
    assert_int_equal(f->nlocals, 1);
    assert_string_equal(f->locals[0].name, "number");
    assert_string_equal(f->locals[0].value, "42");
}

static void fill(struct pb_stack_read v[PROCESSES])
{
    memset(v, 0, PROCESSES * sizeof *v);
    for (int i = 0; i < PROCESSES; i++) {
        v[i].pid = pids[i];
        v[i].start = pb_home_start_time(pids[i]);
    }
}

static void *read_often(void *arg)
{
    const struct pb_snapshot_opts o = {.locals = true};
    struct pb_stack_read v[PROCESSES];

    for (int round = 0; round < ROUNDS; round++) {
        struct pb_stack_batch *b;

        fill(v);
        b = pb_stack_cache_read(arg, v, PROCESSES, &o, 30000);
        for (size_t i = 0; i < PROCESSES; i++)
            check(pb_stack_batch_get(b, i));
        pb_stack_batch_drop(b);
    }
    return NULL;
}

/* What a query took stays whole while others read the same processes. */
static void test_several_queries_at_once(void **state)
{
    struct pb_stack_cache *t = pb_stack_cache_create();
    pthread_t threads[3];

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_often, t), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    pb_stack_cache_destroy(t);
}

static void test_process_that_is_gone_or_no_python(void **state)
{
    struct pb_stack_cache *t = pb_stack_cache_create();
    struct pb_snapshot_opts o = {0};
    struct pb_stack_read v[PROCESSES];
    struct pb_stack_batch *b;
    char why[160];

    (void)state;
    fill(v);
    v[0].start--;
    v[1].pid = getpid();
    v[1].start = pb_home_start_time(0);
    b = pb_stack_cache_read(t, v, PROCESSES, &o, 30000);
    assert_int_equal(pb_stack_batch_get(b, 0)->err.code, PB_NO_TARGET);
    assert_int_not_equal(pb_stack_batch_get(b, 1)->err.code, PB_OK);
    assert_int_equal(pb_stack_batch_get(b, 2)->err.code, PB_OK);
    pb_stack_cache_trouble(t, getpid(), why, sizeof why);
    assert_string_not_equal(why, "");
    pb_stack_cache_trouble(t, pids[2], why, sizeof why);
    assert_string_equal(why, "");
    pb_stack_batch_drop(b);
    b = pb_stack_cache_read(t, v, 0, &o, 1);
    pb_stack_batch_drop(b);
    pb_stack_cache_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_several_queries_at_once),
        cmocka_unit_test(test_process_that_is_gone_or_no_python),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
