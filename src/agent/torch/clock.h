/*
 * clock.h - the processor's counter as a quick clock, and the wall clock's distance.
 *
 * Owns: what is known about the two clocks.
 * Threads: GIL held.
 * Fails: ticks_usable stays false where the counter will not do; calls are timed by the system's
 * clock then.
 * Not here: the counter itself (arch/ticks.h).
 */
#ifndef PB_AGENT_TORCH_CLOCK_H
#define PB_AGENT_TORCH_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

struct pb_torch_clock {
    bool ticks_usable;        /* two ratios in a row agreed */
    bool has_ticks;           /* the counter is steady and quick to read */
    double ns_per_tick;       /* ratio in use */
    uint64_t ticks, ticks_ns; /* both clocks at the last look; ticks_ns 0: none yet */
    double last_ratio;        /* ratio between the last two looks */
    int64_t wall_offset_ns;   /* wall clock minus monotonic clock */
    uint64_t wall_due_ns;     /* next look at that offset */
};

void pb_torch_clock_enter(struct pb_torch_clock *c);
/* About once a second: compares the two clocks. */
void pb_torch_clock_poll(struct pb_torch_clock *c);
/* At the end of a step: follows changes of the wall clock. */
void pb_torch_clock_follow_wall(struct pb_torch_clock *c, uint64_t now);
bool pb_torch_clock_agrees(double ratio, double other);

#endif
