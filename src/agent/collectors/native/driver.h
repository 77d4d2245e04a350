/*
 * driver.h - functions of the CUDA driver that collectors call.
 *
 * Owns: nothing; the library is the program's, and stays loaded.
 * Threads: finding by one; the functions as the driver says.
 * Fails: false where the program has not loaded the driver, or it lacks one of them.
 * Not here: what is done with them (cuda.h, comm/gpu.h), what torch's allocator holds
 * (cuda_memory.h).
 */
#ifndef PB_AGENT_COLLECTORS_NATIVE_DRIVER_H
#define PB_AGENT_COLLECTORS_NATIVE_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/py/api.h"

/* Making and asking for things is not allowed while some thread captures, unless in this mode. */
#define PB_DRIVER_CAPTURE_RELAXED 2

struct pb_driver {
    int (*event_create)(void **event, unsigned flags);
    int (*event_record)(void *event, void *stream);
    int (*event_query)(void *event);
    int (*event_elapsed)(float *ms, void *from, void *to);
    int (*context_current)(void **context);
    int (*capturing)(void *stream, int *status);
    int (*capture_mode)(int *mode);
    /* For values; NULL where there are none. */
    int (*host_alloc)(void **p, size_t size);
    int (*copy)(void *to, uint64_t from, size_t size, void *stream);
};

bool pb_driver_find(struct pb_driver *d);

/*
 * GIL held: puts an event on a stream. That waits where the GPU is far behind, and for ever where
 * it hangs, so the GIL is released meanwhile.
 */
int pb_driver_record(const struct pb_driver *d, const struct pb_py *py, void *event, void *stream);

#endif
