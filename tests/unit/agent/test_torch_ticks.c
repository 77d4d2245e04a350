/* The processor's counter as a clock: believed when two looks agree, and not before. */
#include "pb_test.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/collect/torch/ticks.c"

static struct pb_torch *make(void)
{
    struct pb_torch *t = aligned_alloc(_Alignof(struct pb_torch), sizeof *t);

    assert_non_null(t);
    memset(t, 0, sizeof *t);
    pb_torch_ticks_enter(t);
    if (!t->may_tick) {
        free(t);
        skip();
    }
    return t;
}

static void ratios_agree(void **state)
{
    (void)state;
    assert_true(pb_torch_ticks_agree(0.5, 0.5));
    assert_true(pb_torch_ticks_agree(0.5, 0.50004));
    assert_false(pb_torch_ticks_agree(0.5, 0.5006));
    assert_false(pb_torch_ticks_agree(0.5006, 0.5));
    assert_false(pb_torch_ticks_agree(0, 0));
    assert_false(pb_torch_ticks_agree(0.5, 0));
    assert_false(pb_torch_ticks_agree(-1, -1));
}

/* As if the last look had been a second ago and the counter had made so many ticks since. */
static void look_back(struct pb_torch *t, uint64_t ticks)
{
    t->ticks = pb_ticks() - ticks;
    t->ticks_ns = pb_clock_ns() - UINT64_C(1000000000);
    pb_torch_ticks_look(t);
}

static void is_believed_when_it_is_steady(void **state)
{
    struct pb_torch *t = make();
    uint64_t per_second = UINT64_C(3000000000);

    (void)state;
    pb_torch_ticks_look(t);
    assert_true(t->ticks_ns != 0);
    pb_torch_ticks_look(t); /* too soon */
    assert_false(t->ticking);
    assert_true(t->ratio_seen == 0);
    look_back(t, per_second);
    assert_false(t->ticking);
    /* The thread may lose its processor between two readings. */
    for (int i = 0; i < 10 && !t->ticking; i++)
        look_back(t, per_second);
    assert_true(t->ticking);
    assert_true(t->ns_per_tick > 0.33 && t->ns_per_tick < 0.34);
    look_back(t, per_second / 2); /* what was believed stays, for calls that began with it */
    assert_false(t->ticking);
    look_back(t, (uint64_t)0 - per_second); /* it went back */
    assert_false(t->ticking);
    assert_true(t->ns_per_tick < 0.34);
    free(t);
}

static void it_goes_as_the_clock_goes(void **state)
{
    struct pb_torch *t = make();
    uint64_t ticks, ns;
    double took;

    (void)state;
    for (int i = 0; i < 12 && !t->ticking; i++) {
        pb_torch_ticks_look(t);
        usleep(550000);
    }
    assert_true(t->ticking);
    ticks = pb_ticks();
    ns = pb_clock_ns();
    usleep(100000);
    took = (double)(pb_ticks() - ticks) * t->ns_per_tick;
    ns = pb_clock_ns() - ns;
    assert_true(took > 0.5 * (double)ns && took < 2 * (double)ns);
    free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ratios_agree),
        cmocka_unit_test(is_believed_when_it_is_steady),
        cmocka_unit_test(it_goes_as_the_clock_goes),
    };

    return RUN_TESTS(tests);
}
