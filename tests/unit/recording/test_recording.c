#include "pb_test.h"

#include "recording/made.h"

static void same_again_is_one_entry(void **state)
{
    struct pb_recording r;

    (void)state;
    made_recording(&r);
    assert_int_equal(r.samples, 4);
    assert_int_equal(r.nentries, 3);
    assert_int_equal(r.entries[0].weight_ns, 20000000);
    assert_int_equal(r.entries[0].count, 2);
    pb_recording_finish(&r);
}

static void sums_of_the_tree(void **state)
{
    struct pb_recording r;
    uint64_t self[8] = {0}, total[8] = {0};

    (void)state;
    made_recording(&r);
    pb_recording_sums(&r, self, total);
    assert_int_equal(total[0], 70000000);
    assert_int_equal(total[1], 40000000); /* main */
    assert_int_equal(self[1], 0);
    assert_int_equal(self[2], 20000000);
    pb_recording_finish(&r);
}

static size_t kept(struct pb_rec_filter f)
{
    struct pb_recording r;
    size_t n;

    made_recording(&r);
    pb_recording_filter(&r, &f);
    n = r.nentries;
    pb_recording_finish(&r);
    return n;
}

static void filters(void **state)
{
    regex_t re;

    (void)state;
    assert_int_equal(kept((struct pb_rec_filter){0}), 2); /* the pool never ran */
    assert_int_equal(kept((struct pb_rec_filter){.idle = true}), 3);
    assert_int_equal(kept((struct pb_rec_filter){.cpu = true}), 1);
    assert_int_equal(kept((struct pb_rec_filter){.gil = true}), 1);
    assert_int_equal(regcomp(&re, "^pool|^42$", REG_EXTENDED | REG_NOSUB), 0);
    assert_int_equal(kept((struct pb_rec_filter){.threads = &re, .idle = true}), 3);
    regfree(&re);
    assert_int_equal(regcomp(&re, "pool", REG_EXTENDED | REG_NOSUB), 0);
    assert_int_equal(kept((struct pb_rec_filter){.threads = &re}), 1); /* nothing else is there */
    regfree(&re);
}

static void leaves_are_joined(void **state)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_rec_leaf *v;
    struct pb_recording r;

    (void)state;
    made_recording(&r);
    made_add(&r, 0, 2, 40000000, 5000000, PB_RUNNING);
    assert_int_equal(pb_recording_leaves(&r, &a, &v), 3);
    assert_int_equal(v[0].node, 2);
    assert_int_equal(v[0].weight_ns, 25000000);
    assert_int_equal(v[0].count, 3);
    pb_arena_finish(&a);
    pb_recording_finish(&r);
}

static void a_full_one_says_so(void **state)
{
    struct pb_recording r;

    (void)state;
    made_recording(&r);
    for (uint32_t i = 0; i < PB_RECORDING_MAX; i++)
        made_add(&r, 0, 2 + i % 2, i, 1, PB_RUNNING);
    assert_int_equal(r.nentries, PB_RECORDING_MAX);
    assert_true(r.full);
    pb_recording_clear(&r);
    assert_false(r.full);
    made_add(&r, 0, 2, 0, 1, PB_RUNNING);
    assert_int_equal(r.nentries, 1);
    pb_recording_finish(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_again_is_one_entry),
        cmocka_unit_test(sums_of_the_tree),
        cmocka_unit_test(filters),
        cmocka_unit_test(leaves_are_joined),
        cmocka_unit_test(a_full_one_says_so),
    };

    return RUN_TESTS(tests);
}
