/* A library whose function sleeps inside of others that are inlined into it. */
#include <unistd.h>

static inline __attribute__((always_inline)) void innermost(unsigned seconds)
{
    while (seconds)
        seconds = sleep(seconds); /* LINE:innermost */
}

static inline __attribute__((always_inline)) void between(unsigned seconds)
{
    innermost(seconds); /* LINE:between */
}

void probing_rest(unsigned seconds);

__attribute__((noinline)) void probing_rest(unsigned seconds)
{
    between(seconds); /* LINE:rest */
    __asm__ volatile("");
}
