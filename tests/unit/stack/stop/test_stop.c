/* Holding a thread that stops, and one that does not in time. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "host/process/proc.h"
#include "stack/stop/priority.h"
#include "stack/stop/stop.h"

#define PATIENCE_NS 30000000000ull

static char state_of(pid_t pid)
{
    struct pb_err ignored = {0};
    struct pb_proc_stat stat = {.state = '?'};

    pb_proc_stat(&stat, pid, 0, &ignored);
    return stat.state;
}

static bool becomes(pid_t pid, char state)
{
    uint64_t end = pb_clock_ns() + PATIENCE_NS;

    while (state_of(pid) != state && pb_clock_ns() < end)
        usleep(1000);
    return state_of(pid) == state;
}

static bool counts_on(_Atomic long *count)
{
    uint64_t end = pb_clock_ns() + PATIENCE_NS;
    long before = *count;

    while (*count == before && pb_clock_ns() < end)
        usleep(1000);
    return *count != before;
}

static _Atomic long *make_count(void)
{
    return mmap(NULL, sizeof(long), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

/* A process that counts; before that, a child of its own has it sleep deeply till `go` is not 0. */
static pid_t start(_Atomic long *count, _Atomic long *go)
{
    pid_t pid = fork();

    if (pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (go && vfork() == 0) {
        while (!*go && getppid() != 1)
            usleep(1000);
        _exit(0);
    }
    for (;;)
        ++*count;
}

static void finish(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void test_one_that_runs(void **state)
{
    _Atomic long *count = make_count();
    pid_t pid = start(count, NULL);
    struct pb_tracer tracer = {.nlate = 0};
    struct pb_stop stop;
    char regs[4096];
    long seen;

    (void)state;
    assert_true(counts_on(count));
    for (int i = 0; i < 20; i++) {
        pb_priority_raise(&tracer.priority);
        assert_int_equal(pb_stop_begin(&stop, &tracer, pid, pid, false), PB_STOP_OK);
        assert_true(pb_stop_registers(&stop, regs, sizeof regs) > 0);
        seen = *count;
        usleep(1000);
        assert_int_equal(*count, seen);
        assert_true(pb_stop_end(&stop) > 0);
        pb_priority_restore(&tracer.priority);
        assert_true(counts_on(count));
    }
    finish(pid);
    assert_int_equal(pb_stop_begin(&stop, &tracer, pid, pid, true), PB_STOP_GONE);
}

static void test_one_that_sleeps_deeply(void **state)
{
    _Atomic long *count = make_count(), *go = make_count();
    struct pb_tracer tracer = {.nlate = 0};
    struct pb_stop stop;
    pid_t pid;

    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* it makes a fork of a vfork, which nobody waits for */
#endif
    pid = start(count, go);
    assert_true(becomes(pid, 'D'));
    assert_int_equal(pb_stop_begin(&stop, &tracer, pid, pid, true), PB_STOP_TIMEOUT);
    assert_int_equal(pb_stop_end(&stop), 0);
    assert_int_equal(pb_stop_release_abandoned(&tracer), 1);
    assert_int_equal(pb_stop_begin(&stop, &tracer, pid, pid, true), PB_STOP_TIMEOUT);
    /* It stops when it wakes up, and is let go. */
    *go = 1;
    assert_true(becomes(pid, 't'));
    assert_int_equal(*count, 0);
    assert_int_equal(pb_stop_release_abandoned(&tracer), 0);
    assert_true(counts_on(count));
    assert_int_equal(pb_stop_begin(&stop, &tracer, pid, pid, true), PB_STOP_OK);
    pb_stop_end(&stop);
    assert_true(counts_on(count));
    finish(pid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_that_runs),
        cmocka_unit_test(test_one_that_sleeps_deeply),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
