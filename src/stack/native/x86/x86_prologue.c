/*
 * x86_prologue.c - possible callers, from what the code did to the stack.
 *
 * Assembler libraries (a tenth of a large numerical library's code) come
 * without call frame information. Two ways still tell where the return
 * address lies:
 *   forward:  from pc straight to a return, if no branch stands in between;
 *   backward: from the function's start to pc, following the stack pointer,
 *             its copies in other registers and in aligned frames.
 */
#include "stack/native/x86/x86_prologue.h"

#include "stack/native/x86/x86_state.h"

/* DWARF numbers of the registers in the order of the hardware. */
static const uint8_t dwarf[16] = {0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15};
static const uint8_t callee_saved[] = {3, 5, 12, 13, 14, 15}; /* rbx rbp r12..r15 */

enum { DWARF_RSP = 7, DWARF_RBP = 6, DWARF_RA = 16 };

struct guesser {
    const struct pb_regs *regs;
    const struct pb_stack_reader *s;
    struct pb_guess *v;
    size_t n;
};

static bool actual(const struct pb_regs *regs, uint8_t hw, uint64_t *ret)
{
    if (!(regs->known >> dwarf[hw] & 1))
        return false;
    *ret = regs->r[dwarf[hw]];
    return true;
}

static void set_reg(struct pb_regs *regs, unsigned reg, uint64_t v)
{
    regs->r[reg] = v;
    regs->known |= (uint64_t)1 << reg;
}

/* Completes a guess: the return address lies at `entry`. False when it cannot be. */
static bool finish(struct guesser *g, struct pb_guess *guess, uint64_t entry,
                   enum pb_native_how how)
{
    uint64_t ra;

    if (g->n == PB_GUESSES_MAX || entry % 8 != 0 || entry < g->regs->sp ||
        !pb_stack_u64(g->s, entry, &ra) || ra == 0)
        return false;
    guess->cfa = entry + 8;
    guess->how = how;
    guess->regs.pc = ra;
    guess->regs.sp = entry + 8;
    set_reg(&guess->regs, DWARF_RSP, entry + 8);
    set_reg(&guess->regs, DWARF_RA, ra);
    for (size_t i = 0; i < g->n; i++) {
        if (g->v[i].cfa == guess->cfa)
            return false;
    }
    g->v[g->n++] = *guess;
    return true;
}

/* A symbolic value of a run that began at pc, where all registers are as captured. */
static bool resolve(const struct guesser *g, struct pb_x86_value v, uint64_t *ret)
{
    uint64_t base;

    if ((v.kind != PB_X86_REG && v.kind != PB_X86_MEM) || !actual(g->regs, v.reg, &base))
        return false;
    *ret = base + (uint64_t)v.n;
    return v.kind == PB_X86_REG || pb_stack_u64(g->s, *ret, ret);
}

static void guess_forward(struct guesser *g, const uint8_t *code, size_t len, size_t at)
{
    struct pb_guess guess = {.cfa = 0};
    struct pb_x86_state st;
    uint64_t entry, v;

    if (!pb_x86_state_at_return(&st, code, len, at) || !resolve(g, st.reg[PB_X86_RSP], &entry))
        return;
    for (size_t i = 0; i < sizeof callee_saved; i++) {
        if (resolve(g, st.reg[callee_saved[i]], &v))
            set_reg(&guess.regs, dwarf[callee_saved[i]], v);
    }
    finish(g, &guess, entry, PB_NATIVE_PROLOGUE);
}

/* The address of a slot, given where the function was entered. */
static bool slot_address(const struct guesser *g, const struct pb_x86_state *st,
                         struct pb_x86_value addr, const uint64_t *entry, uint64_t *ret)
{
    if (entry && addr.kind == PB_X86_REG && addr.reg == PB_X86_RSP) {
        *ret = *entry + (uint64_t)addr.n;
        return true;
    }
    for (uint8_t r = 0; r < 16; r++) {
        if (st->reg[r].kind == addr.kind && st->reg[r].reg == addr.reg && actual(g->regs, r, ret)) {
            *ret = *ret - (uint64_t)st->reg[r].n + (uint64_t)addr.n;
            return true;
        }
    }
    return false;
}

/* Registers that the function has saved come from there; the others it must not touch. */
static void restore_saved(const struct guesser *g, const struct pb_x86_state *st, uint64_t entry,
                          struct pb_regs *regs)
{
    for (size_t i = 0; i < sizeof callee_saved; i++) {
        uint8_t r = callee_saved[i];
        bool saved = false;
        uint64_t at, v;

        for (size_t k = 0; k < st->nslots && !saved; k++) {
            const struct pb_x86_slot *slot = &st->slot[k];

            if (slot->what.kind != PB_X86_REG || slot->what.reg != r || slot->what.n != 0)
                continue;
            saved = true;
            if (slot_address(g, st, slot->addr, &entry, &at) && pb_stack_u64(g->s, at, &v))
                set_reg(regs, dwarf[r], v);
        }
        if (!saved && actual(g->regs, r, &v))
            set_reg(regs, dwarf[r], v);
    }
}

static void guess_entry(struct guesser *g, const struct pb_x86_state *st, uint64_t entry)
{
    struct pb_guess guess = {.cfa = 0};

    restore_saved(g, st, entry, &guess.regs);
    finish(g, &guess, entry, PB_NATIVE_PROLOGUE);
}

static bool is_entry_sp(struct pb_x86_value v)
{
    return v.kind == PB_X86_REG && v.reg == PB_X86_RSP;
}

static void guess_backward(struct guesser *g, const struct pb_function *f, size_t at)
{
    static const uint8_t order[16] = {4, 5, 0, 1, 2, 3, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    struct pb_x86_state st;
    uint64_t v;

    if (!pb_x86_state_at(&st, f->bytes, f->len, at))
        return;
    if (is_entry_sp(st.reg[PB_X86_RSP])) {
        guess_entry(g, &st, g->regs->sp - (uint64_t)st.reg[PB_X86_RSP].n);
        return; /* exact as far as decoding goes: no other anchor can be better */
    }
    for (size_t k = 0; k < st.nslots; k++) {
        const struct pb_x86_slot *slot = &st.slot[k];

        if (is_entry_sp(slot->what) && slot_address(g, &st, slot->addr, NULL, &v) &&
            pb_stack_u64(g->s, v, &v))
            guess_entry(g, &st, v - (uint64_t)slot->what.n);
    }
    for (size_t k = 1; k < sizeof order; k++) {
        if (is_entry_sp(st.reg[order[k]]) && actual(g->regs, order[k], &v))
            guess_entry(g, &st, v - (uint64_t)st.reg[order[k]].n);
    }
}

/* Code that nobody describes (a JIT's) often keeps the chain of frame pointers. */
static void guess_frame_pointer(struct guesser *g)
{
    struct pb_guess guess = {.cfa = 0};
    uint64_t rbp, saved;

    if (!actual(g->regs, PB_X86_RBP, &rbp) || rbp < g->regs->sp || rbp % 8 != 0 ||
        !pb_stack_u64(g->s, rbp, &saved))
        return;
    set_reg(&guess.regs, DWARF_RBP, saved);
    finish(g, &guess, rbp + 8, PB_NATIVE_FP);
}

/* A jump or call to nowhere: the return address is still on top of the stack. */
static void guess_called_nowhere(struct guesser *g)
{
    struct pb_guess guess = {.cfa = 0};

    guess.regs = *g->regs;
    finish(g, &guess, g->regs->sp, PB_NATIVE_PROLOGUE);
}

size_t pb_x86_guess(const struct pb_function *f, const struct pb_regs *regs,
                    const struct pb_stack_reader *s, struct pb_guess v[PB_GUESSES_MAX])
{
    struct guesser g = {regs, s, v, 0};
    size_t at = f->start ? (size_t)(regs->pc - f->start) : 0;

    if (!f->is_code) {
        if (f->is_first)
            guess_called_nowhere(&g);
        return g.n;
    }
    if (at < f->len)
        guess_forward(&g, f->bytes, f->len, at);
    if (f->start && at <= f->len)
        guess_backward(&g, f, at);
    else if (!f->start)
        guess_frame_pointer(&g);
    return g.n;
}

bool pb_x86_ends_with_call(const uint8_t *before, size_t n)
{
    struct pb_x86_insn i;

    for (size_t len = 2; len <= n; len++) {
        if (!pb_x86_decode(&i, before + n - len, len) || i.len != len || i.map != 0)
            continue;
        if (i.opcode == 0xe8 || (i.opcode == 0xff && (i.reg & 7) == 2))
            return true;
    }
    return false;
}

static bool is_direct_jump(const struct pb_x86_insn *i)
{
    if (i->map == 1)
        return !i->is_vector && i->opcode >= 0x80 && i->opcode <= 0x8f;
    return i->map == 0 &&
           ((i->opcode >= 0x70 && i->opcode <= 0x7f) || i->opcode == 0xe9 || i->opcode == 0xeb);
}

size_t pb_x86_jumps_out(const uint8_t *code, size_t len, uint64_t vaddr, uint64_t *v, size_t cap)
{
    struct pb_x86_insn i;
    size_t n = 0;

    for (size_t off = 0; n < cap && off < len; off += i.len) {
        uint64_t to;

        if (!pb_x86_decode(&i, code + off, len - off))
            break;
        to = off + i.len + (uint64_t)i.imm; /* wraps below the start: not inside either */
        if (is_direct_jump(&i) && to >= len)
            v[n++] = vaddr + to;
    }
    return n;
}

bool pb_x86_jumps_into(const uint8_t *code, size_t len, uint64_t vaddr, uint64_t start,
                       uint64_t end)
{
    struct pb_x86_insn i;

    for (size_t off = 0; off < len; off += i.len) {
        uint64_t to;

        if (!pb_x86_decode(&i, code + off, len - off))
            break;
        to = vaddr + off + i.len + (uint64_t)i.imm;
        if (is_direct_jump(&i) && to >= start && to < end)
            return true;
    }
    return false;
}
