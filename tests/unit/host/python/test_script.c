#include "pb_test.h"

#include "host/python/script.h"

#define RUNS(argv, script) pb_script_runs(argv, sizeof(argv) - 1, script)

static void scripts(void **state)
{
    (void)state;
    assert_true(RUNS("python\0train.py\0", "train.py"));
    assert_true(RUNS("python\0train.py\0", "train"));
    assert_true(RUNS("python\0/a/b/train.py\0--x\0", "train.py"));
    assert_true(RUNS("python\0/a/b/train.py\0", "b/train.py"));
    assert_true(RUNS("python\0/a/b/train.py\0", "/a/b/train.py"));
    assert_true(RUNS("python\0-u\0-W\0ignore\0-X\0dev\0train.py\0", "train.py"));
    assert_true(RUNS("python\0-m\0pkg.train\0", "pkg.train"));
    assert_false(RUNS("python\0/a/b/retrain.py\0", "train.py"));
    assert_false(RUNS("python\0/a/b/train.py\0", "a/train.py"));
    /* The launcher names it, but runs a script of its own. */
    assert_false(RUNS("python\0/bin/torchrun\0--nproc\0002\0train.py\0", "train.py"));
    assert_false(RUNS("python\0-c\0import train.py\0", "train.py"));
    assert_false(RUNS("python\0", "train.py"));
    assert_false(RUNS("python\0-m\0", "train.py"));
    assert_false(RUNS("python\0-W\0", "train.py"));
    assert_false(RUNS("", "train.py"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(scripts)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
