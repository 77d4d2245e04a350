/*
 * Which steps are traced by module, and in which backward is told apart, by what that costs.
 * The agent is no layer that tests link to: its files are taken in, and what they call is here.
 */
#include "pb_test.h"

#include <stdlib.h>

#include "agent/collect/torch/brake.c"
#include "agent/collect/torch/grad_pass.c"

#define MS 1000000u
#define STEP_NS (10 * MS)
#define ROWS 100

static struct pb_self self;
static struct pb_grad *grad;

struct pb_self *pb_self(void)
{
    return &self;
}

struct pb_grad *pb_grad_state(struct pb_self *s)
{
    (void)s;
    return grad;
}

void pb_collect_say(struct pb_self *s, const char *name, const char *state, const char *reason)
{
    (void)s;
    (void)name;
    (void)state;
    (void)reason;
}

struct pb_torch *pb_torch_state(struct pb_self *s)
{
    static struct pb_torch none;

    (void)s;
    return &none;
}

const char *pb_ring_text(const struct pb_ring *r, uint32_t name, size_t *ret_len)
{
    (void)r;
    (void)name;
    *ret_len = 0;
    return NULL;
}

uint32_t pb_torch_name(struct pb_torch *t, const char *s, size_t len)
{
    (void)t;
    (void)s;
    (void)len;
    return 0;
}

struct pb_torch_thread *pb_torch_thread(struct pb_torch *t)
{
    return &t->threads[0];
}

void pb_torch_put(struct pb_torch *t, struct pb_torch_row *row)
{
    (void)t;
    (void)row;
}

void pb_torch_hold(struct pb_torch *t, struct pb_torch_row *row, void *from, void *to,
                   uint32_t *others)
{
    (void)t;
    (void)row;
    (void)from;
    (void)to;
    (void)others;
}

void pb_grad_gpu_begins(struct pb_torch *t, struct pb_grad *g)
{
    (void)t;
    (void)g;
}

void pb_grad_gpu_note(struct pb_grad *g, struct pb_grad_node *node)
{
    (void)g;
    (void)node;
}

void pb_grad_gpu_ends(struct pb_torch *t, struct pb_grad *g)
{
    (void)t;
    (void)g;
}

static int setup(void **state)
{
    struct pb_torch *t = aligned_alloc(_Alignof(struct pb_torch), sizeof *t);

    memset(t, 0, sizeof *t);
    grad = calloc(1, sizeof *grad);
    t->self = &self;
    for (size_t i = 0; i < PB_SETTING_COUNT; i++)
        self.settings.v[i] = pb_setting_list[i].otherwise;
    t->period = 1;
    *state = t;
    return 0;
}

static int teardown(void **state)
{
    free(*state);
    free(grad);
    return 0;
}

/* Steps whose calls cost so much, of our own time; how many of them were traced. */
static unsigned steps(struct pb_torch *t, unsigned n, uint32_t own_ns)
{
    unsigned traced = 0;

    for (unsigned i = 0; i < n; i++) {
        traced += t->tracing;
        t->sums = (struct pb_torch_sums){.own_ns = t->tracing ? own_ns : 0,
                                         .rows = t->tracing ? ROWS : 0};
        t->step++;
        pb_torch_choose_next(t, STEP_NS);
    }
    return traced;
}

static void test_what_costs_little_is_traced_at_every_step(void **state)
{
    struct pb_torch *t = *state;

    steps(t, 1, 0);
    assert_int_equal(steps(t, 1000, STEP_NS / 1000), 1000);
    assert_int_equal(t->period, 1);
}

static void test_what_costs_much_is_traced_as_often_as_the_budget_allows(void **state)
{
    struct pb_torch *t = *state;
    unsigned traced;

    steps(t, 2000, STEP_NS / 20);
    traced = steps(t, 4096, STEP_NS / 20);
    /* 5 % a step within 0.7 of one per cent: one in 8. */
    assert_int_equal(t->period, 8);
    assert_int_equal(traced, 4096 / 8);
    /* And all of them again when it costs little. */
    steps(t, 2000, STEP_NS / 1000);
    assert_int_equal(t->period, 1);
}

static void test_one_slow_step_changes_nothing(void **state)
{
    struct pb_torch *t = *state;

    steps(t, 200, STEP_NS / 1000);
    steps(t, 1, 5 * STEP_NS);
    assert_int_equal(t->period, 1);
    assert_int_equal(steps(t, 100, STEP_NS / 1000), 100);
}

/* A traced step in which backward was told apart at that cost; in how many it is from then on. */
static uint32_t told_apart(struct pb_torch *t, uint32_t cost_ns)
{
    t->tracing = t->ranging = true;
    grad->state = 1;
    grad->cost_ns = cost_ns;
    pb_grad_choose(t, 0, STEP_NS);
    return grad->every;
}

static void test_backward_becomes_rare_by_and_by(void **state)
{
    struct pb_torch *t = *state;

    assert_int_equal(told_apart(t, 1000), 1);
    /* Half a step is 1,000 times what it may cost: of one figure a part is believed. */
    assert_int_equal(told_apart(t, STEP_NS / 2), 4);
    assert_int_equal(told_apart(t, STEP_NS / 2), 16);
    for (int i = 0; i < 10; i++)
        told_apart(t, STEP_NS / 2);
    assert_int_equal(grad->every, 1024);
    /* Back at once. */
    assert_int_equal(told_apart(t, 1000), 1);
    assert_true(t->ranging);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_what_costs_little_is_traced_at_every_step),
        T(test_what_costs_much_is_traced_as_often_as_the_budget_allows),
        T(test_one_slow_step_changes_nothing),
        T(test_backward_becomes_rare_by_and_by),
    };
#undef T

    return RUN_TESTS(tests);
}
