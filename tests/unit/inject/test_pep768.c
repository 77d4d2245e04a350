#include "pb_test.h"

#include "inject/pep768.h"

/* What 3.14 says of itself, as far as it matters here. */
static struct pb_py_layout describe(void)
{
    return (struct pb_py_layout){
        .major = 3,
        .minor = 14,
        .interp_size = 225808,
        .ts_size = 824,
        .dbg_eval_breaker = 24,
        .dbg_support = 304,
        .dbg_enabled = 8052,
        .dbg_pending = 0,
        .dbg_path = 4,
        .dbg_path_size = 512,
    };
}

static int check(const struct pb_py_layout *py, struct pb_pep768_layout *ret)
{
    return pb_pep768_layout(ret, py, NULL);
}

static void layout_of_3_14(void **state)
{
    struct pb_py_layout py = describe();
    struct pb_pep768_layout l;

    (void)state;
    assert_int_equal(check(&py, &l), 0);
    assert_int_equal(l.eval_breaker, 24);
    assert_int_equal(l.support, 304);
    assert_int_equal(l.enabled, 8052);
    assert_int_equal(l.pending, 0);
    assert_int_equal(l.path, 4);
    assert_int_equal(l.path_size, 512);
}

static void versions_without_it_are_refused(void **state)
{
    struct pb_pep768_layout l;
    struct pb_py_layout py;
    struct pb_err err = {0};

    (void)state;
    assert_true(pb_py_layout_find(&py, 3, 12, 0));
    assert_int_equal(pb_pep768_layout(&l, &py, &err), -1);
    assert_string_equal(err.msg, "Python 3.12 runs no scripts from outside");
}

/* A position outside of its struct would make us write anywhere. */
static void nonsense_is_refused(void **state)
{
    static const size_t fields[] = {
        offsetof(struct pb_py_layout, interp_size),   offsetof(struct pb_py_layout, ts_size),
        offsetof(struct pb_py_layout, dbg_support),   offsetof(struct pb_py_layout, dbg_path),
        offsetof(struct pb_py_layout, dbg_path_size), offsetof(struct pb_py_layout, dbg_pending),
        offsetof(struct pb_py_layout, dbg_enabled),
        offsetof(struct pb_py_layout, dbg_eval_breaker),
    };
    static const int large[] = {1 << 24, INT32_MAX - 8}, small[] = {0, 3};
    struct pb_pep768_layout l;

    (void)state;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        for (size_t j = 0; j < 2; j++) {
            struct pb_py_layout py = describe();
            const int *values = i == 0 ? small : large;

            memcpy((char *)&py + fields[i], &values[j], sizeof values[j]);
            assert_int_equal(check(&py, &l), -1);
        }
    }
    for (int size = 0; size < 64; size += 8) {
        struct pb_py_layout py = describe();

        py.dbg_path_size = size;
        assert_int_equal(check(&py, &l), -1);
        py = describe();
        py.ts_size = size;
        assert_int_equal(check(&py, &l), -1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layout_of_3_14),
        cmocka_unit_test(versions_without_it_are_refused),
        cmocka_unit_test(nonsense_is_refused),
    };

    return RUN_TESTS(tests);
}
