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

struct pb_hurry {
    sigset_t mask;
    int nice;
};

void pb_hurry_begin(struct pb_hurry *h);
void pb_hurry_end(const struct pb_hurry *h);

#endif
