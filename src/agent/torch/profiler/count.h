/*
 * count.h - counts the operations that torch's profiler would record.
 *
 * Owns: one callback of torch's, while it counts.
 * Threads: begin and end with the GIL; torch counts from any thread.
 * Fails: where torch has no such callbacks, or they do not pass their test, nothing is counted.
 * Not here: what is done with the number (cli/scripts/profile.py).
 */
#ifndef PB_AGENT_TORCH_PROFILER_COUNT_H
#define PB_AGENT_TORCH_PROFILER_COUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/core/self.h"

/* From zero. False: it cannot be counted. */
bool pb_torch_count_begin(struct pb_self *self);
void pb_torch_count_end(void);
uint64_t pb_torch_counted(void);

#endif
