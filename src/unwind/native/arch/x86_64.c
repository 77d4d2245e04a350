/* x86_64.c - registers of x86_64, by DWARF number. */
#include "unwind/native/arch.h"

#include <elf.h>
#include <string.h>
#include <sys/user.h>

#include "unwind/native/x86_prologue.h"

#define BIT(n) ((uint64_t)1 << (n))

enum { RBX = 3, RBP = 6, RSP = 7, R12 = 12, R13, R14, R15, RA };

const struct pb_arch pb_arch = {
    .machine = EM_X86_64,
    .nregs = 17,
    .sp = RSP,
    .fp = RBP,
    .ra = RA,
    .callee_saved = BIT(RBX) | BIT(RBP) | BIT(R12) | BIT(R13) | BIT(R14) | BIT(R15),
    .call_max = 8,
    .entry_cfa = 8,
};

uint64_t pb_arch_strip(uint64_t addr)
{
    return addr;
}

bool pb_arch_is_call(const uint8_t *before, size_t n)
{
    return pb_x86_ends_with_call(before, n);
}

size_t pb_arch_jumps_out(const uint8_t *code, size_t len, uint64_t vaddr, uint64_t *v, size_t cap)
{
    return pb_x86_jumps_out(code, len, vaddr, v, cap);
}

size_t pb_arch_guess(const struct pb_function *f, const struct pb_regs *regs,
                     const struct pb_stack_reader *s, struct pb_guess v[PB_GUESSES_MAX])
{
    return pb_x86_guess(f, regs, s, v);
}

void pb_regs_from_sp_pc(struct pb_regs *regs, uint64_t sp, uint64_t pc)
{
    memset(regs, 0, sizeof *regs);
    regs->sp = regs->r[RSP] = sp;
    regs->pc = regs->r[RA] = pc;
    regs->known = BIT(RSP) | BIT(RA);
}

bool pb_regs_from_prstatus(struct pb_regs *regs, const void *gpr, size_t size)
{
    struct user_regs_struct u;

    if (size < sizeof u) /* a 32-bit thread has fewer */
        return false;
    memcpy(&u, gpr, sizeof u);
    *regs = (struct pb_regs){
        .r = {u.rax, u.rdx, u.rcx, u.rbx, u.rsi, u.rdi, u.rbp, u.rsp, u.r8, u.r9, u.r10, u.r11,
              u.r12, u.r13, u.r14, u.r15, u.rip},
        .known = BIT(RA + 1) - 1,
        .pc = u.rip,
        .sp = u.rsp,
    };
    return true;
}
