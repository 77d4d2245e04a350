/* The table of versions: found by number, unknown ones refused, known facts in place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "stack/python/layouts.h"

static void test_every_version_is_found(void **state)
{
    (void)state;
    for (int minor = 4; minor <= 12; minor++) {
        const struct pb_py_layout *l = kept_layout(3, minor, 9);

        assert_non_null(l);
        assert_int_equal(l->major, 3);
        assert_int_equal(l->minor, minor);
        assert_true(l->f_localsplus >= 72 && l->co_linetable > 0 && l->type_flags == 168);
        assert_true(l->co_size > l->co_linetable && l->frame_size == l->f_localsplus);
    }
}

/* What every version has; a field that is not said is not there. */
static void test_no_file_lacks_what_all_have(void **state)
{
    (void)state;
    for (int minor = 4; minor <= 12; minor++) {
        const struct pb_py_layout *l = kept_layout(3, minor, 9);
        const int fields[] = {
            l->interp_next, l->interp_threads_head, l->interp_modules, l->ts_next, l->ts_interp,
            l->ts_thread_id, l->frame_size, l->f_back, l->f_code, l->f_lasti, l->f_localsplus,
            l->lasti_scale, l->co_size, l->co_filename, l->co_name, l->co_firstlineno,
            l->co_linetable, l->co_code, l->co_argcount, l->co_kwonlyargcount, l->co_nlocals,
            l->co_flags, l->co_varnames, l->lines, l->ob_head, l->ob_type, l->ob_size,
            l->type_name, l->type_flags, l->type_basicsize, l->type_itemsize, l->type_dictoffset,
            l->type_mro, l->type_base, l->type_dict, l->type_qualname, l->tuple_items,
            l->list_items, l->bytes_data, l->float_value, l->long_tag, l->long_digits,
            l->str_length, l->str_state, l->str_ascii_size, l->str_compact_size, l->dict,
            l->dict_used, l->dict_keys, l->dict_values, l->set_used, l->set_mask, l->set_table,
            l->instance, l->func_name, l->func_qualname,
        };

        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
            if (fields[i] == PB_NONE)
                fail_msg("3.%d lacks field %zu of those that all have", minor, i);
        assert_true(l->ts_frame != PB_NONE || l->ts_cframe != PB_NONE);
        assert_non_null(l->loop);
    }
}

static void test_what_can_be_done_with_a_version(void **state)
{
    char text[32];

    (void)state;
    assert_int_equal(pb_py_support(3, 5), PB_PY_STACKS_ONLY);
    assert_int_equal(pb_py_support(3, 6), PB_PY_AGENT);
    assert_int_equal(pb_py_support(3, 15), PB_PY_AGENT);
    assert_int_equal(pb_py_support(3, 99), PB_PY_UNKNOWN);
    assert_int_equal(pb_py_support(2, 7), PB_PY_UNKNOWN);
    assert_string_equal(pb_py_supported(text, sizeof text), "3.4 to 3.15");
}

static void test_unknown_versions_are_refused(void **state)
{
    (void)state;
    assert_null(kept_layout(2, 7, 18));
    assert_null(kept_layout(3, 3, 0));
    assert_null(kept_layout(3, 13, 0));
    assert_null(kept_layout(4, 8, 0));
    assert_null(kept_layout(3, -1, 0));
    assert_null(kept_layout(3, 16, 0));
}

static void test_37_moved_in_its_fourth_release(void **state)
{
    const struct pb_py_layout *before = kept_layout(3, 7, 3);
    const struct pb_py_layout *after = kept_layout(3, 7, 4);

    (void)state;
    assert_int_equal(after->runtime_tstate_current - before->runtime_tstate_current, 88);
    assert_int_equal(after->runtime_gil_holder, 1272);
    assert_int_equal(before->runtime_gil_holder, 1184);
    assert_int_equal(kept_layout(3, 7, -1)->runtime_gil_holder, 1272);
}

static void test_fields_that_moved(void **state)
{
    const struct pb_py_layout *l35 = kept_layout(3, 5, 9);
    const struct pb_py_layout *l36 = kept_layout(3, 6, 15);
    const struct pb_py_layout *l310 = kept_layout(3, 10, 1);
    const struct pb_py_layout *l311 = kept_layout(3, 11, 7);

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
        cmocka_unit_test(test_no_file_lacks_what_all_have),
        cmocka_unit_test(test_what_can_be_done_with_a_version),
        cmocka_unit_test(test_unknown_versions_are_refused),
        cmocka_unit_test(test_37_moved_in_its_fourth_release),
        cmocka_unit_test(test_fields_that_moved),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
