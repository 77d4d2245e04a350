/*
 * alloc.h - memory or the end.
 *
 * Owns: nothing; the caller frees.
 * Threads: any.
 * Fails: never; says so on stderr and ends the process when there is no
 * memory. Outside of targets only: the agent must not use this.
 * Not here: arenas (arena.h), strings (buf.h).
 */
#ifndef PB_HOST_TEXT_ALLOC_H
#define PB_HOST_TEXT_ALLOC_H

#include <stddef.h>

void *pb_alloc_resize(void *old, size_t size);

#endif
