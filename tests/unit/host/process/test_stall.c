/* Waits for memory that does not come, and processes that are left alone because of it. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/process/mem.h"
#include "host/process/stall.h"
#include "pb_test.h"

enum { LIMIT_NS = 1000000000 };

static struct pb_stalls *begin(void)
{
    struct pb_stalls *s = calloc(1, sizeof *s);

    pb_stalls_use(s);
    return s;
}

static void end(struct pb_stalls *s)
{
    pb_stalls_use(NULL);
    free(s);
}

/* As if this wait had begun long ago. */
static void make_old(struct pb_stalls *s, int slot)
{
    atomic_fetch_sub(&s->slots[slot].since_ns, 2ull * LIMIT_NS);
}

static void what_ends_in_time_is_no_stall(void **state)
{
    struct pb_stalls *s = begin();
    int slot = pb_stall_begin(getpid());

    (void)state;
    assert_true(slot >= 0);
    assert_int_equal(pb_stalls_judge(s, LIMIT_NS), 0);
    make_old(s, slot);
    pb_stall_end(slot);
    assert_int_equal(pb_stalls_judge(s, LIMIT_NS), 0);
    assert_int_equal(pb_stall_begin(getpid()), slot);
    end(s);
}

static void a_process_that_was_waited_for_is_left_alone(void **state)
{
    struct pb_stalls *s = begin();
    int slot = pb_stall_begin(getpid()), secret = 7, copy = 0;
    struct pb_mem mem;

    (void)state;
    make_old(s, slot);
    assert_int_equal(pb_stalls_judge(s, LIMIT_NS), getpid());
    pb_stalls_clear(s);
    assert_int_equal(pb_stalls_judge(s, LIMIT_NS), 0);
    errno = 0;
    assert_int_equal(pb_stall_begin(getpid()), PB_STALL_REFUSED);
    assert_int_equal(errno, ETIMEDOUT);
    pb_mem_init_process(&mem, getpid());
    assert_false(pb_mem_get(&mem, (uintptr_t)&secret, &copy, sizeof copy));
    /* Another one of our own user is not. */
    slot = pb_stall_begin(getppid());
    assert_true(slot >= 0);
    pb_stall_end(slot);
    /* Ten minutes later. */
    s->stalled[0].when_ns -= 601ull * LIMIT_NS;
    assert_true(pb_mem_get(&mem, (uintptr_t)&secret, &copy, sizeof copy));
    assert_int_equal(copy, 7);
    end(s);
}

static void more_waits_than_places(void **state)
{
    struct pb_stalls *s = begin();
    int slots[PB_STALL_SLOTS];

    (void)state;
    for (int i = 0; i < PB_STALL_SLOTS; i++)
        assert_true((slots[i] = pb_stall_begin(getpid())) >= 0);
    assert_int_equal(pb_stall_begin(getpid()), -1);
    pb_stall_end(-1);
    pb_stall_end(slots[5]);
    assert_int_equal(pb_stall_begin(getpid()), slots[5]);
    end(s);
}

/* A process of another user, which waits to be killed. */
static pid_t start_stranger(void)
{
    int pipes[2];
    pid_t pid;
    char byte;

    assert_int_equal(pipe(pipes), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (setuid(65534) < 0 || prctl(PR_SET_DUMPABLE, 1) < 0 || write(pipes[1], "x", 1) != 1)
            _exit(1);
        pause();
        _exit(0);
    }
    assert_int_equal(read(pipes[0], &byte, 1), 1);
    close(pipes[0]);
    close(pipes[1]);
    return pid;
}

static void a_user_who_has_had_several(void **state)
{
    struct pb_stalls *s = begin();
    pid_t pid;
    int slot;

    (void)state;
    if (geteuid() != 0)
        skip();
    pid = start_stranger();
    for (int i = 0; i < 3; i++) {
        slot = pb_stall_begin(pid);
        assert_true(slot >= 0);
        make_old(s, slot);
        assert_int_equal(pb_stalls_judge(s, LIMIT_NS), pid);
        pb_stall_end(slot);
        s->stalled[i].start++; /* it was another process of that user */
    }
    assert_int_equal(pb_stall_begin(pid), PB_STALL_REFUSED);
    slot = pb_stall_begin(getpid());
    assert_true(slot >= 0);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    end(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_ends_in_time_is_no_stall),
        cmocka_unit_test(a_process_that_was_waited_for_is_left_alone),
        cmocka_unit_test(more_waits_than_places),
        cmocka_unit_test(a_user_who_has_had_several),
    };

    return RUN_TESTS(tests);
}
