/* Rows in memory: cells keep what was put in, and several makers' rows can be joined. */
#include "pb_test.h"

#include <stdio.h>

#include "node/rows/rows.h"

static const struct pb_column_spec columns[] = {{"number", PB_INT, "", ""},
                                                {"real", PB_REAL, "", ""},
                                                {"flag", PB_BOOL, "", ""},
                                                {"text", PB_TEXT, "", ""}};

static void a_new_row_is_all_null(void **state)
{
    struct pb_rows r;
    struct pb_row_cell *row;

    (void)state;
    pb_rows_init(&r, columns, 4);
    row = pb_rows_add(&r);
    for (size_t i = 0; i < 4; i++)
        assert_true(row[i].null);
    pb_rows_text(&r, row, 3, NULL);
    assert_true(row[3].null);
    assert_int_equal(r.nrows, 1);
    pb_rows_finish(&r);
}

static void many_rows_stay_as_they_are(void **state)
{
    struct pb_rows a;
    char text[32];

    (void)state;
    pb_rows_init(&a, columns, 4);
    for (int i = 0; i < 500; i++) {
        struct pb_row_cell *row = pb_rows_add(&a);

        snprintf(text, sizeof text, "row %d", i);
        pb_rows_int(row, 0, i);
        pb_rows_real(row, 1, i / 2.0);
        pb_rows_bool(row, 2, i % 2);
        pb_rows_text(&a, row, 3, i % 3 ? text : NULL);
    }
    assert_int_equal(a.nrows, 500);
    for (int i = 0; i < 500; i++) {
        const struct pb_row_cell *row = a.cells + i * 4;

        snprintf(text, sizeof text, "row %d", i);
        assert_int_equal(row[0].v.i, i);
        assert_true(row[1].v.d == i / 2.0);
        assert_int_equal(row[2].v.b, i % 2);
        assert_int_equal(row[3].null, i % 3 == 0);
        if (i % 3)
            assert_string_equal(row[3].v.s, text);
    }
    pb_rows_finish(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_row_is_all_null),
        cmocka_unit_test(many_rows_stay_as_they_are),
    };

    return RUN_TESTS(tests);
}
