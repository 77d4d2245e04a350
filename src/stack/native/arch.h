/*
 * arch.h - what the unwinder must know of a processor; one file in arch/ each.
 *
 * Owns: nothing. Threads: any. Fails: by returning nothing.
 * Not here: formats that are the same everywhere (cfi.h).
 */
#ifndef PB_STACK_NATIVE_ARCH_H
#define PB_STACK_NATIVE_ARCH_H

#include "stack/native/cfi.h"
#include "stack/native/native.h"

struct pb_arch {
    unsigned machine; /* e_machine of its ELF files */
    unsigned nregs;
    unsigned sp, fp, ra;   /* DWARF numbers; ra is the column that holds the return address */
    uint64_t callee_saved; /* registers that a call keeps, as bits */
    unsigned call_max;     /* bytes of the longest call instruction */
    int64_t entry_cfa;     /* CFA minus stack pointer at a function's first instruction */
};

extern const struct pb_arch pb_arch;

/* Where a call or jump leads, as far as it tells; nothing where a register holds it. */
struct pb_branch {
    uint64_t to;   /* 0: not told */
    uint64_t slot; /* the word that holds it; 0: not told */
};

/* An address as it is used, without authentication code or tag. */
uint64_t pb_arch_strip(uint64_t addr);
/* Do the n bytes in front of a return address end with a call? */
bool pb_arch_is_call(const uint8_t *before, size_t n);
struct pb_branch pb_arch_call(const uint8_t *before, size_t n, uint64_t ret_addr);
/* Code that does nothing but jump on, as procedure linkage tables have it. */
struct pb_branch pb_arch_stub(const uint8_t *code, size_t len, uint64_t vaddr);

/*
 * Targets of direct jumps that leave the code; vaddr is its address. Returns
 * their number, at most cap.
 */
size_t pb_arch_jumps_out(const uint8_t *code, size_t len, uint64_t vaddr, uint64_t *v, size_t cap);

/* Is there a direct jump into [start, end) in the code? */
bool pb_arch_jumps_into(const uint8_t *code, size_t len, uint64_t vaddr, uint64_t start,
                        uint64_t end);

/* Code around a pc for which there is no call frame information. */
struct pb_function {
    uint64_t start;       /* start of the function; 0 when there is no symbol */
    const uint8_t *bytes; /* from start, or from pc when start is 0 */
    size_t len;           /* at least up to pc, more where there is more */
    bool is_first;        /* pc is the next instruction, not a return address */
    bool is_code;         /* pc lies in executable memory */
};

/* One possible caller, to be proven by the rest of the stack. */
struct pb_guess {
    struct pb_regs regs;
    uint64_t cfa;
    enum pb_native_how how;
};

#define PB_GUESSES_MAX 4

/* Fills v with possible callers, the likeliest first; returns their number. */
size_t pb_arch_guess(const struct pb_function *code, const struct pb_regs *regs,
                     const struct pb_stack_reader *s, struct pb_guess v[PB_GUESSES_MAX]);

#endif
