/*
 * hurry.h - being quick while a thread of the target is held.
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
#ifndef PB_UNWIND_HURRY_H
#define PB_UNWIND_HURRY_H

#include <signal.h>
#include <stdbool.h>

struct pb_hurry {
    sigset_t mask;
    int nice;
    bool ordinary; /* the policy of most, the only one that is changed */
};

void pb_hurry_begin(struct pb_hurry *h);
/*
 * While nothing is held yet and the thread that is waited for may need this very CPU: a sleeper of
 * the best priority slows the clock by which the kernel shares a CPU out, and another may not be
 * let on it for seconds.
 */
void pb_hurry_rest(void);
void pb_hurry_again(void);
void pb_hurry_end(const struct pb_hurry *h);

#endif
