/*
 * pointer.h - could this word be an object's address?
 *
 * Owns: nothing. Threads: any. Fails: never; a cheap test in front of a read.
 */
#ifndef PB_STACK_VALUES_POINTER_H
#define PB_STACK_VALUES_POINTER_H

#include <stdbool.h>
#include <stdint.h>

/* User space ends at 2^47 on x86_64 and at 2^48 (2^52 with large addresses) on aarch64. */
static inline bool pb_py_plausible(uint64_t addr)
{
    return addr >= 4096 && addr < (uint64_t)1 << 52 && !(addr & 7);
}

#endif
