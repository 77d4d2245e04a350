/*
 * cfi.h - executing call frame information: from one frame to its caller.
 *
 * Owns: nothing. Threads: any.
 * Fails: with the reason as an enum pb_cfi_result; registers that cannot be
 * recovered lose their bit in `known` and fail only whoever needs them.
 * Not here: finding the FDE (ehframe.h), what to do without one.
 */
#ifndef PB_STACK_NATIVE_CFI_H
#define PB_STACK_NATIVE_CFI_H

#include "stack/native/ehframe.h"
#include "stack/native/native.h"

/* How the expressions and rules read the stack. */
struct pb_stack_reader {
    const struct pb_stack_copy *copy;
    struct pb_mem *mem; /* for what lies outside of the copy; may be NULL */
};

bool pb_stack_read(const struct pb_stack_reader *s, uint64_t addr, void *buf, size_t len);
bool pb_stack_u64(const struct pb_stack_reader *s, uint64_t addr, uint64_t *ret);

enum pb_cfi_result {
    PB_CFI_OK,
    PB_CFI_END,       /* the return address is undefined: outermost frame */
    PB_CFI_BAD,       /* instructions that cannot be executed */
    PB_CFI_NO_REG,    /* needs a register that is not known */
    PB_CFI_NO_MEMORY, /* needs bytes that cannot be read */
};

enum pb_cfi_kind {
    PB_RULE_UNSPECIFIED,
    PB_RULE_UNDEFINED,
    PB_RULE_SAME,
    PB_RULE_OFFSET,     /* saved at CFA + n */
    PB_RULE_VAL_OFFSET, /* is CFA + n */
    PB_RULE_REGISTER,   /* is in register n */
    PB_RULE_EXPR,       /* saved at the address that the expression gives */
    PB_RULE_VAL_EXPR,   /* is what the expression gives */
};

struct pb_cfi_rule {
    enum pb_cfi_kind kind;
    int64_t n;
    struct pb_cursor expr;
};

/* The rules in force at one address. */
struct pb_cfi_row {
    struct pb_cfi_rule reg[PB_REGS_MAX];
    struct pb_cfi_rule cfa; /* PB_RULE_REGISTER with cfa_offset, or PB_RULE_VAL_EXPR */
    int64_t cfa_offset;
    bool ra_signed; /* aarch64: the return address carries an authentication code */
};

/* bias: what the target adds to the file's addresses. vaddr: of the file. */
enum pb_cfi_result pb_cfi_row(const struct pb_fde *fde, uint64_t vaddr, struct pb_cfi_row *ret);
/* Turns regs into the caller's. ret_cfa: the end of this frame's part of the stack. */
enum pb_cfi_result pb_cfi_apply(const struct pb_fde *fde, const struct pb_cfi_row *row,
                                const struct pb_stack_reader *s, uint64_t bias,
                                struct pb_regs *regs, uint64_t *ret_cfa);

/* A DWARF expression; push: the value that the stack starts with, or NULL. */
enum pb_cfi_result pb_expr_eval(struct pb_cursor code, const struct pb_regs *regs,
                                const struct pb_stack_reader *s, uint64_t bias,
                                const uint64_t *push, uint64_t *ret);

#endif
