/* Line tables by hand, whole and damaged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cpython/lines.h"

#define LINE(format, first, offset, ...)                                                           \
    pb_py_line(format, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}),     \
               first, offset)

static void test_lnotab(void **state)
{
    (void)state;
    assert_int_equal(pb_py_line(PB_LINES_LNOTAB, NULL, 0, 7, 100), 7);
    assert_int_equal(LINE(PB_LINES_LNOTAB, 10, 0, 6, 1, 50, 2), 10);
    assert_int_equal(LINE(PB_LINES_LNOTAB, 10, 5, 6, 1, 50, 2), 10);
    assert_int_equal(LINE(PB_LINES_LNOTAB, 10, 6, 6, 1, 50, 2), 11);
    assert_int_equal(LINE(PB_LINES_LNOTAB, 10, 56, 6, 1, 50, 2), 13);
    /* A step of more than 255 bytes, then one back. */
    assert_int_equal(LINE(PB_LINES_LNOTAB, 10, 254, 255, 0, 45, 3, 2, 0xfe), 10);
    assert_int_equal(LINE(PB_LINES_LNOTAB, 10, 300, 255, 0, 45, 3, 2, 0xfe), 13);
    assert_int_equal(LINE(PB_LINES_LNOTAB, 10, 302, 255, 0, 45, 3, 2, 0xfe), 11);
}

static void test_line_steps_are_unsigned_to_35(void **state)
{
    (void)state;
    assert_int_equal(LINE(PB_LINES_LNOTAB_UNSIGNED, 1, 2, 2, 200), 201);
    assert_int_equal(LINE(PB_LINES_LNOTAB, 201, 2, 2, 0x100 - 100), 101);
}

static void test_310(void **state)
{
    (void)state;
    assert_int_equal(LINE(PB_LINES_TABLE_310, 4, 0, 8, 1, 4, 0x80, 6, 0xff), 5);
    assert_int_equal(LINE(PB_LINES_TABLE_310, 4, 8, 8, 1, 4, 0x80, 6, 0xff), 0);
    assert_int_equal(LINE(PB_LINES_TABLE_310, 4, 12, 8, 1, 4, 0x80, 6, 0xff), 4);
    assert_int_equal(LINE(PB_LINES_TABLE_310, 4, 18, 8, 1, 4, 0x80, 6, 0xff), 0);
}

static void test_311(void **state)
{
    const uint8_t table[] = {
        0x80 | 0 << 3 | 1,  0x12,             /* short form, 2 units, same line */
        0x80 | 11 << 3 | 0, 1,       2,       /* one unit, a line on */
        0x80 | 13 << 3 | 0, 40 | 64, 1,       /* no columns, svarint 104: 52 on */
        0x80 | 14 << 3 | 0, 7,       0, 1, 1, /* long form, svarint 7: 3 back */
        0x80 | 15 << 3 | 3,                   /* no line, 4 units */
        0x80 | 12 << 3 | 0, 0,       0,       /* two lines on */
    };
    static const int expected[] = {20, 20, 21, 73, 70, 0, 0, 0, 0, 72, 0};

    (void)state;
    for (uint32_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        assert_int_equal(pb_py_line(PB_LINES_TABLE_311, table, sizeof table, 20, 2 * i),
                         expected[i]);
}

static void test_damaged_tables_give_no_line(void **state)
{
    uint8_t endless[64];

    (void)state;
    for (size_t i = 0; i < sizeof endless; i++)
        endless[i] = 0x7f; /* never an entry, always continued */
    assert_int_equal(pb_py_line(PB_LINES_TABLE_311, endless, sizeof endless, 1, 10), 0);
    endless[0] = 0x80 | 14 << 3;
    assert_in_range(pb_py_line(PB_LINES_TABLE_311, endless, sizeof endless, 1, 0), 0, INT32_MAX);
    assert_int_equal(LINE(PB_LINES_TABLE_311, 1, 10, 0x80 | 14 << 3), 0);
    assert_int_equal(LINE(PB_LINES_TABLE_310, 1, 10, 8), 0);
    assert_int_equal(LINE(PB_LINES_LNOTAB, 1, 4, 4, 0x80), 0);
    assert_int_equal(LINE(PB_LINES_LNOTAB_UNSIGNED, INT32_MAX, 4, 4, 200), 0);
}

/* Each form of an entry: line, end line, columns. */
static void test_positions_311(void **state)
{
    static const uint8_t table[] = {
        0x80 | 2 << 3, 0x43,                    /* short: column 2 * 8 + 4, three long */
        0x80 | 11 << 3, 5, 60,                  /* the next line, columns 5 to 60 */
        0x80 | 14 << 3, 4, 3, 11, 64 | 1, 1,    /* two lines on, three long, 10 to 64 */
        0x80 | 13 << 3, 3,                      /* a line back, no columns */
        0x80 | 15 << 3,                         /* nothing */
    };
    static const int expected[][4] = {
        {20, 20, 20, 23}, {21, 21, 5, 60}, {23, 26, 10, 64}, {22, 22, -1, -1}, {0, 0, -1, -1}};

    (void)state;
    for (uint32_t i = 0; i < 5; i++) {
        struct pb_py_position p = pb_py_position_of(table, sizeof table, 20, 2 * i);
        const int found[] = {p.line, p.end_line, p.column, p.end_column};

        assert_memory_equal(found, expected[i], sizeof found);
    }
    /* Cut off anywhere it is still read within its bounds. */
    for (size_t len = 0; len < sizeof table; len++)
        pb_py_position_of(table, len, 20, 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_positions_311),
        cmocka_unit_test(test_lnotab),
        cmocka_unit_test(test_line_steps_are_unsigned_to_35),
        cmocka_unit_test(test_310),
        cmocka_unit_test(test_311),
        cmocka_unit_test(test_damaged_tables_give_no_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
