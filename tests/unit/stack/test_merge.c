/* Native and Python stacks put together, by hand-made stacks of each kind of version. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "stack/merge.h"
#include "stack/python/layouts.h"

#define EVAL "_PyEval_EvalFrameDefault"
#define EVAL_OLD "PyEval_EvalFrameEx"

static const char *symbol_of(char kind)
{
    return kind == 'E' ? EVAL : kind == 'X' ? EVAL_OLD : kind == 'C' ? EVAL_OLD ".cold" : "call";
}

/*
 * Native frames from a string: E a run of the evaluator, X and C one of 3.4 and 3.5 and a part of
 * it, c any other C function.
 */
static struct pb_native_stack native(struct pb_native_frame *v, const char *kinds)
{
    size_t n = strlen(kinds);

    for (size_t i = 0; i < n; i++) {
        v[i] = (struct pb_native_frame){
            .symbol = symbol_of(kinds[i]),
            .func = symbol_of(kinds[i]),
            .sp = 0x1000 * (i + 1),
            .cfa = 0x1000 * (i + 2),
        };
    }
    return (struct pb_native_stack){v, n, PB_NATIVE_COMPLETE};
}

/*
 * Python frames from a string: p a frame, e a frame that begins a run (3.11),
 * a digit a marker that lies in the native frame of that index (3.12).
 */
static struct pb_py_raw_stack python(struct pb_py_raw_frame *v, const char *kinds)
{
    size_t n = strlen(kinds);

    for (size_t i = 0; i < n; i++) {
        v[i] = (struct pb_py_raw_frame){.addr = 0x100000 + i * 64};
        v[i].is_entry = kinds[i] == 'e';
        if (kinds[i] >= '0' && kinds[i] <= '9') {
            v[i].shim = true;
            v[i].addr = 0x1000 * (uint64_t)(kinds[i] - '0' + 1) + 0x80;
        }
    }
    return (struct pb_py_raw_stack){v, n, true};
}

/* The merged order as text: p for a Python frame, c or E for a native one; NULL: no fit. */
static const char *merged(int minor, const char *py_kinds, const char *native_kinds,
                          enum pb_native_end end, char *text)
{
    struct pb_py_raw_frame pv[32];
    struct pb_native_frame nv[32];
    struct pb_py_raw_stack p = python(pv, py_kinds);
    struct pb_native_stack n = native(nv, native_kinds);
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_merged *m;
    size_t count;

    n.end = end;
    if (!pb_merge(kept_layout(3, minor, 9), &p, &n, &a, &m, &count)) {
        pb_arena_finish(&a);
        return NULL;
    }
    for (size_t i = 0; i < count; i++)
        text[i] = m[i].native ? native_kinds[m[i].index] : py_kinds[m[i].index];
    text[count] = '\0';
    pb_arena_finish(&a);
    return text;
}

static void test_one_run_per_frame_to_310(void **state)
{
    char text[64];

    (void)state;
    assert_string_equal(merged(10, "pp", "cEcEc", PB_NATIVE_COMPLETE, text), "cpcpc");
    /* The innermost run has no frame yet. */
    assert_string_equal(merged(10, "pp", "EcEcEc", PB_NATIVE_COMPLETE, text), "Ecpcpc");
    /* More frames than runs do not fit. */
    assert_null(merged(10, "ppp", "cEcEc", PB_NATIVE_COMPLETE, text));
}

static void test_the_loop_of_34_and_35(void **state)
{
    char text[64];

    (void)state;
    assert_string_equal(merged(4, "ppp", "cXcCcXc", PB_NATIVE_COMPLETE, text), "cpcpcpc");
    assert_string_equal(merged(5, "p", "cXc", PB_NATIVE_COMPLETE, text), "cpc");
    /* From 3.6 on that is a function around the loop. */
    assert_string_equal(merged(6, "p", "cEXc", PB_NATIVE_COMPLETE, text), "cpXc");
}

static void test_groups_end_at_the_entry_in_311(void **state)
{
    char text[64];

    (void)state;
    assert_string_equal(merged(11, "ppepe", "cEcEc", PB_NATIVE_COMPLETE, text), "cppecpec");
}

static void test_groups_end_at_the_marker_from_312_on(void **state)
{
    char text[64];

    (void)state;
    assert_string_equal(merged(12, "pp1p3", "cEcEc", PB_NATIVE_COMPLETE, text), "cppcpc");
    /* A marker that lies in another frame than its run: the stacks are not one. */
    assert_null(merged(12, "pp1p2", "cEcEc", PB_NATIVE_COMPLETE, text));
}

static void test_a_cut_native_stack_keeps_all_python_frames(void **state)
{
    char text[64];

    (void)state;
    assert_string_equal(merged(12, "pp1p3pp7", "cEcEc", PB_NATIVE_NO_RULE, text), "cppcpcpp");
    /* Without markers there is no telling which runs are missing. */
    assert_null(merged(10, "ppp", "cEc", PB_NATIVE_NO_RULE, text));
}

static void test_no_python_at_all(void **state)
{
    char text[64];

    (void)state;
    assert_string_equal(merged(12, "", "ccc", PB_NATIVE_COMPLETE, text), "ccc");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_run_per_frame_to_310),
        cmocka_unit_test(test_the_loop_of_34_and_35),
        cmocka_unit_test(test_groups_end_at_the_entry_in_311),
        cmocka_unit_test(test_groups_end_at_the_marker_from_312_on),
        cmocka_unit_test(test_a_cut_native_stack_keeps_all_python_frames),
        cmocka_unit_test(test_no_python_at_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
