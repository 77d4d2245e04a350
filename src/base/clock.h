/*
 * clock.h - monotonic time, the time of day, and what a thread has worked.
 *
 * Owns: nothing. Threads: any; safe in signal handlers. Fails: never.
 */
#ifndef PB_BASE_CLOCK_H
#define PB_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define PB_SECOND_NS UINT64_C(1000000000)
#define PB_MS_NS UINT64_C(1000000)

static inline int64_t pb_clock_of_timespec(const struct timespec *ts)
{
    return (int64_t)ts->tv_sec * (int64_t)PB_SECOND_NS + ts->tv_nsec;
}

static inline struct timespec pb_clock_timespec(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / PB_SECOND_NS),
                             .tv_nsec = (long)(ns % PB_SECOND_NS)};
}

static inline uint64_t pb_clock_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)pb_clock_of_timespec(&ts);
}

/* Time that this thread had a processor; a system call. */
static inline uint64_t pb_clock_work_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)pb_clock_of_timespec(&ts);
}

/* Since 1970. */
static inline int64_t pb_clock_wall_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    return pb_clock_of_timespec(&ts);
}

#endif
