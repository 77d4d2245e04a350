/* The table of versions: found by number, unknown ones refused, known facts in place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "unwind/python/layout.h"

static void test_every_version_is_found(void **state)
{
    (void)state;
    for (int minor = 4; minor <= 12; minor++) {
        const struct pb_py_layout *l = pb_py_layout_find(3, minor, 9);

        assert_non_null(l);
        assert_int_equal(l->major, 3);
        assert_int_equal(l->minor, minor);
        assert_true(l->f_localsplus >= 72 && l->co_linetable > 0 && l->type_flags == 168);
        assert_true(l->co_size > l->co_linetable && l->frame_size == l->f_localsplus);
    }
}

/* A field without a row would be offset 0. Padding behind a bool is shorter than an int. */
static void test_every_field_has_a_row(void **state)
{
    uint8_t set[sizeof(struct pb_py_layout)] = {0};
    size_t gap = 0;

    (void)state;
#define ROW(field, ...)                                                                            \
    memset(set + offsetof(struct pb_py_layout, field), 1,                                          \
           sizeof(((struct pb_py_layout *)0)->field));
#include "unwind/python/versions.def"
    for (size_t i = 0; i < sizeof set; i++) {
        gap = set[i] ? 0 : gap + 1;
        if (gap >= sizeof(int))
            fail_msg("no row for the field at byte %zu", i - gap + 1);
    }
}

static void test_unknown_versions_are_refused(void **state)
{
    (void)state;
    assert_null(pb_py_layout_find(2, 7, 18));
    assert_null(pb_py_layout_find(3, 3, 0));
    assert_null(pb_py_layout_find(3, 13, 0));
    assert_null(pb_py_layout_find(4, 8, 0));
    assert_null(pb_py_layout_find(3, -1, 0));
}

static void test_37_moved_in_its_fourth_release(void **state)
{
    const struct pb_py_layout *before = pb_py_layout_find(3, 7, 3);
    const struct pb_py_layout *after = pb_py_layout_find(3, 7, 4);

    (void)state;
    assert_int_equal(after->runtime_tstate_current - before->runtime_tstate_current, 88);
    assert_int_equal(after->runtime_gil_holder, 1272);
    assert_int_equal(before->runtime_gil_holder, 1184);
}

static void test_fields_that_moved(void **state)
{
    const struct pb_py_layout *l35 = pb_py_layout_find(3, 5, 9);
    const struct pb_py_layout *l36 = pb_py_layout_find(3, 6, 15);
    const struct pb_py_layout *l310 = pb_py_layout_find(3, 10, 1);
    const struct pb_py_layout *l311 = pb_py_layout_find(3, 11, 7);

    (void)state;
    assert_int_equal(l35->co_firstlineno, 112);
    assert_int_equal(l36->co_firstlineno, 36);
    assert_int_equal(l35->dict, PB_DICT_OLD);
    assert_int_equal(l36->dict, PB_DICT_36);
    assert_int_equal(l310->lasti_scale, 2);
    assert_int_equal(l310->lines, PB_LINES_TABLE_310);
    assert_int_equal(l311->ts_cframe, 56);
    assert_int_equal(l311->ts_frame, PB_NONE);
    assert_true(l311->f_instr_is_pointer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_version_is_found),
        cmocka_unit_test(test_every_field_has_a_row),
        cmocka_unit_test(test_unknown_versions_are_refused),
        cmocka_unit_test(test_37_moved_in_its_fourth_release),
        cmocka_unit_test(test_fields_that_moved),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
