#include "pb_test.h"

#include "host/text/nearest.h"

static void distances(void **state)
{
    char longer[200];

    (void)state;
    assert_int_equal(pb_nearest_distance("", ""), 0);
    assert_int_equal(pb_nearest_distance("", "abc"), 3);
    assert_int_equal(pb_nearest_distance("quary", "query"), 1);
    assert_int_equal(pb_nearest_distance("lits", "list"), 1);
    assert_int_equal(pb_nearest_distance("kitten", "sitting"), 3);
    memset(longer, 'a', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(pb_nearest_distance(longer, "a"), 199);
}

static const char *nearest(const char *word)
{
    struct pb_nearest n = PB_NEAREST_INIT(word);

    pb_nearest_offer(&n, "list");
    pb_nearest_offer(&n, "backtrace");
    pb_nearest_offer(&n, "query");
    return pb_nearest_result(&n);
}

static void results(void **state)
{
    (void)state;
    assert_string_equal(nearest("quary"), "query");
    assert_string_equal(nearest("bactrase"), "backtrace");
    assert_string_equal(nearest("back"), "backtrace");
    assert_null(nearest("zzzz"));
    assert_null(nearest("x"));
    assert_null(nearest("train.py"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distances),
        cmocka_unit_test(results),
    };

    return RUN_TESTS(tests);
}
