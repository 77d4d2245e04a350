/* x86_64.c - registers of x86_64, by DWARF number. */
#include "stack/native/arch.h"

#include <elf.h>
#include <string.h>
#include <sys/user.h>

#include "stack/native/x86/x86_insn.h"
#include "stack/native/x86/x86_prologue.h"

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

struct pb_branch pb_arch_call(const uint8_t *before, size_t n, uint64_t ret_addr)
{
    struct pb_branch b = {0, 0};
    int32_t distance;
    uint64_t to;

    if (n < 2 + sizeof distance)
        return b;
    memcpy(&distance, before + n - sizeof distance, sizeof distance);
    to = ret_addr + (uint64_t)(int64_t)distance;
    if (before[n - 5] == 0xe8)
        b.to = to;
    else if (before[n - 6] == 0xff && before[n - 5] == 0x15)
        b.slot = to;
    return b;
}

struct pb_branch pb_arch_stub(const uint8_t *code, size_t len, uint64_t vaddr)
{
    static const uint8_t endbr[] = {0xf3, 0x0f, 0x1e, 0xfa};
    struct pb_branch b = {0, 0};
    struct pb_x86_insn i;
    size_t off = 0;

    if (len > sizeof endbr && memcmp(code, endbr, sizeof endbr) == 0)
        off = sizeof endbr;
    if (!pb_x86_decode(&i, code + off, len - off) || i.map != 0)
        return b;
    if (i.opcode == 0xe9 || i.opcode == 0xeb)
        b.to = vaddr + off + i.len + (uint64_t)i.imm;
    else if (i.opcode == 0xff && (i.reg & 7) == 4 && i.is_mem && i.base == PB_X86_RIP)
        b.slot = vaddr + off + i.len + (uint64_t)(int64_t)i.disp;
    return b;
}

size_t pb_arch_jumps_out(const uint8_t *code, size_t len, uint64_t vaddr, uint64_t *v, size_t cap)
{
    return pb_x86_jumps_out(code, len, vaddr, v, cap);
}

bool pb_arch_jumps_into(const uint8_t *code, size_t len, uint64_t vaddr, uint64_t start,
                        uint64_t end)
{
    return pb_x86_jumps_into(code, len, vaddr, start, end);
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
