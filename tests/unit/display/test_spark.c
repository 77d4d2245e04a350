/* Bars and amounts. */
#include "pb_test.h"

#include <math.h>

#include "display/spark.h"

static void assert_bars(const double *v, size_t n, const char *expected)
{
    struct pb_buf b = PB_BUF_INIT;

    pb_spark(&b, v, n);
    assert_string_equal(b.data, expected);
    pb_buf_finish(&b);
}

static void test_bars(void **state)
{
    (void)state;
    assert_bars((double[]){1, 2, 3, 8}, 4, "▁▂▃█");
    assert_bars((double[]){100, 50, NAN, 75}, 4, "█▁ ▄");
    assert_bars((double[]){100, 100.5, 101}, 3, "▄▄▄"); /* noise */
    assert_bars((double[]){0, 0}, 2, "▁▁");
    assert_bars((double[]){NAN, NAN}, 2, "  ");
}

static void assert_amount(double mb, const char *expected)
{
    char text[16];

    pb_megabytes(text, mb);
    assert_string_equal(text, expected);
}

static void test_amounts(void **state)
{
    (void)state;
    assert_amount(0.04, "0.0 MB");
    assert_amount(3.44, "3.4 MB");
    assert_amount(812.3, "812 MB");
    assert_amount(2468, "2.41 GB");
    assert_amount(3.5 * 1024 * 1024, "3.50 TB");
    assert_amount(NAN, "");
    assert_amount(1e300, "1e+300 MB");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bars),
        cmocka_unit_test(test_amounts),
    };

    return RUN_TESTS(tests);
}
