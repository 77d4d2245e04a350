/* What a tick of the processor is in nanoseconds, for the calls of modules. */
#include "agent/arch/ticks.h"
#include "agent/collect/torch/torch.h"
#include "base/clock.h"

/* Two looks at the clocks that are so far apart tell their ratio. */
#define APART_NS UINT64_C(500000000)
/* So long may the two readings of one look take. */
#define AT_ONCE_NS 2000
#define TRIES 4
/* A machine that is made up may have to be asked for each tick; then the clock is quicker. */
#define QUICK_NS 40
#define READINGS 64
/* Two ratios that differ by more are not believed. */
#define DIFFERENCE 1e-4

/* Both clocks at the same time; false when something came between. */
static bool read_both(uint64_t *ret_ticks, uint64_t *ret_ns)
{
    for (int i = 0; i < TRIES; i++) {
        uint64_t before = pb_clock_ns(), ticks = pb_ticks(), after = pb_clock_ns();

        if (after - before > AT_ONCE_NS)
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

bool pb_torch_ticks_agree(double ratio, double other)
{
    return ratio > 0 && other > 0 && ratio < other * (1 + DIFFERENCE) &&
           other < ratio * (1 + DIFFERENCE);
}

void pb_torch_ticks_enter(struct pb_torch *t)
{
    t->may_tick = pb_ticks_steady() && is_quick();
    t->ticking = false;
    t->ticks_ns = 0;
    t->ratio_seen = 0;
}

void pb_torch_ticks_look(struct pb_torch *t)
{
    uint64_t ticks, ns;
    double ratio;

    if (!t->may_tick || !read_both(&ticks, &ns))
        return;
    if (!t->ticks_ns || ns - t->ticks_ns < APART_NS) {
        if (!t->ticks_ns) {
            t->ticks = ticks;
            t->ticks_ns = ns;
        }
        return;
    }
    ratio = ticks > t->ticks ? (double)(ns - t->ticks_ns) / (double)(ticks - t->ticks) : 0;
    t->ticking = pb_torch_ticks_agree(ratio, t->ratio_seen);
    if (t->ticking)
        t->ns_per_tick = ratio;
    t->ratio_seen = ratio;
    t->ticks = ticks;
    t->ticks_ns = ns;
}
