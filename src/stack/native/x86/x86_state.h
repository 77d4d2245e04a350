/*
 * x86_state.h - what x86_64 instructions do to the stack pointer and to saved registers.
 *
 * Owns: nothing. Threads: any. Pure functions over bytes.
 * Fails: what is not understood becomes "unknown"; nothing is assumed of it.
 * Not here: actual register values (x86_prologue.h).
 *
 * Values are symbolic: relative to what the registers held where the run began.
 */
#ifndef PB_STACK_NATIVE_X86_X86_STATE_H
#define PB_STACK_NATIVE_X86_X86_STATE_H

#include "stack/native/x86/x86_insn.h"

enum pb_x86_kind {
    PB_X86_UNKNOWN,
    PB_X86_REG,     /* what register `reg` held at the start, plus n */
    PB_X86_MEM,     /* the word at that address */
    PB_X86_ALIGNED, /* the stack pointer after its reg-th alignment, plus n */
};

struct pb_x86_value {
    enum pb_x86_kind kind;
    uint8_t reg;
    int64_t n;
};

struct pb_x86_slot {
    struct pb_x86_value addr, what;
};

#define PB_X86_SLOTS_MAX 32

struct pb_x86_state {
    struct pb_x86_value reg[16]; /* by hardware number */
    struct pb_x86_slot slot[PB_X86_SLOTS_MAX];
    size_t nslots;
    uint8_t naligned;
};

enum pb_x86_flow {
    PB_X86_NEXT,
    PB_X86_CALL,
    PB_X86_BRANCH, /* conditional */
    PB_X86_JUMP,
    PB_X86_RETURN,
};

void pb_x86_state_init(struct pb_x86_state *st);
enum pb_x86_flow pb_x86_state_step(struct pb_x86_state *st, const struct pb_x86_insn *i);

/*
 * The state in front of the instruction at offset `at` of a function, by one
 * straight pass from its start. Code behind a return or jump is reached from
 * elsewhere: there the state of the last branch is taken, which is that of
 * the function's body. False when `at` is not the start of an instruction.
 */
bool pb_x86_state_at(struct pb_x86_state *ret, const uint8_t *code, size_t len, size_t at);
/* The state in front of the return that is reached from `at` without any choice. */
bool pb_x86_state_at_return(struct pb_x86_state *ret, const uint8_t *code, size_t len, size_t at);

#endif
