/*
 * recover.h - the frame pointer of a frame whose rules need it and nobody knows it.
 *
 * Owns: nothing. Threads: one user per object.
 * Fails: no further caller. A caller that is found is not yet true: whoever
 * asks proves it by the rest of the stack.
 * Not here: code without call frame information (arch.h).
 *
 * Of a thread that sleeps in a system call only the stack pointer and pc are
 * known. Code built with frame pointers then lacks its anchor. Where the code
 * tells how far it has moved the stack pointer, the anchor follows from that.
 * Otherwise (alloca, realigned frames) every place that could hold a saved
 * frame pointer in front of a return address is tried, from the inside out,
 * if the call in front of that address leads to this very function. Calls
 * through a register are refused: what earlier calls have left in such a
 * frame is a chain that was true once, and nothing tells it from the right one.
 */
#ifndef PB_STACK_NATIVE_RECOVER_H
#define PB_STACK_NATIVE_RECOVER_H

#include "stack/native/arch.h"
#include "stack/native/module.h"

struct pb_recover {
    struct pb_fde fde;
    struct pb_cfi_row row;
    uint64_t bias;
    struct pb_regs regs;              /* registers of the frame, the frame pointer not known */
    uint64_t decoded[PB_GUESSES_MAX]; /* frame pointers that the code leads to */
    size_t ndecoded, next;
    uint64_t scanned; /* distance from the stack pointer */
};

/* False when something else than the frame pointer is missing. */
bool pb_recover_init(struct pb_recover *r, const struct pb_module *m, const struct pb_fde *fde,
                     const struct pb_cfi_row *row, const struct pb_regs *regs,
                     const struct pb_stack_reader *s);
/* The next possible caller: a call ends at its pc. */
bool pb_recover_next(struct pb_recover *r, struct pb_modules *ms, const struct pb_stack_reader *s,
                     struct pb_guess *ret);

#endif
