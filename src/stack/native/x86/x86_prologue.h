/*
 * x86_prologue.h - the caller of x86_64 code that has no call frame information.
 *
 * Owns: nothing. Threads: any.
 * Fails: no guess. A guess is not yet true: the caller of this proves it by
 * the rest of the stack.
 * Not here: what instructions do (x86_state.h).
 */
#ifndef PB_STACK_NATIVE_X86_X86_PROLOGUE_H
#define PB_STACK_NATIVE_X86_X86_PROLOGUE_H

#include "stack/native/arch.h"

size_t pb_x86_guess(const struct pb_function *f, const struct pb_regs *regs,
                    const struct pb_stack_reader *s, struct pb_guess v[PB_GUESSES_MAX]);
/* Do the bytes in front of a return address end with a call? */
bool pb_x86_ends_with_call(const uint8_t *before, size_t n);
/* Targets of direct jumps that leave the code; see pb_arch_jumps_out. */
size_t pb_x86_jumps_out(const uint8_t *code, size_t len, uint64_t vaddr, uint64_t *v, size_t cap);
/* Is there a direct jump into [start, end)? */
bool pb_x86_jumps_into(const uint8_t *code, size_t len, uint64_t vaddr, uint64_t start,
                       uint64_t end);

#endif
