/* aarch64.c - registers of aarch64, by DWARF number. */
#include "stack/native/arch.h"

#include <elf.h>
#include <string.h>
#include <sys/user.h>

#define BIT(n) ((uint64_t)1 << (n))

enum { X19 = 19, FP = 29, LR = 30, SP = 31, NREGS = 33 };

const struct pb_arch pb_arch = {
    .machine = EM_AARCH64,
    .nregs = NREGS,
    .sp = SP,
    .fp = FP,
    .ra = LR,
    /* x19..x30: a leaf function without a rule for x30 still has its return address there. */
    .callee_saved = BIT(LR + 1) - BIT(X19),
    .call_max = 4,
    .entry_cfa = 0,
};

/* User addresses end at bit 47; what stands above is a tag or an authentication code. */
uint64_t pb_arch_strip(uint64_t addr)
{
    return addr & (BIT(48) - 1);
}

/* bl, blr and the authenticating blra* forms. */
bool pb_arch_is_call(const uint8_t *before, size_t n)
{
    uint32_t insn;

    if (n < sizeof insn)
        return false;
    memcpy(&insn, before + n - sizeof insn, sizeof insn);
    return (insn & 0xfc000000) == 0x94000000 || (insn & 0xfffffc1f) == 0xd63f0000 ||
           (insn & 0xfefff800) == 0xd63f0800;
}

static int64_t sign_extend(uint32_t v, unsigned bits)
{
    uint32_t sign = (uint32_t)1 << (bits - 1);

    v &= (sign << 1) - 1;
    return (int64_t)(v ^ sign) - (int64_t)sign;
}

struct pb_branch pb_arch_call(const uint8_t *before, size_t n, uint64_t ret_addr)
{
    struct pb_branch b = {0, 0};
    uint32_t insn;

    if (n < sizeof insn)
        return b;
    memcpy(&insn, before + n - sizeof insn, sizeof insn);
    if ((insn & 0xfc000000) == 0x94000000)
        b.to = ret_addr - sizeof insn + (uint64_t)(sign_extend(insn, 26) * 4);
    return b;
}

/* adrp x16, page; ldr x17, [x16, offset]; add; br x17; maybe behind a bti. */
struct pb_branch pb_arch_stub(const uint8_t *code, size_t len, uint64_t vaddr)
{
    struct pb_branch b = {0, 0};
    uint32_t v[3];
    uint32_t pages;

    if (len < sizeof v)
        return b;
    memcpy(v, code, sizeof v);
    if (v[0] == 0xd503245f) { /* bti c */
        vaddr += 4;
        v[0] = v[1];
        v[1] = v[2];
    }
    if ((v[0] & 0xfc000000) == 0x14000000) {
        b.to = vaddr + (uint64_t)(sign_extend(v[0], 26) * 4);
    } else if ((v[0] & 0x9f00001f) == 0x90000010 && (v[1] & 0xffc003ff) == 0xf9400211) {
        pages = (v[0] >> 29 & 3) | (v[0] >> 5 & 0x7ffff) << 2;
        b.slot = (vaddr & ~(uint64_t)4095) + (uint64_t)(sign_extend(pages, 21) * 4096) +
                 (v[1] >> 10 & 0xfff) * 8;
    }
    return b;
}

/* b, b.cond, cbz and cbnz, tbz and tbnz: their distance in bytes, or 0. */
static int64_t jump_distance(uint32_t insn)
{
    if ((insn & 0xfc000000) == 0x14000000)
        return sign_extend(insn, 26) * 4;
    if ((insn & 0xff000000) == 0x54000000 || (insn & 0x7e000000) == 0x34000000)
        return sign_extend(insn >> 5, 19) * 4;
    if ((insn & 0x7e000000) == 0x36000000)
        return sign_extend(insn >> 5, 14) * 4;
    return 0;
}

size_t pb_arch_jumps_out(const uint8_t *code, size_t len, uint64_t vaddr, uint64_t *v, size_t cap)
{
    size_t n = 0;
    uint32_t insn;

    for (size_t off = 0; n < cap && off + sizeof insn <= len; off += sizeof insn) {
        int64_t distance;

        memcpy(&insn, code + off, sizeof insn);
        distance = jump_distance(insn);
        if (distance && off + (uint64_t)distance >= len)
            v[n++] = vaddr + off + (uint64_t)distance;
    }
    return n;
}

bool pb_arch_jumps_into(const uint8_t *code, size_t len, uint64_t vaddr, uint64_t start,
                        uint64_t end)
{
    uint32_t insn;

    for (size_t off = 0; off + sizeof insn <= len; off += sizeof insn) {
        int64_t distance;

        memcpy(&insn, code + off, sizeof insn);
        distance = jump_distance(insn);
        if (distance && vaddr + off + (uint64_t)distance - start < end - start)
            return true;
    }
    return false;
}

static void set_reg(struct pb_regs *regs, unsigned reg, uint64_t v)
{
    regs->r[reg] = v;
    regs->known |= BIT(reg);
}

static void finish(struct pb_guess *g, uint64_t ra, uint64_t cfa, enum pb_native_how how)
{
    g->cfa = cfa;
    g->how = how;
    g->regs.pc = pb_arch_strip(ra);
    g->regs.sp = cfa;
    set_reg(&g->regs, SP, cfa);
    set_reg(&g->regs, LR, ra);
}

/* The frame pointer chain: [x29] is the caller's x29, [x29 + 8] the return address. */
static bool guess_frame_pointer(const struct pb_regs *regs, const struct pb_stack_reader *s,
                                struct pb_guess *g)
{
    uint64_t fp = regs->r[FP], pair[2];

    if (!(regs->known >> FP & 1) || fp < regs->sp || fp % 8 != 0 ||
        !pb_stack_read(s, fp, pair, sizeof pair) || pair[1] == 0)
        return false;
    memset(g, 0, sizeof *g);
    set_reg(&g->regs, FP, pair[0]);
    finish(g, pair[1], fp + 16, PB_NATIVE_FP);
    return true;
}

size_t pb_arch_guess(const struct pb_function *f, const struct pb_regs *regs,
                     const struct pb_stack_reader *s, struct pb_guess v[PB_GUESSES_MAX])
{
    size_t n = 0;

    /* A leaf, or a call to nowhere: the return address never left its register. */
    if (f->is_first && (regs->known >> LR & 1) && regs->r[LR] != 0) {
        v[n].regs = *regs;
        finish(&v[n], regs->r[LR], regs->sp, PB_NATIVE_PROLOGUE);
        n++;
    }
    if (guess_frame_pointer(regs, s, &v[n]))
        n++;
    return n;
}

void pb_regs_from_sp_pc(struct pb_regs *regs, uint64_t sp, uint64_t pc)
{
    memset(regs, 0, sizeof *regs);
    regs->sp = regs->r[SP] = sp;
    regs->pc = pc;
    regs->known = BIT(SP);
}

bool pb_regs_from_prstatus(struct pb_regs *regs, const void *gpr, size_t size)
{
    struct user_regs_struct u;

    if (size < sizeof u) /* a 32-bit thread has fewer */
        return false;
    memcpy(&u, gpr, sizeof u);
    memset(regs, 0, sizeof *regs);
    memcpy(regs->r, u.regs, sizeof u.regs);
    regs->r[SP] = regs->sp = u.sp;
    regs->pc = u.pc;
    regs->known = BIT(SP + 1) - 1;
    return true;
}
