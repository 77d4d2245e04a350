/*
 * memory_heap.h - `probing TARGET memory --heap`.
 *
 * Owns: nothing.
 * Threads: one.
 * Fails: as heap.h does.
 * Not here: reading (heap/), the command's options (memory.c).
 */
#ifndef PB_CLI_MEMORY_MEMORY_HEAP_H
#define PB_CLI_MEMORY_MEMORY_HEAP_H

#include "cli/cmd.h"

/* Rows that are shown by default. */
enum { PB_MEMORY_TYPES_SHOWN = 20, PB_MEMORY_CONTAINERS = 10 };

/* pid: the process on this machine, 0 for none. */
int pb_memory_heap(struct pb_ctx *ctx, pid_t pid, const char *command);

#endif
