/*
 * internal.h - shared by unwind.c and symbols.c; not for the outside.
 *
 * Owns: see native.h. Threads: one user per object. Fails: never.
 * Not here: anything a caller of native.h needs.
 */
#ifndef PB_STACK_NATIVE_INTERNAL_H
#define PB_STACK_NATIVE_INTERNAL_H

#include "stack/native/module.h"

struct pb_native {
    struct pb_modules modules;
};

/* Is the pc of frame i that of the next instruction, not a return address? */
bool pb_native_is_exact(const struct pb_native_frame *v, size_t i);

#endif
