/* cfi.c - call frame instructions, and the rules they leave behind. */
#include "stack/native/cfi.h"

#include "stack/native/arch.h"

/* clang-format off */
enum {
    CFA_advance_loc = 0x40, CFA_offset = 0x80, CFA_restore = 0xc0,
    CFA_nop = 0x00, CFA_set_loc, CFA_advance_loc1, CFA_advance_loc2, CFA_advance_loc4,
    CFA_offset_extended, CFA_restore_extended, CFA_undefined, CFA_same_value, CFA_register,
    CFA_remember_state, CFA_restore_state, CFA_def_cfa, CFA_def_cfa_register, CFA_def_cfa_offset,
    CFA_def_cfa_expression, CFA_expression, CFA_offset_extended_sf, CFA_def_cfa_sf,
    CFA_def_cfa_offset_sf, CFA_val_offset, CFA_val_offset_sf, CFA_val_expression,
    CFA_advance_loc8 = 0x1d,
    CFA_negate_ra_state_with_pc = 0x2c, CFA_negate_ra_state = 0x2d, CFA_args_size = 0x2e,
    CFA_negative_offset_extended = 0x2f,
};
/* clang-format on */

#define REMEMBER_MAX 8 /* compilers nest one or two deep */

struct machine {
    const struct pb_fde *fde;
    struct pb_cursor c;
    uint64_t c_vaddr; /* address of c's first byte, for pc-relative locations */
    const uint8_t *begin;
    uint64_t loc, want;
    struct pb_cfi_row *row;
    const struct pb_cfi_row *initial; /* NULL while the CIE's own instructions run */
    struct pb_cfi_row saved[REMEMBER_MAX];
    size_t nsaved;
    bool failed;
};

bool pb_stack_read(const struct pb_stack_reader *s, uint64_t addr, void *buf, size_t len)
{
    const struct pb_stack_copy *k = s->copy;

    if (k && addr >= k->base && addr - k->base <= k->len && len <= k->len - (addr - k->base)) {
        memcpy(buf, k->bytes + (addr - k->base), len);
        return true;
    }
    return s->mem && pb_mem_get(s->mem, addr, buf, len);
}

bool pb_stack_u64(const struct pb_stack_reader *s, uint64_t addr, uint64_t *ret)
{
    return pb_stack_read(s, addr, ret, sizeof *ret);
}

/* Registers that we do not follow (vectors) have a rule that nobody reads. */
static void set_rule(struct machine *m, uint64_t reg, enum pb_cfi_kind kind, int64_t n)
{
    if (reg < PB_REGS_MAX)
        m->row->reg[reg] = (struct pb_cfi_rule){.kind = kind, .n = n};
}

static void set_expr(struct machine *m, uint64_t reg, enum pb_cfi_kind kind)
{
    uint64_t len = pb_cursor_uleb(&m->c);
    struct pb_cursor expr = pb_cursor_bytes(&m->c, len);

    if (reg < PB_REGS_MAX)
        m->row->reg[reg] = (struct pb_cfi_rule){.kind = kind, .expr = expr};
}

static int64_t factored(const struct machine *m, uint64_t n)
{
    return (int64_t)(n * (uint64_t)m->fde->data_align);
}

static void restore_rule(struct machine *m, uint64_t reg)
{
    if (!m->initial)
        m->failed = true;
    else if (reg < PB_REGS_MAX)
        m->row->reg[reg] = m->initial->reg[reg];
}

static void remember(struct machine *m)
{
    if (m->nsaved == REMEMBER_MAX)
        m->failed = true;
    else
        m->saved[m->nsaved++] = *m->row;
}

static void restore_state(struct machine *m)
{
    if (m->nsaved == 0)
        m->failed = true;
    else
        *m->row = m->saved[--m->nsaved];
}

static void set_loc(struct machine *m)
{
    uint64_t at = m->c_vaddr + (uint64_t)(m->c.p - m->begin);

    m->loc = pb_eh_pointer(&m->c, m->fde->encoding, at, 0);
}

static void def_cfa(struct machine *m, uint64_t reg, int64_t offset)
{
    m->row->cfa = (struct pb_cfi_rule){.kind = PB_RULE_REGISTER, .n = (int64_t)reg};
    m->row->cfa_offset = offset;
}

/* A new register or offset alone makes sense only for a CFA that is not an expression. */
static void change_cfa(struct machine *m, const uint64_t *reg, const int64_t *offset)
{
    if (m->row->cfa.kind != PB_RULE_REGISTER) {
        m->failed = true;
        return;
    }
    if (reg)
        m->row->cfa.n = (int64_t)*reg;
    if (offset)
        m->row->cfa_offset = *offset;
}

static void execute_cfa(struct machine *m, uint8_t op)
{
    uint64_t reg, len;
    int64_t offset;

    switch (op) {
    case CFA_def_cfa:
        reg = pb_cursor_uleb(&m->c);
        def_cfa(m, reg, (int64_t)pb_cursor_uleb(&m->c));
        break;
    case CFA_def_cfa_sf:
        reg = pb_cursor_uleb(&m->c);
        def_cfa(m, reg, factored(m, (uint64_t)pb_cursor_sleb(&m->c)));
        break;
    case CFA_def_cfa_register:
        reg = pb_cursor_uleb(&m->c);
        change_cfa(m, &reg, NULL);
        break;
    case CFA_def_cfa_offset:
        offset = (int64_t)pb_cursor_uleb(&m->c);
        change_cfa(m, NULL, &offset);
        break;
    case CFA_def_cfa_offset_sf:
        offset = factored(m, (uint64_t)pb_cursor_sleb(&m->c));
        change_cfa(m, NULL, &offset);
        break;
    default: /* CFA_def_cfa_expression */
        len = pb_cursor_uleb(&m->c);
        m->row->cfa.kind = PB_RULE_VAL_EXPR;
        m->row->cfa.expr = pb_cursor_bytes(&m->c, len);
        break;
    }
}

static void execute_rule(struct machine *m, uint8_t op)
{
    struct pb_cursor *c = &m->c;
    uint64_t reg = pb_cursor_uleb(c);

    switch (op) {
    case CFA_offset_extended:
        set_rule(m, reg, PB_RULE_OFFSET, factored(m, pb_cursor_uleb(c)));
        break;
    case CFA_offset_extended_sf:
        set_rule(m, reg, PB_RULE_OFFSET, factored(m, (uint64_t)pb_cursor_sleb(c)));
        break;
    case CFA_negative_offset_extended:
        set_rule(m, reg, PB_RULE_OFFSET, factored(m, 0 - pb_cursor_uleb(c)));
        break;
    case CFA_val_offset:
        set_rule(m, reg, PB_RULE_VAL_OFFSET, factored(m, pb_cursor_uleb(c)));
        break;
    case CFA_val_offset_sf:
        set_rule(m, reg, PB_RULE_VAL_OFFSET, factored(m, (uint64_t)pb_cursor_sleb(c)));
        break;
    case CFA_restore_extended:
        restore_rule(m, reg);
        break;
    case CFA_undefined:
        set_rule(m, reg, PB_RULE_UNDEFINED, 0);
        break;
    case CFA_same_value:
        set_rule(m, reg, PB_RULE_SAME, 0);
        break;
    case CFA_register:
        set_rule(m, reg, PB_RULE_REGISTER, (int64_t)pb_cursor_uleb(c));
        break;
    case CFA_expression:
        set_expr(m, reg, PB_RULE_EXPR);
        break;
    default:
        set_expr(m, reg, PB_RULE_VAL_EXPR);
        break; /* CFA_val_expression */
    }
}

static void execute(struct machine *m, uint8_t op)
{
    struct pb_cursor *c = &m->c;
    uint64_t align = m->fde->code_align;

    switch (op) {
    case CFA_nop:
        break;
    case CFA_set_loc:
        set_loc(m);
        break;
    case CFA_advance_loc1:
        m->loc += align * pb_cursor_u8(c);
        break;
    case CFA_advance_loc2:
        m->loc += align * pb_cursor_u16(c);
        break;
    case CFA_advance_loc4:
        m->loc += align * pb_cursor_u32(c);
        break;
    case CFA_advance_loc8:
        m->loc += align * pb_cursor_u64(c);
        break;
    case CFA_remember_state:
        remember(m);
        break;
    case CFA_restore_state:
        restore_state(m);
        break;
    case CFA_args_size:
        pb_cursor_uleb(c);
        break;
    case CFA_negate_ra_state:
    case CFA_negate_ra_state_with_pc:
        m->row->ra_signed = !m->row->ra_signed;
        break;
    case CFA_def_cfa:
    case CFA_def_cfa_register:
    case CFA_def_cfa_offset:
    case CFA_def_cfa_expression:
    case CFA_def_cfa_sf:
    case CFA_def_cfa_offset_sf:
        execute_cfa(m, op);
        break;
    case CFA_offset_extended:
    case CFA_restore_extended:
    case CFA_undefined:
    case CFA_same_value:
    case CFA_register:
    case CFA_expression:
    case CFA_offset_extended_sf:
    case CFA_val_offset:
    case CFA_val_offset_sf:
    case CFA_val_expression:
    case CFA_negative_offset_extended:
        execute_rule(m, op);
        break;
    default:
        m->failed = true;
        break;
    }
}

/* Runs instructions until they describe addresses behind the wanted one. */
static void run(struct machine *m)
{
    while (!m->failed && !pb_cursor_done(&m->c)) {
        uint8_t op = pb_cursor_u8(&m->c);
        uint8_t low = op & 0x3f;

        switch (op & 0xc0) {
        case CFA_advance_loc:
            m->loc += m->fde->code_align * low;
            break;
        case CFA_offset:
            set_rule(m, low, PB_RULE_OFFSET, factored(m, pb_cursor_uleb(&m->c)));
            break;
        case CFA_restore:
            restore_rule(m, low);
            break;
        default:
            execute(m, op);
            break;
        }
        if (m->loc > m->want)
            return;
    }
    m->failed |= m->c.bad;
}

enum pb_cfi_result pb_cfi_row(const struct pb_fde *fde, uint64_t vaddr, struct pb_cfi_row *ret)
{
    struct pb_cfi_row initial;
    struct machine m;

    memset(ret, 0, sizeof *ret);
    m.fde = fde;
    m.c = fde->initial;
    m.begin = m.c.p;
    m.c_vaddr = 0;
    m.loc = fde->start;
    m.want = vaddr;
    m.row = ret;
    m.initial = NULL;
    m.nsaved = 0;
    m.failed = false;
    run(&m);
    if (m.failed)
        return PB_CFI_BAD;
    initial = *ret;
    m.initial = &initial;
    m.c = fde->instructions;
    m.begin = m.c.p;
    m.c_vaddr = fde->instructions_vaddr;
    run(&m);
    return m.failed ? PB_CFI_BAD : PB_CFI_OK;
}

static enum pb_cfi_result find_cfa(const struct pb_cfi_row *row, const struct pb_regs *regs,
                                   const struct pb_stack_reader *s, uint64_t bias, uint64_t *ret)
{
    if (row->cfa.kind == PB_RULE_VAL_EXPR)
        return pb_expr_eval(row->cfa.expr, regs, s, bias, NULL, ret);
    if (row->cfa.kind != PB_RULE_REGISTER || row->cfa.n < 0 || row->cfa.n >= PB_REGS_MAX)
        return PB_CFI_BAD;
    if (!(regs->known >> row->cfa.n & 1))
        return PB_CFI_NO_REG;
    *ret = regs->r[row->cfa.n] + (uint64_t)row->cfa_offset;
    return PB_CFI_OK;
}

/* The caller's value of one register; PB_CFI_END where the rule says that there is none. */
static enum pb_cfi_result find_reg(const struct pb_cfi_rule *rule, unsigned reg,
                                   const struct pb_regs *regs, const struct pb_stack_reader *s,
                                   uint64_t bias, uint64_t cfa, uint64_t *ret)
{
    enum pb_cfi_result result;
    uint64_t from = reg;

    switch (rule->kind) {
    case PB_RULE_UNDEFINED:
        return PB_CFI_END;
    case PB_RULE_OFFSET:
        return pb_stack_u64(s, cfa + (uint64_t)rule->n, ret) ? PB_CFI_OK : PB_CFI_NO_MEMORY;
    case PB_RULE_VAL_OFFSET:
        *ret = cfa + (uint64_t)rule->n;
        return PB_CFI_OK;
    case PB_RULE_EXPR:
        result = pb_expr_eval(rule->expr, regs, s, bias, &cfa, &from);
        if (result != PB_CFI_OK)
            return result;
        return pb_stack_u64(s, from, ret) ? PB_CFI_OK : PB_CFI_NO_MEMORY;
    case PB_RULE_VAL_EXPR:
        return pb_expr_eval(rule->expr, regs, s, bias, &cfa, ret);
    case PB_RULE_REGISTER:
        from = (uint64_t)rule->n;
        break;
    case PB_RULE_UNSPECIFIED:
        if (reg == pb_arch.sp) { /* by definition of the CFA */
            *ret = cfa;
            return PB_CFI_OK;
        }
        if (!(pb_arch.callee_saved >> reg & 1))
            return PB_CFI_NO_REG;
        break;
    case PB_RULE_SAME:
        break;
    }
    if (from >= PB_REGS_MAX || !(regs->known >> from & 1))
        return PB_CFI_NO_REG;
    *ret = regs->r[from];
    return PB_CFI_OK;
}

enum pb_cfi_result pb_cfi_apply(const struct pb_fde *fde, const struct pb_cfi_row *row,
                                const struct pb_stack_reader *s, uint64_t bias,
                                struct pb_regs *regs, uint64_t *ret_cfa)
{
    struct pb_regs caller = {.known = 0};
    enum pb_cfi_result result;
    uint64_t cfa;

    result = find_cfa(row, regs, s, bias, &cfa);
    if (result != PB_CFI_OK)
        return result;
    *ret_cfa = cfa;
    for (unsigned i = 0; i < pb_arch.nregs; i++) {
        result = find_reg(&row->reg[i], i, regs, s, bias, cfa, &caller.r[i]);
        if (result == PB_CFI_OK)
            caller.known |= (uint64_t)1 << i;
        else if (i == fde->ra_reg || i == pb_arch.sp)
            return result;
    }
    if (fde->ra_reg >= pb_arch.nregs)
        return PB_CFI_BAD;
    caller.pc = caller.r[fde->ra_reg];
    caller.pc = pb_arch_strip(caller.pc);
    caller.sp = caller.r[pb_arch.sp];
    *regs = caller;
    return PB_CFI_OK;
}
