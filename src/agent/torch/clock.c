#include "agent/torch/clock.h"

#include "agent/arch/ticks.h"
#include "base/clock.h"

/* Time between two looks at the clocks that tell their ratio. */
#define APART_NS UINT64_C(500000000)
/* Longest time that the readings of one look may take. */
#define LOOK_NS 2000
#define TRIES 4
/* On a virtual machine the host may have to be asked for each tick; then the clock is quicker. */
#define QUICK_NS 40
#define READINGS 64
/* Two ratios that differ by more are not used. */
#define DIFFERENCE 1e-4
/* The same for the wall clock. */
#define WALL_APART_NS 10000000u
#define WALL_LOOK_NS 20000u

/* Both clocks at the same time; false when the thread lost its processor in between. */
static bool read_both(uint64_t *ret_ticks, uint64_t *ret_ns)
{
    for (int i = 0; i < TRIES; i++) {
        uint64_t before = pb_clock_ns(), ticks = pb_ticks(), after = pb_clock_ns();

        if (after - before > LOOK_NS)
            continue;
        *ret_ticks = ticks;
        *ret_ns = before + (after - before) / 2;
        return true;
    }
    return false;
}

static bool is_quick(void)
{
    for (int i = 0; i < TRIES; i++) {
        uint64_t began = pb_clock_ns(), sum = 0;

        for (int k = 0; k < READINGS; k++)
            sum += pb_ticks();
        if (sum && pb_clock_ns() - began < READINGS * QUICK_NS)
            return true;
    }
    return false;
}

bool pb_torch_clock_agrees(double ratio, double other)
{
    return ratio > 0 && other > 0 && ratio < other * (1 + DIFFERENCE) &&
           other < ratio * (1 + DIFFERENCE);
}

void pb_torch_clock_enter(struct pb_torch_clock *c)
{
    c->has_ticks = pb_ticks_steady() && is_quick();
    c->ticks_usable = false;
    c->ticks_ns = 0;
    c->last_ratio = 0;
    c->wall_offset_ns = pb_clock_wall_ns() - (int64_t)pb_clock_ns();
}

void pb_torch_clock_poll(struct pb_torch_clock *c)
{
    uint64_t ticks, ns;
    double ratio;

    if (!c->has_ticks || !read_both(&ticks, &ns))
        return;
    if (!c->ticks_ns || ns - c->ticks_ns < APART_NS) {
        if (!c->ticks_ns) {
            c->ticks = ticks;
            c->ticks_ns = ns;
        }
        return;
    }
    ratio = ticks > c->ticks ? (double)(ns - c->ticks_ns) / (double)(ticks - c->ticks) : 0;
    c->ticks_usable = pb_torch_clock_agrees(ratio, c->last_ratio);
    if (c->ticks_usable)
        c->ns_per_tick = ratio;
    c->last_ratio = ratio;
    c->ticks = ticks;
    c->ticks_ns = ns;
}

/* A thread that lost its processor between the two clocks would put rows out of order. */
void pb_torch_clock_follow_wall(struct pb_torch_clock *c, uint64_t now)
{
    uint64_t before, after;
    int64_t wall;

    if (now < c->wall_due_ns)
        return;
    before = pb_clock_ns();
    wall = pb_clock_wall_ns();
    after = pb_clock_ns();
    if (after - before >= WALL_LOOK_NS)
        return;
    c->wall_offset_ns = wall - (int64_t)before;
    c->wall_due_ns = now + WALL_APART_NS;
}
