/*
 * sampler.h - looks at all threads of processes, many times a second, from outside.
 *
 * Owns: descriptors of the targets' threads, what is known of their interpreters, the recording.
 * Threads: one.
 * Fails: opening says why; later a process that ends is left out, and the rest goes on.
 * Not here: what is made of the recording (formats.h), signals, progress.
 *
 * A sample weighs the wall time since the last one of that thread, so that a late tick biases
 * nothing. A thread that has not had a processor since it was found blocked still is where it was:
 * that costs one read of its schedstat and nothing of the target. A thread that did run is read
 * without a stop until two reads show the same chain of frames; only one that changes at every
 * read is held alone for the time of a copy.
 */
#ifndef PB_PROFILE_SAMPLER_H
#define PB_PROFILE_SAMPLER_H

#include "profile/recording.h"

struct pb_sampler_opts {
    double rate; /* ticks a second, 1 to 1000 */
    bool native; /* C and C++ frames, and threads without Python */
    bool children;
    bool by_function; /* frames without their lines */
    bool no_pause;    /* never hold a thread; what cannot be read exactly is torn */
};

struct pb_sampler;

int pb_sampler_open(struct pb_sampler **ret, pid_t pid, const char *hint,
                    const struct pb_sampler_opts *o, struct pb_err *err);
void pb_sampler_close(struct pb_sampler *s);

/* Looks at every thread once; false: all processes have ended. */
bool pb_sampler_tick(struct pb_sampler *s);
/* Until the next tick is due, or a signal comes. */
void pb_sampler_sleep(struct pb_sampler *s);
/* Ends the time of the recording; it stays the sampler's. */
struct pb_recording *pb_sampler_recording(struct pb_sampler *s);
/* Begins a new recording of the same processes; threads and stacks keep their numbers. */
void pb_sampler_restart(struct pb_sampler *s);
size_t pb_sampler_processes(const struct pb_sampler *s);

#endif
