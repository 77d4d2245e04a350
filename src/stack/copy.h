/*
 * copy.h - a thread's C stack as bytes, to be unwound later.
 *
 * Owns: nothing; bytes go into the caller's buffer or arena.
 * Threads: any.
 * Fails: a note in the capture says why there is no copy.
 * Not here: the Python side (python/), unwinding (native/).
 */
#ifndef PB_STACK_COPY_H
#define PB_STACK_COPY_H

#include "stack/capture.h"

/* Bytes of C stack that are copied; deep recursion of old interpreters needs the most. */
#define PB_STACK_MAX (8u << 20)

/* From the stack pointer in c->regs on, max bytes at most. */
void pb_copy_stack(const struct pb_capture_opts *o, size_t max,
                   const struct pb_capture_buffers *buffers, struct pb_arena *a,
                   struct pb_capture *c);
/* Of an overflown stack: the pages below its end cannot be read, those above can. */
void pb_copy_overflown(const struct pb_capture_opts *o, struct pb_arena *a, struct pb_capture *c);

#endif
