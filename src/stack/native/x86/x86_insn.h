/*
 * x86_insn.h - length and operands of one x86_64 instruction.
 *
 * Owns: nothing. Threads: any. Pure functions over bytes.
 * Fails: false for bytes that are cut off or no instruction that compilers
 * and assembler libraries use (XOP, far calls).
 * Not here: what instructions do (x86_prologue.h).
 */
#ifndef PB_STACK_NATIVE_X86_X86_INSN_H
#define PB_STACK_NATIVE_X86_X86_INSN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PB_X86_RAX, PB_X86_RCX, PB_X86_RDX, PB_X86_RBX, PB_X86_RSP, PB_X86_RBP };

#define PB_X86_NO_REG 0xff
#define PB_X86_RIP 0xfe

struct pb_x86_insn {
    uint8_t len;
    uint8_t map; /* 0: one byte, 1: 0f, 2: 0f 38, 3: 0f 3a, others as EVEX numbers them */
    uint8_t opcode;
    bool is_vector; /* VEX or EVEX encoded */
    bool wide;      /* REX.W */
    bool has_modrm;
    bool is_mem;     /* the r/m operand is memory: base + index + disp */
    uint8_t low;     /* register in the opcode's low bits */
    uint8_t reg, rm; /* registers by hardware number; rm only when not is_mem */
    uint8_t base, index;
    int32_t disp;
    int64_t imm; /* also the distance of a relative branch */
};

bool pb_x86_decode(struct pb_x86_insn *ret, const uint8_t *bytes, size_t len);

#endif
