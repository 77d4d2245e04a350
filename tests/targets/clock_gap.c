/*
 * A library whose watch() looks at the clock without rest and keeps the
 * longest gap, in the words of gap.py: [0] round, [1] gap in ns, [2] its round.
 */
#include <stdint.h>
#include <time.h>

void watch(volatile uint64_t *words);

static uint64_t now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void watch(volatile uint64_t *words)
{
    uint64_t seen = 0, worst = 0, last = now();

    for (;;) {
        uint64_t at = now();

        if (at - last > worst)
            worst = words[1] = at - last;
        last = at;
        if (words[0] != seen) {
            words[1] = worst = 0;
            words[2] = seen = words[0];
            last = now();
        }
    }
}
