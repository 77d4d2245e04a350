/* Sets of ranks: added in any order, read and written. */
#include "pb_test.h"

#include <stdlib.h>

#include "cluster/ranges.h"

static const char *shown(const struct pb_ranges *r)
{
    static char text[4096];
    struct pb_buf b = PB_BUF_INIT;

    pb_ranges_text(r, &b);
    strcpy(text, b.data ? b.data : "");
    pb_buf_finish(&b);
    return text;
}

static void test_text(void **state)
{
    static const char *const good[][2] = {
        {"17", "17"}, {"0-7", "0-7"}, {"9,0-7", "0-7,9"}, {"0,1,2,4", "0-2,4"},
        {"5-6,0-9", "0-9"}, {"3,3,3", "3"}, {"0-511,513-1023", "0-511,513-1023"}};
    static const char *const bad[] = {"", "a", "1-", "-1", "7-3", "1,,2", "1,", "1 2",
                                      "99999999999", "0-100000001"};

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct pb_ranges r = {0};

        assert_int_equal(pb_ranges_parse(&r, good[i][0], NULL), 0);
        assert_string_equal(shown(&r), good[i][1]);
        pb_ranges_finish(&r);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct pb_ranges r = {0};

        assert_int_equal(pb_ranges_parse(&r, bad[i], NULL), -1);
        pb_ranges_finish(&r);
    }
}

static bool has(const struct pb_ranges *r, uint32_t value)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->v[i].first <= value && value <= r->v[i].last)
            return true;
    return false;
}

/* Against a plain array, in random order. */
static void test_random(void **state)
{
    (void)state;
    srand(7);
    for (int round = 0; round < 200; round++) {
        struct pb_ranges r = {0};
        bool in[200] = {false};
        uint64_t count = 0;

        for (int i = 0; i < 30; i++) {
            uint32_t first = (uint32_t)rand() % 190, last = first + (uint32_t)rand() % 9;

            assert_true(pb_ranges_add(&r, first, last));
            for (uint32_t k = first; k <= last; k++)
                in[k] = true;
        }
        for (uint32_t k = 0; k < 200; k++) {
            assert_int_equal(has(&r, k), in[k]);
            count += in[k];
        }
        assert_int_equal(pb_ranges_count(&r), count);
        for (size_t i = 1; i < r.n; i++)
            assert_true(r.v[i].first > r.v[i - 1].last + 1);
        pb_ranges_finish(&r);
    }
}

static void fill_at_random(struct pb_ranges *r, bool in[200], int pieces)
{
    for (int i = 0; i < pieces; i++) {
        uint32_t first = (uint32_t)rand() % 190, last = first + (uint32_t)rand() % 9;

        assert_true(pb_ranges_add(r, first, last));
        for (uint32_t k = first; k <= last; k++)
            in[k] = true;
    }
}

static void test_without(void **state)
{
    (void)state;
    srand(11);
    for (int round = 0; round < 200; round++) {
        struct pb_ranges a = {0}, b = {0}, rest = {0};
        bool in_a[200] = {false}, in_b[200] = {false};

        fill_at_random(&a, in_a, rand() % 20);
        fill_at_random(&b, in_b, rand() % 20);
        pb_ranges_without(&a, &b, &rest);
        for (uint32_t k = 0; k < 200; k++)
            assert_int_equal(has(&rest, k), in_a[k] && !in_b[k]);
        pb_ranges_finish(&a);
        pb_ranges_finish(&b);
        pb_ranges_finish(&rest);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_text), cmocka_unit_test(test_random),
                                       cmocka_unit_test(test_without)};

    return RUN_TESTS(tests);
}
