/* Parts of a stack that several interpreters have, put in order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "stack/python/layouts.h"
#include "stack/python/join.h"

/* Frames from a string: letters, and a digit for a marker at that place of the C stack. */
static struct pb_py_raw_stack part(struct pb_py_raw_frame *v, const char *kinds)
{
    size_t n = strlen(kinds);

    for (size_t i = 0; i < n; i++) {
        v[i] = (struct pb_py_raw_frame){.addr = 0x100000, .owner = kinds[i]};
        if (kinds[i] >= '0' && kinds[i] <= '9') {
            v[i].shim = true;
            v[i].addr = 0x1000 * (uint64_t)(kinds[i] - '0' + 1);
        }
    }
    return (struct pb_py_raw_stack){v, n, true};
}

/* The joined order as text. */
static const char *joined(int minor, const char *first, uint64_t first_at, const char *second,
                          uint64_t second_at, char *text)
{
    struct pb_py_raw_frame a[16], b[16];
    struct pb_py_part parts[2] = {{part(a, first), first_at}, {part(b, second), second_at}};
    struct pb_arena arena = PB_ARENA_INIT;
    struct pb_py_raw_stack all;

    pb_py_join(kept_layout(3, minor, 9), parts, 2, &arena, &all);
    assert_true(all.complete);
    for (size_t i = 0; i < all.n; i++) {
        text[i] = (char)all.v[i].owner;
        if (!all.v[i].shim) /* capitals are the second part's */
            assert_int_equal(all.v[i].part, text[i] <= 'Z');
    }
    text[all.n] = '\0';
    pb_arena_finish(&arena);
    return text;
}

static void test_by_markers(void **state)
{
    char text[64];

    (void)state;
    assert_string_equal(joined(12, "ab5", 0, "CD2", 0, text), "CD2ab5");
    assert_string_equal(joined(12, "ab2", 0, "CD5", 0, text), "ab2CD5");
    /* The outer interpreter was called back by the inner one. */
    assert_string_equal(joined(12, "a1bc7", 0, "DE3F4", 0, text), "a1DE3F4bc7");
    assert_string_equal(joined(12, "ab5", 0, "", 0, text), "ab5");
}

static void test_by_the_newest_record_in_311(void **state)
{
    char text[64];

    (void)state;
    assert_string_equal(joined(11, "ab", 0x9000, "CD", 0x5000, text), "CDab");
    assert_string_equal(joined(11, "ab", 0x5000, "CD", 0x9000, text), "abCD");
}

static void test_in_the_given_order_to_310(void **state)
{
    char text[64];

    (void)state;
    assert_string_equal(joined(10, "ab", 0, "CD", 0, text), "abCD");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_markers),
        cmocka_unit_test(test_by_the_newest_record_in_311),
        cmocka_unit_test(test_in_the_given_order_to_310),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
