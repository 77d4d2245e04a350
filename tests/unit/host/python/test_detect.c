#include "pb_test.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/python/detect.h"

static void program_names(void **state)
{
    static const char *const yes[] = {
        "python",      "python3",     "/usr/bin/python3.11", "python3.6m",
        "python3.13t", "python3.14d", "python3-dbg",         "/x/python3.11 (deleted)",
    };
    static const char *const no[] = {
        "", "pypy3", "ipython", "python-config", "pythonista", "python3.11/bin/sh", "/usr/bin/perl",
    };

    (void)state;
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        assert_true(pb_py_is_program_name(yes[i]));
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        assert_false(pb_py_is_program_name(no[i]));
}

/* Starts a program that waits on its standard input; returns when it runs. */
static pid_t start(const char *program, const char *flag, const char *code)
{
    int in[2], out[2];
    pid_t pid;

    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[1]);
        close(out[0]);
        execlp(program, program, flag, code, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    await_line(out[0]);
    return pid;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void python_is_found(void **state)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_py_detector d;
    struct pb_py_found first, second;
    pid_t pid = start("python3", "-c", "import sys; print('x', flush=True); sys.stdin.read()");

    (void)state;
    pb_py_detector_init(&d, &a);
    assert_true(pb_py_detect(&d, pid, &first));
    assert_memory_equal(first.version, "3.", 2);
    assert_non_null(first.module);
    assert_non_null(first.how);
    assert_true(pb_py_detect(&d, pid, &second)); /* out of what it remembers */
    assert_string_equal(first.version, second.version);
    end(pid);
    assert_false(pb_py_detect(&d, pid, &first));
    pb_arena_finish(&a);
}

static void others_are_not(void **state)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_py_detector d;
    struct pb_py_found found;
    pid_t pid = start("sh", "-c", "echo x; read y; echo python3");

    (void)state;
    pb_py_detector_init(&d, &a);
    assert_false(pb_py_detect(&d, pid, &found));
    assert_false(pb_py_detect(&d, getpid(), &found));
    assert_false(pb_py_detect(&d, 0x7ffffff0, &found));
    end(pid);
    pb_arena_finish(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(program_names),
        cmocka_unit_test(python_is_found),
        cmocka_unit_test(others_are_not),
    };

    return RUN_TESTS(tests);
}
