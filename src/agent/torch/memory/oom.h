/*
 * oom.h - memory that could not be had: rows of python.out_of_memory.
 *
 * Owns: the observer in CUDA's allocator.
 * Threads: GIL held.
 * Fails: never for the caller; a pending exception stays as it is.
 * Not here: memory while there is enough of it (memory.h).
 *
 * CUDA's allocator tells of it by itself, wherever it happens; there is no way to make it forget
 * whom it tells, so that function stays, and does nothing when the collector is off. Elsewhere the
 * exception is seen on its way out of a module or of a backward pass.
 */
#ifndef PB_AGENT_TORCH_MEMORY_OOM_H
#define PB_AGENT_TORCH_MEMORY_OOM_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct pb_torch;
struct pb_torch_call;
struct _object;

struct pb_torch_oom {
    struct _object *errors[3];  /* exception types: torch's, Python's, RuntimeError */
    bool observed, refused;     /* CUDA's allocator has our observer; or did not take it */
    pthread_t thread;           /* thread of the last event that was seen as an exception */
    uint64_t reported_ns;       /* when that was */
};

void pb_torch_oom_enter(struct pb_torch *t);
/* About once a second: installs the observer once CUDA is in use. */
void pb_torch_oom_poll(struct pb_torch *t);
/* An exception is on its way out of a call that began then. call NULL: a backward pass. */
void pb_torch_oom_check(struct pb_torch *t, const struct pb_torch_call *call, uint64_t began_ns);

#endif
