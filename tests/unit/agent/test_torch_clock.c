/* The processor's counter as a clock: used when two looks agree, and not before. */
#include "pb_test.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/torch/clock.c"

static struct pb_torch_clock make(void)
{
    struct pb_torch_clock c = {0};

    pb_torch_clock_enter(&c);
    if (!c.has_ticks)
        skip();
    return c;
}

static void ratios_agree(void **state)
{
    (void)state;
    assert_true(pb_torch_clock_agrees(0.5, 0.5));
    assert_true(pb_torch_clock_agrees(0.5, 0.50004));
    assert_false(pb_torch_clock_agrees(0.5, 0.5006));
    assert_false(pb_torch_clock_agrees(0.5006, 0.5));
    assert_false(pb_torch_clock_agrees(0, 0));
    assert_false(pb_torch_clock_agrees(0.5, 0));
    assert_false(pb_torch_clock_agrees(-1, -1));
}

/* As if the last look had been a second ago and the counter had made so many ticks since. */
static void look_back(struct pb_torch_clock *c, uint64_t ticks)
{
    c->ticks = pb_ticks() - ticks;
    c->ticks_ns = pb_clock_ns() - UINT64_C(1000000000);
    pb_torch_clock_poll(c);
}

static void is_used_when_it_is_steady(void **state)
{
    struct pb_torch_clock c = make();
    uint64_t per_second = UINT64_C(3000000000);

    (void)state;
    pb_torch_clock_poll(&c);
    assert_true(c.ticks_ns != 0);
    pb_torch_clock_poll(&c); /* too soon */
    assert_false(c.ticks_usable);
    assert_true(c.last_ratio == 0);
    look_back(&c, per_second);
    assert_false(c.ticks_usable);
    /* The thread may lose its processor between two readings. */
    for (int i = 0; i < 10 && !c.ticks_usable; i++)
        look_back(&c, per_second);
    assert_true(c.ticks_usable);
    assert_true(c.ns_per_tick > 0.33 && c.ns_per_tick < 0.34);
    look_back(&c, per_second / 2); /* the ratio in use stays, for calls that began with it */
    assert_false(c.ticks_usable);
    look_back(&c, (uint64_t)0 - per_second); /* it went back */
    assert_false(c.ticks_usable);
    assert_true(c.ns_per_tick < 0.34);
}

static void it_goes_as_the_clock_goes(void **state)
{
    struct pb_torch_clock c = make();
    uint64_t ticks, ns;
    double took;

    (void)state;
    for (int i = 0; i < 12 && !c.ticks_usable; i++) {
        pb_torch_clock_poll(&c);
        usleep(550000);
    }
    assert_true(c.ticks_usable);
    ticks = pb_ticks();
    ns = pb_clock_ns();
    usleep(100000);
    took = (double)(pb_ticks() - ticks) * c.ns_per_tick;
    ns = pb_clock_ns() - ns;
    assert_true(took > 0.5 * (double)ns && took < 2 * (double)ns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ratios_agree),
        cmocka_unit_test(is_used_when_it_is_steady),
        cmocka_unit_test(it_goes_as_the_clock_goes),
    };

    return RUN_TESTS(tests);
}
