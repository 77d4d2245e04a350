/*
 * clock.h - monotonic time, the time of day, and what a thread has worked.
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

/* Time that this thread had a processor; a system call. */
static inline uint64_t pb_clock_work_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Since 1970. */
static inline int64_t pb_clock_wall_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

#endif
