/* recover.c - the frame pointer of a frame whose rules need it and nobody knows it. */
#include "stack/native/recover.h"

#define SCAN_MAX 16384u /* bytes of one frame that are searched */
#define STEP 8u

static bool is_known(const struct pb_regs *regs, unsigned reg)
{
    return regs->known >> reg & 1;
}

/* The frame's own rules, with that frame pointer. */
static enum pb_cfi_result apply(const struct pb_recover *r, const struct pb_stack_reader *s,
                                uint64_t fp, struct pb_guess *ret)
{
    ret->how = PB_NATIVE_FP;
    ret->regs = r->regs;
    ret->regs.r[pb_arch.fp] = fp;
    ret->regs.known |= (uint64_t)1 << pb_arch.fp;
    return pb_cfi_apply(&r->fde, &r->row, s, r->bias, &ret->regs, &ret->cfa);
}

/* Nothing that a frame has saved lies below its stack pointer, nor its end below its middle. */
static bool is_possible(const struct pb_recover *r, uint64_t fp, uint64_t cfa)
{
    uint64_t sp = r->regs.sp;

    if (cfa <= sp || cfa <= fp)
        return false;
    for (unsigned i = 0; i < pb_arch.nregs; i++) {
        const struct pb_cfi_rule *rule = &r->row.reg[i];

        if (rule->kind == PB_RULE_OFFSET && cfa + (uint64_t)rule->n < sp)
            return false;
    }
    return true;
}

/* Can code that was called at `to` have jumped to the frame's function (a tail call)? */
static bool leads_here(const struct pb_recover *r, struct pb_modules *ms, uint64_t to)
{
    struct pb_module *m = pb_modules_find(ms, to);
    struct pb_elf_range code;
    struct pb_fde fde;
    size_t len;
    uint64_t here = r->fde.start + r->bias;

    if (!m || !m->has_eh || !pb_eh_find(&m->eh, to - m->bias, &fde) ||
        !pb_elf_at(&m->elf, to - m->bias, &code))
        return false;
    len = fde.end - (to - m->bias);
    if (len > code.size)
        len = code.size;
    return pb_arch_jumps_into(code.data, len, to, here, here + (r->fde.end - r->fde.start));
}

static bool try_pointer(const struct pb_recover *r, struct pb_modules *ms,
                        const struct pb_stack_reader *s, uint64_t fp, struct pb_guess *ret)
{
    return apply(r, s, fp, ret) == PB_CFI_OK && is_possible(r, fp, ret->cfa) &&
           pb_modules_is_after_call(ms, ret->regs.pc);
}

static bool is_called(const struct pb_recover *r, struct pb_modules *ms, uint64_t ret_addr)
{
    uint64_t to = pb_modules_callee(ms, ret_addr);

    return to && (to == r->fde.start + r->bias || leads_here(r, ms, to));
}

/* Does the FDE begin where a function is entered? Parts that were split off do not. */
static bool starts_function(const struct pb_fde *fde)
{
    struct pb_cfi_row row;

    return pb_cfi_row(fde, fde->start, &row) == PB_CFI_OK && row.cfa.kind == PB_RULE_REGISTER &&
           row.cfa.n == (int64_t)pb_arch.sp && row.cfa_offset == pb_arch.entry_cfa;
}

static void decode(struct pb_recover *r, const struct pb_module *m, const struct pb_stack_reader *s)
{
    struct pb_function f = {.start = r->fde.start + r->bias, .is_code = true};
    struct pb_guess v[PB_GUESSES_MAX];
    struct pb_elf_range code;
    uint64_t size = r->fde.end - r->fde.start;

    if (r->row.cfa.kind != PB_RULE_REGISTER || !starts_function(&r->fde) ||
        !pb_elf_at(&m->elf, r->fde.start, &code))
        return;
    f.bytes = code.data;
    f.len = code.size < size ? code.size : size;
    r->ndecoded = pb_arch_guess(&f, &r->regs, s, v);
    for (size_t i = 0; i < r->ndecoded; i++)
        r->decoded[i] = v[i].cfa - (uint64_t)r->row.cfa_offset;
}

bool pb_recover_init(struct pb_recover *r, const struct pb_module *m, const struct pb_fde *fde,
                     const struct pb_cfi_row *row, const struct pb_regs *regs,
                     const struct pb_stack_reader *s)
{
    struct pb_stack_reader copied = {s->copy, NULL};
    struct pb_guess any;

    *r = (struct pb_recover){.fde = *fde, .row = *row, .bias = m->bias, .regs = *regs};
    if (is_known(regs, pb_arch.fp) || regs->sp % STEP != 0 || fde->is_signal ||
        apply(r, &copied, regs->sp, &any) == PB_CFI_NO_REG)
        return false;
    decode(r, m, &copied);
    return true;
}

bool pb_recover_next(struct pb_recover *r, struct pb_modules *ms, const struct pb_stack_reader *s,
                     struct pb_guess *ret)
{
    struct pb_stack_reader copied = {s->copy, NULL}; /* no system call for each of the tries */

    while (r->next < r->ndecoded) {
        if (try_pointer(r, ms, &copied, r->decoded[r->next++], ret))
            return true;
    }
    while (r->scanned < SCAN_MAX) {
        uint64_t fp = r->regs.sp + r->scanned;

        r->scanned += STEP;
        if (try_pointer(r, ms, &copied, fp, ret) && is_called(r, ms, ret->regs.pc))
            return true;
    }
    return false;
}
