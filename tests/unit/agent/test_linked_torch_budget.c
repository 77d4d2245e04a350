/* Which steps are traced by module, and in which backward is split, by what that costs. */
#include "agent/agent_test.h"

#define MS 1000000u
#define STEP_NS (10 * MS)
#define ROWS 100

static struct pb_grad *grad;

static int setup(void **state)
{
    struct pb_torch *t = torch_begin(agent_begin());

    grad = pb_grad_state(t->self);
    t->budget.period = 1;
    *state = t;
    return 0;
}

static int teardown(void **state)
{
    struct pb_torch *t = *state;

    agent_end(t->self);
    return 0;
}

/* Steps whose calls cost so much, of our own time; how many of them were traced. */
static unsigned steps(struct pb_torch *t, unsigned n, uint32_t own_ns)
{
    unsigned traced = 0;

    for (unsigned i = 0; i < n; i++) {
        traced += t->tracing;
        t->steps.sums = (struct pb_torch_sums){.own_ns = t->tracing ? own_ns : 0,
                                               .rows = t->tracing ? ROWS : 0};
        t->steps.number++;
        pb_torch_budget_next_step(t, STEP_NS);
    }
    return traced;
}

static void what_costs_little_is_traced_at_every_step(void **state)
{
    struct pb_torch *t = *state;

    steps(t, 1, 0);
    assert_int_equal(steps(t, 1000, STEP_NS / 1000), 1000);
    assert_int_equal(t->budget.period, 1);
}

static void what_costs_much_is_traced_as_often_as_the_budget_allows(void **state)
{
    struct pb_torch *t = *state;
    unsigned traced;

    steps(t, 2000, STEP_NS / 20);
    traced = steps(t, 4096, STEP_NS / 20);
    /* 5 % a step within 0.7 of one per cent: one in 8. */
    assert_int_equal(t->budget.period, 8);
    assert_int_equal(traced, 4096 / 8);
    /* And all of them again when it costs little. */
    steps(t, 2000, STEP_NS / 1000);
    assert_int_equal(t->budget.period, 1);
}

static void one_slow_step_changes_nothing(void **state)
{
    struct pb_torch *t = *state;

    steps(t, 200, STEP_NS / 1000);
    steps(t, 1, 5 * STEP_NS);
    assert_int_equal(t->budget.period, 1);
    assert_int_equal(steps(t, 100, STEP_NS / 1000), 100);
}

/* A traced step in which backward was split at that cost; in how many it is from then on. */
static uint32_t split(struct pb_torch *t, uint32_t cost_ns)
{
    t->tracing = t->splitting = true;
    grad->state = 1;
    grad->cost_ns = cost_ns;
    pb_grad_choose(t, 0, STEP_NS);
    return grad->every;
}

static void backward_becomes_rare_by_and_by(void **state)
{
    struct pb_torch *t = *state;

    assert_int_equal(split(t, 1000), 1);
    /* Half a step is 1,000 times what it may cost: of one figure a part is believed. */
    assert_int_equal(split(t, STEP_NS / 2), 4);
    assert_int_equal(split(t, STEP_NS / 2), 16);
    for (int i = 0; i < 10; i++)
        split(t, STEP_NS / 2);
    assert_int_equal(grad->every, 1024);
    /* Back at once. */
    assert_int_equal(split(t, 1000), 1);
    assert_true(t->splitting);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(what_costs_little_is_traced_at_every_step),
        T(what_costs_much_is_traced_as_often_as_the_budget_allows),
        T(one_slow_step_changes_nothing),
        T(backward_becomes_rare_by_and_by),
    };
#undef T

    return RUN_TESTS(tests);
}
