/*
 * ticks.h - the processor's own counter: time without a look at memory.
 *
 * Owns: nothing. Threads: any. Fails: never; pb_ticks_steady says whether it will do as a clock.
 * Not here: what a tick is in nanoseconds; whoever uses it measures that.
 *
 * The system's clock is quick when its code and data are in the caches. Between two calls of a
 * module they are not, and then a look at it costs several times as much as this.
 */
#ifndef PB_AGENT_ARCH_TICKS_H
#define PB_AGENT_ARCH_TICKS_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/prctl.h>

static inline uint64_t pb_ticks(void)
{
    return __builtin_ia32_rdtsc();
}

/* May this process read it, and does it run at one pace, whatever the processor does? */
static inline bool pb_ticks_steady(void)
{
    unsigned a, b, c, d;
    int allowed = PR_TSC_SIGSEGV;

    return prctl(PR_GET_TSC, &allowed) == 0 && allowed == PR_TSC_ENABLE &&
           __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & (1u << 8));
}
#elif defined(__aarch64__)
static inline uint64_t pb_ticks(void)
{
    uint64_t value;

    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
    return value;
}

static inline bool pb_ticks_steady(void)
{
    return true;
}
#endif

#endif
