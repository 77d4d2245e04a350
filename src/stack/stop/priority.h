/*
 * priority.h - being quick while a thread of the target is held.
 *
 * Owns: this thread's priority and signal mask between begin and end.
 * Threads: the calling one only.
 * Fails: never; what is not permitted is left out.
 * Not here: the holding itself (stop.h).
 *
 * On a machine with more work than CPUs the tool may lose the CPU in the middle
 * of a stop, and the held thread waits for it. A short time slice (and, where it
 * is permitted, the best priority) brings the tool back within a fraction of a
 * millisecond instead of several. Begin before the stop, end after it.
 */
#ifndef PB_STACK_STOP_PRIORITY_H
#define PB_STACK_STOP_PRIORITY_H

#include <signal.h>
#include <stdbool.h>

/* Starts zeroed. */
struct pb_priority {
    sigset_t mask;
    int nice;
    bool raised;
    bool ordinary; /* the policy of most, the only one that is changed */
};

void pb_priority_raise(struct pb_priority *h);
/*
 * While nothing is held yet and the thread that is waited for may need this very CPU: a sleeper of
 * the best priority slows the clock by which the kernel shares a CPU out, and another may not be
 * let on it for seconds.
 */
void pb_priority_yield(const struct pb_priority *h);
void pb_priority_reraise(const struct pb_priority *h);
void pb_priority_restore(struct pb_priority *h);

#endif
