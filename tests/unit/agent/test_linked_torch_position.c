/* Numbers of steps by where the data loader stands. */
#include "agent/agent_test.h"

static int setup(void **state)
{
    *state = torch_begin(agent_begin());
    return 0;
}

static int teardown(void **state)
{
    struct pb_torch *t = *state;

    agent_end(t->self);
    return 0;
}

/* A step that ends there, of which all was seen. */
static void step(struct pb_torch *t, int64_t batches, uint32_t taken)
{
    const struct pb_torch_position p = {.batches = batches, .taken = taken, .epoch = -1,
                                        .length = -1};

    pb_torch_position_apply(t, &p, true);
}

static void by_the_loader(void **state)
{
    struct pb_torch *t = *state;

    /* The agent came in the midst of a pass: 8 batches are gone, two a step. */
    step(t, 8, 2);
    assert_int_equal(t->steps.number, 3);
    assert_int_equal(t->steps.number_source, PB_TORCH_BY_LOADER);
    step(t, 10, 2);
    assert_int_equal(t->steps.number, 4);
}

static void by_the_sampler_over_all_passes(void **state)
{
    struct pb_torch *t = *state;
    struct pb_torch_position p = {.batches = 4, .taken = 2, .epoch = 2, .length = 5};

    /* Five batches are three steps, as the last one of a pass takes what is left. */
    pb_torch_position_apply(t, &p, true);
    assert_int_equal(t->steps.number, 2 * 3 + 1);
    assert_int_equal(t->steps.number_source, PB_TORCH_BY_SAMPLER);
    p.batches = 5;
    p.taken = 1;
    pb_torch_position_apply(t, &p, true);
    assert_int_equal(t->steps.number, 2 * 3 + 2);
}

static void earlier_passes_count_where_nobody_knows_the_epoch(void **state)
{
    struct pb_torch *t = *state;
    const struct pb_torch_position p = {.batches = 1, .taken = 1, .epoch = -1, .length = -1,
                                        .steps_before = 40};

    pb_torch_position_apply(t, &p, true);
    assert_int_equal(t->steps.number, 40);
}

static void half_a_step_says_nothing(void **state)
{
    struct pb_torch *t = *state;
    const struct pb_torch_position p = {.batches = 7, .taken = 1, .epoch = -1, .length = -1};

    pb_torch_position_apply(t, &p, false);
    assert_int_equal(t->steps.number, 0);
    assert_int_equal(t->steps.number_source, PB_TORCH_BY_INJECTION);
    assert_true(pb_torch_position_wanted(t));
}

static void numbers_never_go_back(void **state)
{
    struct pb_torch *t = *state;

    step(t, 8, 2);
    step(t, 8, 2);
    assert_int_equal(t->steps.number, 3);
    assert_int_equal(t->steps.number_source, PB_TORCH_BY_INJECTION);
    assert_false(pb_torch_position_wanted(t));
    /* For good: who counts from here on must not be overtaken. */
    step(t, 100, 2);
    assert_int_equal(t->steps.number, 3);
}

static void a_step_without_a_batch(void **state)
{
    struct pb_torch *t = *state;

    /* Before any number was given it may be the first one. */
    step(t, -1, 0);
    assert_true(pb_torch_position_wanted(t));
    step(t, 2, 2);
    step(t, 2, 0);
    assert_false(pb_torch_position_wanted(t));
}

static void where_the_loader_stands(void **state)
{
    struct pb_torch *t = *state;
    struct pb_torch_loader *f = &t->loaders.list[1];
    struct pb_torch_batches b = {.batches = {[1] = 2}};

    pb_torch_position_measure(t, &b);
    assert_int_equal(b.position.batches, -1);
    /* Nine were fetched, three have had no step yet, this one takes two of those. */
    *f = (struct pb_torch_loader){.trains = true, .fetched = 9, .nsizes = 3, .length = 20,
                                  .epoch = 3, .epoch_before = 2};
    t->loaders.main = f;
    pb_torch_position_measure(t, &b);
    assert_int_equal(b.position.taken, 2);
    assert_int_equal(b.position.batches, 8);
    assert_int_equal(b.position.epoch, 3);
    assert_int_equal(b.position.length, 20);
    /* An epoch that stands still was not told by the program. */
    f->epoch_before = 3;
    pb_torch_position_measure(t, &b);
    assert_int_equal(b.position.epoch, -1);
    /* Of an evaluation, and of a loop that fetches more than is remembered, nothing. */
    f->trains = false;
    pb_torch_position_measure(t, &b);
    assert_int_equal(b.position.batches, -1);
    f->trains = true;
    f->nsizes = PB_TORCH_BATCHES_AHEAD;
    pb_torch_position_measure(t, &b);
    assert_int_equal(b.position.batches, -1);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(by_the_loader),
        T(by_the_sampler_over_all_passes),
        T(earlier_passes_count_where_nobody_knows_the_epoch),
        T(half_a_step_says_nothing),
        T(numbers_never_go_back),
        T(a_step_without_a_batch),
        T(where_the_loader_stands),
    };
#undef T

    return RUN_TESTS(tests);
}
