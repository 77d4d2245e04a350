#include "pb_test.h"

#include "recording/fold.h"

#define MS 1000000ull

struct out {
    struct pb_fold_row rows[512];
    size_t n;
};

static void keep(void *arg, const struct pb_fold_row *row)
{
    struct out *o = arg;

    assert_true(o->n < 512);
    o->rows[o->n++] = *row;
}

static const struct pb_fold_mark unknown = {-1, 0, 0};

static void put(struct pb_fold *f, uint32_t thread, uint32_t node, uint64_t at_ms)
{
    struct pb_rec_sample s = {.at_ns = at_ms * MS, .weight_ns = 10 * MS, .thread = thread,
                              .node = node, .count = 1};

    pb_fold_add(f, &s, &unknown);
}

static uint64_t weight_of(const struct out *o)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < o->n; i++)
        sum += o->rows[i].weight_ns;
    return sum;
}

static void a_bucket_is_one_row_for_each_stack(void **state)
{
    struct out o = {.n = 0};
    struct pb_fold f;

    (void)state;
    pb_fold_init(&f);
    for (uint64_t i = 0; i < 100; i++) {
        put(&f, 0, 1 + i % 3, 5000 + i * 10);
        pb_fold_flush(&f, (5000 + i * 10) * MS, false, keep, &o);
    }
    assert_int_equal(o.n, 0); /* not a second yet */
    pb_fold_flush(&f, 6000 * MS, false, keep, &o);
    assert_int_equal(o.n, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(o.rows[i].begin_ns, 5000 * MS);
        assert_int_equal(o.rows[i].count, i ? 33 : 34);
        assert_int_equal(o.rows[i].weight_ns, (i ? 330 : 340) * MS);
    }
    pb_fold_finish(&f);
}

static void one_that_waits_has_few_rows(void **state)
{
    uint64_t seconds[] = {1, 2, 4, 8, 16, 32, 60, 60}, at = 0;
    struct out o = {.n = 0};
    struct pb_fold f;
    size_t n = 0;

    (void)state;
    pb_fold_init(&f);
    for (uint64_t i = 0; i < 19000; i++) { /* three minutes; another thread is busy */
        put(&f, 0, 7, 1000 + i * 10);
        put(&f, 1, 1 + i % 5, 1000 + i * 10);
        pb_fold_flush(&f, (1010 + i * 10) * MS, false, keep, &o);
        for (size_t k = 0; k < o.n; k++) {
            if (o.rows[k].thread == 1)
                continue;
            assert_true(n < 8);
            assert_int_equal(o.rows[k].weight_ns, seconds[n] * 1000 * MS);
            assert_int_equal(o.rows[k].begin_ns, (1000 + at * 1000) * MS);
            at += seconds[n++];
        }
        o.n = 0;
    }
    assert_int_equal(n, 8);
    put(&f, 0, 8, 191000); /* something else: rows come soon again */
    pb_fold_flush(&f, 192000 * MS, false, keep, &o);
    assert_int_equal(o.n, 2);
    pb_fold_flush(&f, 192000 * MS, true, keep, &o);
    assert_int_equal(f.nrows, 0);
    pb_fold_finish(&f);
}

static void time_is_neither_lost_nor_doubled(void **state)
{
    struct out o = {.n = 0};
    struct pb_fold f;

    (void)state;
    pb_fold_init(&f);
    for (uint64_t i = 0; i < 500; i++) {
        put(&f, 0, (uint32_t)(i / 130), i * 10);
        pb_fold_flush(&f, i * 10 * MS, false, keep, &o);
    }
    pb_fold_flush(&f, 5000 * MS, true, keep, &o);
    assert_int_equal(weight_of(&o), 5000 * MS);
    pb_fold_finish(&f);
}

static void who_does_much_has_longer_buckets(void **state)
{
    struct out o = {.n = 0};
    struct pb_fold f;
    uint64_t at = 0;

    (void)state;
    pb_fold_init(&f);
    for (; at < 30000 && !o.n; at++) { /* 1,000 different stacks at 1 kHz */
        put(&f, 0, (uint32_t)(at * 7919 % 250), at);
        pb_fold_flush(&f, at * MS, false, keep, &o);
    }
    assert_in_range(at, 3800, 4100); /* 250 rows are 64 a second then */
    assert_int_equal(o.n, 250);
    pb_fold_finish(&f);
}

static void long_steps_have_rows_of_their_own(void **state)
{
    struct out o = {.n = 0};
    struct pb_fold f;

    (void)state;
    pb_fold_init(&f);
    for (uint64_t i = 0; i < 1300; i++) {
        struct pb_rec_sample s = {.at_ns = (i + 1) * 10 * MS, .weight_ns = 10 * MS,
                                  .node = 1 + i % 2};
        struct pb_fold_mark mark = {(int64_t)(i / 130), 1 + (uint32_t)(i % 2), 0};

        pb_fold_flush(&f, s.at_ns, false, keep, &o);
        pb_fold_add(&f, &s, &mark);
    }
    pb_fold_flush(&f, 13010 * MS, true, keep, &o);
    for (size_t i = 0; i < o.n; i++) {
        uint64_t first = (uint64_t)o.rows[i].step * 1300 * MS + 10 * MS;

        assert_true(o.rows[i].begin_ns >= first);
        assert_true(o.rows[i].begin_ns + 2 * o.rows[i].weight_ns <= first + 1320 * MS);
        assert_int_equal(o.rows[i].phase, o.rows[i].node);
    }
    assert_true(o.n >= 20);
    assert_int_equal(weight_of(&o), 13000 * MS);
    pb_fold_finish(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bucket_is_one_row_for_each_stack),
        cmocka_unit_test(one_that_waits_has_few_rows),
        cmocka_unit_test(time_is_neither_lost_nor_doubled),
        cmocka_unit_test(who_does_much_has_longer_buckets),
        cmocka_unit_test(long_steps_have_rows_of_their_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
