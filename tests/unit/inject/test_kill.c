/*
 * The tool is killed at every step of an injection: the target goes on, all
 * of its signals open, and can be injected into afterwards.
 */
#include "inject/target.h"

#define KILLS_PER_STEP 4

#define IDLE                                                                                     \
    "import os, time\n"                                                                          \
    "os.write(1, b'.\\n')\n"                                                                     \
    "while True: time.sleep(1000)\n"
#define BUSY                                                                                     \
    "import os\n"                                                                                \
    "os.write(1, b'.\\n')\n"                                                                     \
    "n = 0\n"                                                                                    \
    "while True: n = (n * 31 + 7) % 1000003\n"

static void die_at(enum pb_inject_step step, void *arg)
{
    if (step == *(enum pb_inject_step *)arg)
        kill(getpid(), SIGKILL);
}

static void inject_and_die(pid_t target, const struct pb_inject_opts *o, enum pb_inject_step step)
{
    struct pb_inject_hook hook = {.at = die_at, .arg = &step};
    pid_t tool = fork();
    int status;

    assert_true(tool >= 0);
    if (tool == 0) {
        struct pb_inject_report r;
        struct pb_err err = {0};

        pb_injection_run(target, o, &hook, &r, &err);
        fprintf(stderr, "%s\n", err.msg);
        _exit(1);
    }
    assert_int_equal(waitpid(tool, &status, 0), tool);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void assert_signals_open(pid_t pid)
{
    struct pb_arena a = PB_ARENA_INIT;
    size_t len;
    char *status = pb_proc_read(pid, "status", &a, &len);
    char *line = status ? strstr(status, "SigBlk:") : NULL;

    assert_non_null(line);
    assert_int_equal(strtoull(line + strlen("SigBlk:"), NULL, 16), 0);
    pb_arena_finish(&a);
}

/* A thread that waits in vain for the dead tool ends by itself. */
static void assert_threads_end(pid_t pid)
{
    struct pb_proc_stat st = {0};

    for (int i = 0; i < 600 && st.threads != 1; i++) {
        usleep(10000);
        assert_int_equal(pb_proc_stat(&st, pid, 0, NULL), 0);
    }
    assert_int_equal(st.threads, 1);
}

static void kill_at_every_step(const char *script)
{
    struct pb_inject_opts o = target_library();
    pid_t pid = target_python(script);

    for (int step = 0; step < PB_STEPS; step++) {
        for (int i = 0; i < KILLS_PER_STEP; i++) {
            inject_and_die(pid, &o, (enum pb_inject_step)step);
            usleep(2000);
            assert_true(target_alive(pid));
        }
        target_inject(pid, &o, NULL);
        assert_true(target_alive(pid));
    }
    assert_threads_end(pid);
    assert_signals_open(pid);
    assert_true(target_alive(pid));
    target_end(pid);
}

static void killed_while_the_target_sleeps(void **state)
{
    (void)state;
    kill_at_every_step(IDLE);
}

static void killed_while_the_target_runs(void **state)
{
    (void)state;
    kill_at_every_step(BUSY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_while_the_target_sleeps),
        cmocka_unit_test(killed_while_the_target_runs),
    };

    return RUN_TESTS(tests);
}
