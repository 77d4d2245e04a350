/*
 * pause.h - one instant across all threads.
 *
 * Owns: the stops, from the first to the last thread.
 * Threads: the caller's thread is the tracer.
 * Fails: a thread that cannot be held is left for a capture of its own.
 * Not here: what is copied (capture.h).
 */
#ifndef PB_STACK_PAUSE_H
#define PB_STACK_PAUSE_H

#include "stack/build.h"

/* Holds the whole process, copies the wanted threads; returns how long, in microseconds. */
double pb_pause_capture(const struct pb_capture_opts *o, struct pb_work *work, size_t n,
                        const pid_t *tids, size_t ntids, struct pb_arena *a);

#endif
