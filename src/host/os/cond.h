/*
 * cond.h - condition variables whose time limits are times of pb_clock_ns().
 *
 * Owns: nothing. Threads: any. Fails: never.
 */
#ifndef PB_HOST_OS_COND_H
#define PB_HOST_OS_COND_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/clock.h"

static inline void pb_cond_init(pthread_cond_t *c)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(c, &attr);
    pthread_condattr_destroy(&attr);
}

/* Called with the lock held. False: the time is up. */
static inline bool pb_cond_wait_until(pthread_cond_t *c, pthread_mutex_t *lock, uint64_t ns)
{
    struct timespec until = pb_clock_timespec(ns);

    return pthread_cond_timedwait(c, lock, &until) != ETIMEDOUT;
}

#endif
