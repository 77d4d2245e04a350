#include "pb_test.h"

#include <asm/unistd.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/process/proc.h"

static pid_t start_sleeper(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    return pid;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void wait_for_state(pid_t pid, char state)
{
    struct pb_proc_stat st = {0};

    for (int i = 0; i < 1000 && st.state != state; i++) {
        usleep(1000);
        pb_proc_stat(&st, pid, 0, NULL);
    }
    assert_int_equal(st.state, state);
}

static void stat_of_a_strange_name(void **state)
{
    struct pb_proc_stat st;
    char old[16];

    (void)state;
    prctl(PR_GET_NAME, old);
    prctl(PR_SET_NAME, "a) S (b c");
    assert_int_equal(pb_proc_stat(&st, getpid(), 0, NULL), 0);
    assert_string_equal(st.comm, "a) S (b c");
    assert_int_equal(st.pid, getpid());
    assert_int_equal(st.ppid, getppid());
    assert_int_equal(st.state, 'R');
    assert_true(st.threads >= 1);
    assert_true(st.start_time > 0);
    prctl(PR_SET_NAME, old);
}

static void status_of_itself(void **state)
{
    struct pb_proc_status st;

    (void)state;
    assert_int_equal(pb_proc_status(&st, getpid(), NULL), 0);
    assert_int_equal(st.uid, getuid());
    assert_int_equal(st.tgid, getpid());
    assert_true(st.ns_pid > 0);
    assert_true(st.rss_kb > 0);
}

static void gone_is_no_target(void **state)
{
    struct pb_proc_stat st;
    struct pb_err err = {0};

    (void)state;
    assert_int_equal(pb_proc_stat(&st, 0x7ffffff0, 0, &err), -1);
    assert_int_equal(err.code, PB_NO_TARGET);
    assert_string_equal(err.msg, "2147483632: no such process");
    err = (struct pb_err){0};
    assert_int_equal(pb_proc_check_access(0x7ffffff0, NULL, &err), -1);
    assert_int_equal(err.code, PB_NO_TARGET);
}

static void a_blocked_thread(void **state)
{
    struct pb_proc_wait wait;
    pid_t pid = start_sleeper();
    const char *name;

    (void)state;
    wait_for_state(pid, 'S');
    pb_proc_wait(&wait, pid, pid);
    assert_true(wait.readable);
    assert_true(wait.blocked);
    assert_true(wait.sp != 0 && wait.pc != 0);
    name = pb_proc_syscall_name(wait.nr);
    assert_non_null(name);
    assert_true(strcmp(name, "pause") == 0 || strcmp(name, "ppoll") == 0);
    end(pid);
    pb_proc_wait(&wait, pid, pid);
    assert_false(wait.readable);
}

static void names_of_system_calls(void **state)
{
    (void)state;
    assert_string_equal(pb_proc_syscall_name(__NR_read), "read");
    assert_string_equal(pb_proc_syscall_name(__NR_futex), "futex");
    assert_string_equal(pb_proc_syscall_name(__NR_clock_nanosleep), "clock_nanosleep");
    assert_null(pb_proc_syscall_name(-1));
    assert_null(pb_proc_syscall_name(1000000));
}

/* A thread between two meetings; its id is known after the first. */
struct worker {
    pthread_barrier_t barrier;
    pthread_t thread;
    pid_t tid;
};

static void *work(void *arg)
{
    struct worker *w = arg;

    w->tid = gettid();
    pthread_barrier_wait(&w->barrier);
    pthread_barrier_wait(&w->barrier);
    return NULL;
}

static void worker_start(struct worker *w)
{
    pthread_barrier_init(&w->barrier, NULL, 2);
    pthread_create(&w->thread, NULL, work, w);
    pthread_barrier_wait(&w->barrier);
}

static void worker_end(struct worker *w)
{
    pthread_barrier_wait(&w->barrier);
    pthread_join(w->thread, NULL);
    pthread_barrier_destroy(&w->barrier);
}

static bool contains(const pid_t *v, int n, pid_t pid)
{
    for (int i = 0; i < n; i++) {
        assert_true(i == 0 || v[i - 1] < v[i]);
        if (v[i] == pid)
            return true;
    }
    return false;
}

static void lists_threads_and_pids(void **state)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct worker w;
    pid_t *v;
    int n;

    (void)state;
    worker_start(&w);
    n = pb_proc_threads(getpid(), &a, &v, NULL);
    assert_true(contains(v, n, getpid()));
    assert_true(contains(v, n, w.tid));
    worker_end(&w);
    n = pb_proc_pids(&a, &v, NULL);
    assert_true(contains(v, n, getpid()));
    assert_int_equal(pb_proc_threads(0x7ffffff0, &a, &v, NULL), -1);
    pb_arena_finish(&a);
}

static void command_and_environment(void **state)
{
    struct pb_arena a = PB_ARENA_INIT;
    static const char block[] = "RANKS=9\0RANK=3\0EMPTY=\0NOEQUALS";
    int fds[2];
    size_t len;
    pid_t pid;
    char *env;

    (void)state;
    assert_string_equal(pb_proc_getenv(block, sizeof block, "RANK"), "3");
    assert_string_equal(pb_proc_getenv(block, sizeof block, "EMPTY"), "");
    assert_null(pb_proc_getenv(block, sizeof block, "NOEQUALS"));
    assert_null(pb_proc_getenv(block, sizeof block, "RAN"));
    assert_null(pb_proc_getenv(NULL, 0, "RANK"));
    assert_int_equal(pipe(fds), 0);
    pid = fork();
    if (pid == 0) {
        dup2(fds[0], 0);
        close(fds[1]);
        execle("/bin/sh", "sh", "-c", "read x\n#a\tb", "", NULL,
               (char *[]){(char[]){"RANK=7"}, NULL});
        _exit(1);
    }
    close(fds[0]);
    for (int i = 0; i < 1000 && strncmp(pb_proc_command(pid, &a), "sh ", 3) != 0; i++)
        usleep(1000);
    assert_string_equal(pb_proc_command(pid, &a), "sh -c read x #a b");
    env = pb_proc_read(pid, "environ", &a, &len);
    assert_string_equal(pb_proc_getenv(env, len, "RANK"), "7");
    close(fds[1]);
    waitpid(pid, NULL, 0);
    assert_null(pb_proc_read(pid, "environ", &a, &len));
    pb_arena_finish(&a);
}

static void access_to_a_child(void **state)
{
    struct pb_err err = {0};
    pid_t pid = start_sleeper();

    (void)state;
    assert_int_equal(pb_proc_check_access(pid, NULL, &err), 0);
    kill(pid, SIGKILL);
    wait_for_state(pid, 'Z');
    assert_int_equal(pb_proc_check_access(pid, NULL, &err), -1);
    assert_int_equal(err.code, PB_NO_TARGET);
    assert_non_null(strstr(err.msg, "a zombie"));
    end(pid);
}

/* Runs the check as another user, and hands back code and message. */
static void check_as_nobody(pid_t target, struct pb_err *ret)
{
    int fds[2];
    pid_t pid;

    assert_int_equal(pipe(fds), 0);
    pid = fork();
    if (pid == 0) {
        struct pb_err err = {0};

        if (setgid(65534) == 0 && setuid(65534) == 0)
            pb_proc_check_access(target, "probing 1 backtrace", &err);
        _exit(write(fds[1], &err, sizeof err) != sizeof err);
    }
    assert_int_equal(read(fds[0], ret, sizeof *ret), sizeof *ret);
    close(fds[0]);
    close(fds[1]);
    waitpid(pid, NULL, 0);
}

static void access_of_another_user(void **state)
{
    struct pb_err err = {0};
    pid_t pid;

    (void)state;
    if (getuid() != 0)
        skip();
    pid = start_sleeper();
    check_as_nobody(pid, &err);
    assert_int_equal(err.code, PB_DENIED);
    assert_non_null(strstr(err.msg, ": not permitted: owned by root. Run as root, or: sudo "
                                    "probing 1 backtrace"));
    end(pid);
}

static void a_thread_is_not_a_process(void **state)
{
    struct pb_err err = {0};
    struct worker w;

    (void)state;
    worker_start(&w);
    assert_int_equal(pb_proc_check_access(w.tid, NULL, &err), -1);
    assert_int_equal(err.code, PB_NO_TARGET);
    assert_non_null(strstr(err.msg, "a thread of process"));
    worker_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stat_of_a_strange_name),  cmocka_unit_test(status_of_itself),
        cmocka_unit_test(gone_is_no_target),       cmocka_unit_test(a_blocked_thread),
        cmocka_unit_test(names_of_system_calls),   cmocka_unit_test(lists_threads_and_pids),
        cmocka_unit_test(command_and_environment), cmocka_unit_test(access_to_a_child),
        cmocka_unit_test(access_of_another_user),  cmocka_unit_test(a_thread_is_not_a_process),
    };

    return RUN_TESTS(tests);
}
