/*
 * clock.h - monotonic time.
 *
 * Owns: nothing. Threads: any; safe in signal handlers. Fails: never.
 */
#ifndef PB_BASE_CLOCK_H
#define PB_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t pb_clock_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

#endif
