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
 * frame pointer in front of a return address is tried, from the inside out.
 */
#ifndef PB_UNWIND_NATIVE_RECOVER_H
#define PB_UNWIND_NATIVE_RECOVER_H

#include "unwind/native/arch.h"
#include "unwind/native/module.h"

enum pb_recover_pass {
    PB_RECOVER_DECODED, /* by the function's code */
    PB_RECOVER_CALLED,  /* a direct call of this function stands in front of the return address */
    PB_RECOVER_ANY,     /* some call does: through a pointer, or of what jumped here */
    PB_RECOVER_DONE,
};

struct pb_recover {
    struct pb_fde fde;
    struct pb_cfi_row row;
    uint64_t bias;
    struct pb_regs regs; /* of the frame */
    uint64_t entry_cfa[PB_GUESSES_MAX]; /* the end of the frame, as decoded */
    size_t ndecoded;
    enum pb_recover_pass pass;
    uint64_t next; /* in this pass */
};

/* False when the frame pointer is not what is missing. code: from the FDE's start. */
bool pb_recover_init(struct pb_recover *r, const struct pb_fde *fde, const struct pb_cfi_row *row,
                     const struct pb_module *m, const struct pb_regs *regs, bool is_first,
                     const struct pb_stack_reader *s);
/* The next possible caller. */
bool pb_recover_next(struct pb_recover *r, struct pb_modules *ms, const struct pb_stack_reader *s,
                     struct pb_guess *ret);
/* Does some call, or one of `to` unless that is 0, end at the address? */
bool pb_recover_is_after_call(struct pb_modules *ms, uint64_t pc, uint64_t to);

#endif
