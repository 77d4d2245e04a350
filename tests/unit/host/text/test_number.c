#include "pb_test.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "host/text/number.h"

static void check(double v, bool is_single, char format, const char *expected)
{
    char text[PB_NUMBER_TEXT];

    pb_number_shortest(v, is_single, format, text);
    assert_string_equal(text, expected);
}

static void known(void **state)
{
    (void)state;
    check(0.1, false, 'g', "0.1");
    check(0.1, false, 'e', "1e-01");
    check(12.5, false, 'e', "1.25e+01");
    check(0.1 + 0.2, false, 'g', "0.30000000000000004");
    check(5e-324, false, 'e', "5e-324");
    check(1.7976931348623157e308, false, 'g', "1.7976931348623157e+308");
    check((double)1e-45f, true, 'g', "1e-45");
    check((double)0.1f, true, 'g', "0.1");
    check((double)16777216.0f, true, 'e', "1.6777216e+07");
    check(-0.0, false, 'e', "-0e+00");
}

/* Reads back as the same, and no text that is a digit shorter does. */
static void any(void **state)
{
    uint64_t bits = 88172645463325252u;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        char text[PB_NUMBER_TEXT], shorter[PB_NUMBER_TEXT];
        size_t digits = 0;
        double v;

        bits ^= bits << 13, bits ^= bits >> 7, bits ^= bits << 17;
        memcpy(&v, &bits, sizeof v);
        if (!isfinite(v) || fabs(v) < 1e-300)
            continue;
        pb_number_shortest(v, false, 'e', text);
        assert_true(strtod(text, NULL) == v);
        for (const char *p = text; *p != 'e'; p++)
            digits += *p >= '0' && *p <= '9';
        if (digits < 2)
            continue;
        snprintf(shorter, sizeof shorter, "%.*e", (int)digits - 2, v);
        assert_false(strtod(shorter, NULL) == v);
    }
}

static void plural(void **state)
{
    (void)state;
    assert_string_equal(pb_plural(0, "s"), "s");
    assert_string_equal(pb_plural(1, "s"), "");
    assert_string_equal(pb_plural(2, "es"), "es");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known),
        cmocka_unit_test(any),
        cmocka_unit_test(plural),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
