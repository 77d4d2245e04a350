/* Which blocks are sampled, what they stand for, and what is left when they are freed. */
#include "pb_test.h"

#include <stdio.h>

#include "agent/collectors/alloc/chance.c"
#include "agent/collectors/alloc/live.c"

/* The stack that the next sample has. */
static struct pb_walk_frame stack[2];

size_t pb_walk(const struct pb_walker *w, struct pb_walk_frame *frames, size_t max, bool *ret_more)
{
    (void)w;
    assert_true(max >= 2);
    memcpy(frames, stack, sizeof stack);
    *ret_more = false;
    return 2;
}

bool pb_walk_function(const struct pb_walker *w, const struct pb_walk_frame *f,
                      struct pb_walk_text *ret)
{
    (void)w;
    ret->len = (size_t)snprintf(ret->text, sizeof ret->text, "f%llu",
                                (unsigned long long)f->code);
    return true;
}

bool pb_walk_file(const struct pb_walker *w, const struct pb_walk_frame *f,
                  struct pb_walk_text *ret)
{
    (void)w;
    (void)f;
    ret->len = (size_t)snprintf(ret->text, sizeof ret->text, "file.py");
    return true;
}

int pb_walk_line(const struct pb_walker *w, const struct pb_walk_frame *f)
{
    (void)w;
    return (int)f->offset / 10; /* several instructions a line */
}

static void set_stack(uint64_t function, int64_t offset)
{
    stack[0] = (struct pb_walk_frame){.code = (uintptr_t)function, .offset = offset};
    stack[1] = (struct pb_walk_frame){.code = 99, .offset = 50};
}

static void test_distances_are_exponential(void **state)
{
    uint64_t random = 12345;
    double sum = 0, n = 200000;
    int beyond = 0;

    (void)state;
    for (int i = 0; i < (int)n; i++) {
        int64_t d = pb_chance_distance(&random, 524288);

        assert_true(d >= 1);
        sum += (double)d;
        beyond += d > 2 * 524288;
    }
    assert_true(sum / n > 524288 * 0.99 && sum / n < 524288 * 1.01);
    /* exp(-2) of them are farther than twice the mean */
    assert_true(beyond / n > 0.1353 * 0.98 && beyond / n < 0.1353 * 1.02);
}

static void test_chance_of_a_block(void **state)
{
    (void)state;
    assert_true(pb_chance_of(1, 1e6) > 0.9999994e-6 && pb_chance_of(1, 1e6) < 1e-6);
    assert_true(pb_chance_of(1000000, 1e6) > 0.632120 && pb_chance_of(1000000, 1e6) < 0.632121);
    assert_true(pb_chance_of(5000000, 1e6) > 0.993262 && pb_chance_of(5000000, 1e6) < 0.993263);
    assert_true(pb_chance_of(UINT64_MAX, 1e6) == 1);
    assert_true(pb_chance_sqrt(0) == 0);
    assert_true(pb_chance_sqrt(2) > 1.414213 && pb_chance_sqrt(2) < 1.414214);
    assert_true(pb_chance_sqrt(1e24) > 0.999999e12 && pb_chance_sqrt(1e24) < 1.000001e12);
}

static struct pb_live *make(double every)
{
    static struct pb_live l;

    if (l.blocks)
        pb_live_clear(&l);
    assert_true(pb_live_prepare(&l));
    l.every = every;
    return &l;
}

static const struct pb_live_site *only_site(const struct pb_live *l)
{
    const struct pb_live_site *found = NULL;

    for (int i = 0; i < PB_LIVE_SITES; i++) {
        if (!l->sites[i].alloc_bytes)
            continue;
        assert_null(found);
        found = &l->sites[i];
    }
    assert_non_null(found);
    return found;
}

static void test_blocks_come_and_go(void **state)
{
    struct pb_live *l = make(1000);
    const struct pb_live_site *s;

    (void)state;
    set_stack(1, 10);
    for (uintptr_t i = 1; i <= 5000; i++)
        pb_live_add(l, NULL, (void *)(i * 16), 100000);
    s = only_site(l);
    assert_true(s->live_bytes == 5000.0 * 100000 && s->samples == 5000 && s->live_variance == 0);
    for (uintptr_t i = 1; i <= 5000; i++)
        assert_true(pb_live_may_have(l, (void *)(i * 16)));
    for (uintptr_t i = 1; i <= 5000; i += 2)
        pb_live_remove(l, (void *)(i * 16));
    assert_true(s->live_bytes == 2500.0 * 100000);
    pb_live_remove(l, (void *)(uintptr_t)16); /* a second time */
    assert_true(s->samples == 2500);
    /* Freed by somebody who is not seen, and given out again. */
    pb_live_add(l, NULL, (void *)(uintptr_t)32, 100000);
    assert_int_equal(s->samples, 2500);
    for (uintptr_t i = 2; i <= 5000; i += 2)
        pb_live_remove(l, (void *)(i * 16));
    assert_true(s->live_bytes == 0 && s->alloc_bytes == 5001.0 * 100000 && l->nblocks == 0);
    for (int i = 0; i < PB_LIVE_FILTER; i++)
        assert_int_equal(l->filter[i], 0);
}

static void test_instructions_of_one_line_are_one_site(void **state)
{
    struct pb_live *l = make(1000);
    uint32_t frames;

    (void)state;
    set_stack(7, 10);
    pb_live_add(l, NULL, (void *)(uintptr_t)16, 50000);
    frames = l->nframes;
    set_stack(7, 14); /* the same line */
    pb_live_add(l, NULL, (void *)(uintptr_t)32, 50000);
    pb_live_add(l, NULL, (void *)(uintptr_t)48, 50000);
    assert_true(only_site(l)->live_bytes == 150000);
    assert_int_equal(l->nframes, frames);
    set_stack(7, 20); /* the next one */
    pb_live_add(l, NULL, (void *)(uintptr_t)64, 50000);
    assert_int_equal(l->nframes, frames + 2);
}

/* Full tables make samples rarer; estimates stay what they were, within their error. */
static void test_thinning_keeps_the_estimate(void **state)
{
    struct pb_live *l = make(4096);
    const struct pb_live_site *s;
    uint64_t random = 4711;
    double truth;
    int n = 3 * PB_LIVE_BLOCKS;

    (void)state;
    set_stack(1, 10);
    for (int i = 1; i <= n; i++)
        if (pb_chance_uniform(&random) < pb_chance_of(65536, l->every))
            pb_live_add(l, NULL, (void *)((uintptr_t)i * 32), 65536);
    s = only_site(l);
    truth = 65536.0 * n;
    assert_true(l->every > 4096 && l->nblocks < PB_LIVE_BLOCKS);
    assert_true(s->live_bytes > 0.97 * truth && s->live_bytes < 1.03 * truth);
    assert_true(pb_chance_sqrt(s->live_variance) < 0.02 * truth);
    for (int i = 1; i <= n; i++)
        pb_live_remove(l, (void *)((uintptr_t)i * 32));
    assert_true(s->live_bytes == 0 && l->nblocks == 0);
}

/* More stacks than there is room for are counted together. */
static void test_too_many_stacks(void **state)
{
    struct pb_live *l = make(1000);
    double sum = 0;

    (void)state;
    for (uint64_t i = 1; i <= 3 * PB_LIVE_SITES; i++) {
        set_stack(i * 16, 10);
        pb_live_add(l, NULL, (void *)(uintptr_t)(i * 64), 50000);
    }
    for (int i = 0; i < PB_LIVE_SITES; i++)
        sum += l->sites[i].live_bytes;
    assert_true(sum == 3.0 * PB_LIVE_SITES * 50000);
    assert_true(l->sites[0].live_bytes > PB_LIVE_SITES * 50000.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_distances_are_exponential),
        cmocka_unit_test(test_chance_of_a_block),
        cmocka_unit_test(test_blocks_come_and_go),
        cmocka_unit_test(test_instructions_of_one_line_are_one_site),
        cmocka_unit_test(test_thinning_keeps_the_estimate),
        cmocka_unit_test(test_too_many_stacks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
