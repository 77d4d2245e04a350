/*
 * cuda.h - what torch's CUDA allocator holds in this process.
 *
 * Owns: nothing.
 * Threads: GIL held.
 * Fails: false where there is no torch, no CUDA in it, or it is not initialised. It never
 * initialises it: that would make a context on the GPU.
 * Not here: GPUs themselves (node/sample/).
 */
#ifndef PB_AGENT_COLLECTORS_NATIVE_CUDA_MEMORY_H
#define PB_AGENT_COLLECTORS_NATIVE_CUDA_MEMORY_H

#include <stdbool.h>

#include "agent/py/api.h"

/* Bytes, over all devices. */
struct pb_cuda_memory {
    double allocated, reserved, peak;
};

bool pb_cuda_memory(const struct pb_py *py, struct pb_cuda_memory *ret);

#endif
