/*
 * memory_torch.h - `memory --torch`: what CUDA's allocator holds, by site and module.
 *
 * Owns: nothing.
 * Threads: one.
 * Fails: with a reason in ctx->err: no torch, no CUDA in use, a version without a snapshot.
 * Not here: the script that asks the allocator (scripts/torch_memory.py).
 */
#ifndef PB_CLI_MEMORY_MEMORY_TORCH_H
#define PB_CLI_MEMORY_MEMORY_TORCH_H

#include "cli/cmd.h"

int pb_memory_torch(struct pb_ctx *ctx);

#endif
