/*
 * memory_core.h - probing --core FILE memory --heap: Python objects of a process that has died.
 *
 * Owns: nothing. Threads: one. Fails: with a reason in ctx->err.
 * Not here: living processes (memory_heap.h), reading core files (host/process/core.h).
 */
#ifndef PB_CLI_MEMORY_MEMORY_CORE_H
#define PB_CLI_MEMORY_MEMORY_CORE_H

#include "cli/cmd.h"

int pb_memory_core(struct pb_ctx *ctx);

#endif
