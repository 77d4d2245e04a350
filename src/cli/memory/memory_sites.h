/*
 * memory_sites.h - probing TARGET memory --sites: who allocates the memory that is in use.
 *
 * Owns: nothing.
 * Threads: one.
 * Fails: with ctx->err.
 * Not here: sampling (agent/collectors/alloc/).
 */
#ifndef PB_CLI_MEMORY_MEMORY_SITES_H
#define PB_CLI_MEMORY_MEMORY_SITES_H

#include "cli/cmd.h"

/* pid: the living process on this machine, 0 when it is another's or has ended. */
int pb_memory_sites(struct pb_ctx *ctx, pid_t pid, const char *command);

#endif
