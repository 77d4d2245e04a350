/*
 * build.h - from the copies of a thread to the frames that are shown.
 *
 * Owns: nothing; everything goes into the caller's arena.
 * Threads: one.
 * Fails: what cannot be resolved is shown as such; pb_build_codes tells.
 * Not here: reading threads (capture.h).
 */
#ifndef PB_STACK_BUILD_H
#define PB_STACK_BUILD_H

#include "stack/capture.h"
#include "stack/python/code.h"
#include "stack/python/threads.h"
#include "stack/snapshot.h"

/* The variables of one frame. */
struct pb_values {
    struct pb_local *v;
    size_t n;
    struct pb_py_slot *slots; /* what they referred to when they were read; none of globals */
    size_t nslots;
};

/* One thread on its way through a snapshot. */
struct pb_work {
    pid_t tid;
    const struct pb_py_thread **py; /* one for each interpreter that the thread has called into */
    uint64_t *tstates;              /* theirs */
    size_t npy;                     /* 0: not a Python thread */
    struct pb_capture capture;
    struct pb_py_code **codes; /* one per raw frame; NULL where not needed */
    struct pb_values *values;  /* one per raw frame; NULL: not wanted */
    struct pb_native_stack native;
};

static inline struct pb_tstates pb_work_tstates(const struct pb_work *w)
{
    return (struct pb_tstates){w->tstates, w->npy};
}

/* How many frames to show at the inner and at the outer end; all when max is 0. */
void pb_build_limits(size_t max, size_t *ret_head, size_t *ret_tail);
/* Reads the code objects of the frames that may be shown; false: one was gone. */
bool pb_build_codes(struct pb_py_codes *c, const struct pb_capture_opts *o, struct pb_work *w,
                    struct pb_arena *a);
/* Unwinds and names the native stacks of all threads at once. */
void pb_build_native(struct pb_native *n, struct pb_work *work, size_t count, struct pb_arena *a);
void pb_build_frames(struct pb_py_codes *c, const struct pb_snapshot_opts *o,
                     const struct pb_work *w, struct pb_arena *a, struct pb_thread *ret);

#endif
