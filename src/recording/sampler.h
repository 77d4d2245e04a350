/*
 * sampler.h - looks at all threads of processes, many times a second, from outside.
 *
 * Owns: descriptors of the targets' threads, what is known of their interpreters, the recording.
 * Threads: one.
 * Fails: adding a process says why; later a process that ends is left out, and the rest goes on.
 * Not here: what is made of the recording (formats.h), signals, progress.
 *
 * The weight of a sample is the wall time since the last one of that thread, so that a late tick
 * biases nothing. A thread that has not had a processor since it was found blocked still is where
 * it was: that costs one read of its schedstat and nothing of the target. A thread that did run is
 * read without a stop until two reads show the same chain of frames; only one that changes at
 * every read is held alone for the time of a copy. Where holding takes more than
 * PB_SAMPLER_HELD_PERCENT of the time (C frames of a busy thread need it), looks are left out.
 */
#ifndef PB_RECORDING_SAMPLER_H
#define PB_RECORDING_SAMPLER_H

#include "recording/recording.h"

/* Of the time, a thread is held for so much at most. */
enum { PB_SAMPLER_HELD_PERCENT = 2 };

struct pb_sampler_opts {
    double rate; /* ticks a second, 1 to 1000 */
    bool native; /* C and C++ frames, and threads without Python */
    bool children;
    bool by_process;  /* each process is a frame at the root */
    bool by_function; /* frames without their lines */
    bool no_pause;    /* never hold a thread; what cannot be read exactly is torn */
    size_t max_frames; /* longest stack, the middle of others is left out; 0: 1000 */
};

struct pb_sampler;

struct pb_sampler *pb_sampler_create(const struct pb_sampler_opts *o);
/* One more process; the recording is called after the first. hint: see pb_proc_check_access. */
int pb_sampler_add(struct pb_sampler *s, pid_t pid, const char *hint, struct pb_err *err);
void pb_sampler_destroy(struct pb_sampler *s);

/* Looks at every thread once; false: all processes have ended. */
bool pb_sampler_tick(struct pb_sampler *s);
/* When the next tick should be, by the monotonic clock. */
uint64_t pb_sampler_due(const struct pb_sampler *s);
/* Until the next tick is due, or a signal comes. */
void pb_sampler_sleep(struct pb_sampler *s);
/* Ends the time of the recording; it stays the sampler's. */
struct pb_recording *pb_sampler_recording(struct pb_sampler *s);
/* The same, and it is the caller's from now on; nothing but destroying the sampler may follow. */
void pb_sampler_take(struct pb_sampler *s, struct pb_recording *ret);
/* Frames from now on with or without their lines. */
void pb_sampler_by_function(struct pb_sampler *s, bool by_function);
/* Begins a new recording of the same processes; threads and stacks keep their numbers. */
void pb_sampler_restart(struct pb_sampler *s);

#endif
