/*
 * The second way, PEP 768, on every Python 3.14 that this machine has: asleep
 * in a call of CPython's own, and running. Others say why it is not theirs.
 */
#include "inject/target.h"
#include "stack/python/live.h"

#define RUNNING                                                                                  \
    LIVE_PROLOGUE                                                                                \
    "out.write('end\\n')\n"                                                                      \
    "out.flush()\n"                                                                              \
    "n = 0\n"                                                                                    \
    "while True: n = (n * 31 + 7) % 1000003\n"
#define ASLEEP                                                                                   \
    LIVE_PROLOGUE                                                                                \
    "import time\n"                                                                              \
    "out.write('end\\n')\n"                                                                      \
    "out.flush()\n"                                                                              \
    "while True: time.sleep(1000)\n"

/* A wrapper may have put another process between us and the interpreter. */
static void ask(struct live *t)
{
    static const struct pb_inject_hook second = {.force_pep768 = true};
    struct pb_inject_opts o = target_library();
    struct pb_inject_report r;
    struct pb_err err = {0};
    char line[256];
    int rc;

    while (fgets(line, sizeof line, t->out) && strcmp(line, "end\n") != 0)
        ;
    usleep(20000);
    rc = pb_injection_run(t->pid, &o, &second, &r, &err);
    if (t->minor < 14) {
        assert_int_equal(rc, -1);
        assert_int_equal(err.code, PB_FAIL);
    } else {
        if (rc < 0)
            fail_msg("%s: %s", t->python, err.msg);
        assert_non_null(strstr(r.way, "PEP 768"));
    }
    assert_int_equal(kill(t->pid, SIGKILL), 0);
}

static void running(void **state)
{
    (void)state;
    live_each(RUNNING, ask);
}

static void asleep(void **state)
{
    (void)state;
    live_each(ASLEEP, ask);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(running),
        cmocka_unit_test(asleep),
    };

    return RUN_TESTS(tests);
}
