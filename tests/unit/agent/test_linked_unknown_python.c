/* Versions of Python in the agent: each that is known, and one that nobody has added. */
#include "pb_test.h"

#include <stdint.h>
#include <stdio.h>

#include "agent/py/api.h"

static void test_known_versions(void **state)
{
    (void)state;
    for (int minor = 6; minor <= 12; minor++) {
        struct pb_py py = {.major = 3, .minor = minor};
        struct pb_py_layout l;

        snprintf(py.version, sizeof py.version, "3.%d.1", minor);
        assert_int_equal(pb_py_own_layout(&l, &py, NULL), 0);
        assert_int_equal(l.arena_size, minor < 10 ? 256 << 10 : 1 << 20);
        assert_int_equal(l.frame_object_frame > 0, minor >= 11);
    }
}

/* One that does not describe itself, and one whose description is of a version nobody knows. */
static void test_unknown_version(void **state)
{
    static struct {
        char cookie[8];
        uint64_t version, rest[PB_DEBUG_OFFSETS_MAX / 8];
    } told = {"xdebugpy", 3 << 24 | 99 << 16, {0}};
    struct pb_py py = {.major = 3, .minor = 99, .version = "3.99.0"};
    struct pb_py_layout l;
    struct pb_err err = {0};

    (void)state;
    assert_int_equal(pb_py_own_layout(&l, &py, &err), -1);
    assert_string_equal(err.msg, "the layout of Python 3.99.0 is not known");
    err = (struct pb_err){0};
    py.runtime = &told;
    assert_int_equal(pb_py_own_layout(&l, &py, &err), -1);
    assert_non_null(strstr(err.msg, "Python 3.99 is not known"));
}

static void test_promises_of_the_api(void **state)
{
    struct pb_py_api old = pb_py_api_of(3, 6), mid = pb_py_api_of(3, 10);
    struct pb_py_api newest = pb_py_api_of(3, 15), unknown = pb_py_api_of(3, 99);

    (void)state;
    assert_true(old.gil_is_late && old.pending_is_noticed && !old.fastcall && !old.slot_gil);
    assert_true(mid.fastcall && mid.vectorcall_always && !mid.pending_is_noticed);
    assert_true(newest.slot_gil && newest.current_is_of_thread && !newest.gil_is_late);
    assert_memory_equal(&newest, &unknown, sizeof newest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_versions),
        cmocka_unit_test(test_unknown_version),
        cmocka_unit_test(test_promises_of_the_api),
    };

    return RUN_TESTS(tests);
}
