#include "pb_test.h"

#include "base/err.h"

static void first_cause_wins(void **state)
{
    struct pb_err err = {0};

    (void)state;
    assert_int_equal(pb_err_set(&err, PB_DENIED, "owned by %s", "root"), -1);
    assert_int_equal(pb_err_set(&err, PB_FAIL, "later"), -1);
    assert_int_equal(err.code, PB_DENIED);
    assert_string_equal(err.msg, "owned by root");
}

static void prefixes_pile_up(void **state)
{
    struct pb_err err = {0};

    (void)state;
    pb_err_set(&err, PB_NO_TARGET, "no such process");
    pb_err_prefix(&err, "%d", 42);
    pb_err_prefix(&err, "backtrace");
    assert_string_equal(err.msg, "backtrace: 42: no such process");
}

static void prefix_of_nothing(void **state)
{
    struct pb_err err = {0};

    (void)state;
    pb_err_prefix(&err, "doing");
    assert_int_equal(err.code, PB_OK);
    assert_string_equal(err.msg, "");
}

static void null_is_allowed(void **state)
{
    (void)state;
    assert_int_equal(pb_err_set(NULL, PB_FAIL, "x"), -1);
    assert_int_equal(pb_err_prefix(NULL, "x"), -1);
}

static void long_messages_are_cut(void **state)
{
    struct pb_err err = {0};
    char text[2000];

    (void)state;
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = '\0';
    pb_err_set(&err, PB_FAIL, "%s", text);
    assert_int_equal(strlen(err.msg), sizeof err.msg - 1);
    pb_err_prefix(&err, "front");
    assert_memory_equal(err.msg, "front: aaa", 10);
    assert_int_equal(strlen(err.msg), sizeof err.msg - 1);
    pb_err_prefix(&err, "%s", text);
    assert_int_equal(strlen(err.msg), sizeof err.msg - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_cause_wins),      cmocka_unit_test(prefixes_pile_up),
        cmocka_unit_test(prefix_of_nothing),     cmocka_unit_test(null_is_allowed),
        cmocka_unit_test(long_messages_are_cut),
    };

    return RUN_TESTS(tests);
}
