/* expr.c - DWARF expressions, the part that call frame information may use. */
#include "stack/native/cfi.h"

/* clang-format off */
enum {
    OP_addr = 0x03, OP_deref = 0x06,
    OP_const1u = 0x08, OP_const1s, OP_const2u, OP_const2s, OP_const4u, OP_const4s, OP_const8u,
    OP_const8s, OP_constu, OP_consts, OP_dup, OP_drop, OP_over, OP_pick, OP_swap, OP_rot,
    OP_abs = 0x19, OP_and, OP_div, OP_minus, OP_mod, OP_mul, OP_neg, OP_not, OP_or, OP_plus,
    OP_plus_uconst, OP_shl, OP_shr, OP_shra, OP_xor, OP_bra, OP_eq, OP_ge, OP_gt, OP_le, OP_lt,
    OP_ne, OP_skip,
    OP_lit0 = 0x30, OP_lit31 = 0x4f, OP_reg0 = 0x50, OP_reg31 = 0x6f, OP_breg0 = 0x70,
    OP_breg31 = 0x8f, OP_regx = 0x90, OP_bregx = 0x92, OP_deref_size = 0x94, OP_nop = 0x96,
};
/* clang-format on */

#define STACK_MAX 64
#define STEPS_MAX 4096 /* an expression may branch backwards for ever */

struct machine {
    struct pb_cursor code;
    const uint8_t *begin;
    const struct pb_regs *regs;
    const struct pb_stack_reader *s;
    uint64_t bias;
    uint64_t stack[STACK_MAX];
    size_t n;
    enum pb_cfi_result result;
};

static void fail(struct machine *m, enum pb_cfi_result why)
{
    if (m->result == PB_CFI_OK)
        m->result = why;
}

static void push(struct machine *m, uint64_t v)
{
    if (m->n == STACK_MAX)
        fail(m, PB_CFI_BAD);
    else
        m->stack[m->n++] = v;
}

static uint64_t pop(struct machine *m)
{
    if (m->n == 0) {
        fail(m, PB_CFI_BAD);
        return 0;
    }
    return m->stack[--m->n];
}

/* The value `depth` below the top. */
static uint64_t peek(struct machine *m, size_t depth)
{
    if (depth >= m->n) {
        fail(m, PB_CFI_BAD);
        return 0;
    }
    return m->stack[m->n - 1 - depth];
}

static void push_reg(struct machine *m, uint64_t reg, int64_t offset)
{
    if (reg >= PB_REGS_MAX || !(m->regs->known >> reg & 1)) {
        fail(m, PB_CFI_NO_REG);
        return;
    }
    push(m, m->regs->r[reg] + (uint64_t)offset);
}

static void deref(struct machine *m, size_t size)
{
    uint64_t addr = pop(m), v = 0;

    if (m->result != PB_CFI_OK)
        return;
    if (size == 0 || size > 8)
        fail(m, PB_CFI_BAD);
    else if (!pb_stack_read(m->s, addr, &v, size))
        fail(m, PB_CFI_NO_MEMORY);
    else
        push(m, v);
}

static void jump(struct machine *m, int16_t distance)
{
    int64_t to = (m->code.p - m->begin) + distance;

    if (m->code.bad || to < 0 || to > m->code.end - m->begin)
        fail(m, PB_CFI_BAD);
    else
        m->code.p = m->begin + to;
}

static uint64_t divide(struct machine *m, uint64_t a, uint64_t b)
{
    if (b == 0 || (a == (uint64_t)INT64_MIN && b == UINT64_MAX)) {
        fail(m, PB_CFI_BAD);
        return 0;
    }
    return (uint64_t)((int64_t)a / (int64_t)b);
}

static uint64_t shift_right_signed(uint64_t a, uint64_t b)
{
    uint64_t sign = (int64_t)a < 0 ? ~(uint64_t)0 : 0;

    if (b == 0)
        return a;
    return b > 63 ? sign : a >> b | sign << (64 - b);
}

static void binary(struct machine *m, uint8_t op)
{
    uint64_t b = pop(m), a = pop(m);
    int64_t sa = (int64_t)a, sb = (int64_t)b;

    /* clang-format off */
    switch (op) {
    case OP_and: push(m, a & b); break;
    case OP_or: push(m, a | b); break;
    case OP_xor: push(m, a ^ b); break;
    case OP_plus: push(m, a + b); break;
    case OP_minus: push(m, a - b); break;
    case OP_mul: push(m, a * b); break;
    case OP_div: push(m, divide(m, a, b)); break;
    case OP_mod: push(m, b ? a % b : 0); break;
    case OP_shl: push(m, b > 63 ? 0 : a << b); break;
    case OP_shr: push(m, b > 63 ? 0 : a >> b); break;
    case OP_shra: push(m, shift_right_signed(a, b)); break;
    case OP_eq: push(m, a == b); break;
    case OP_ne: push(m, a != b); break;
    case OP_ge: push(m, sa >= sb); break;
    case OP_gt: push(m, sa > sb); break;
    case OP_le: push(m, sa <= sb); break;
    case OP_lt: push(m, sa < sb); break;
    default: fail(m, PB_CFI_BAD); break;
    }
    /* clang-format on */
}

static void constant(struct machine *m, uint8_t op)
{
    struct pb_cursor *c = &m->code;

    switch (op) {
    case OP_const1u:
        push(m, pb_cursor_u8(c));
        break;
    case OP_const1s:
        push(m, (uint64_t)(int64_t)(int8_t)pb_cursor_u8(c));
        break;
    case OP_const2u:
        push(m, pb_cursor_u16(c));
        break;
    case OP_const2s:
        push(m, (uint64_t)(int64_t)(int16_t)pb_cursor_u16(c));
        break;
    case OP_const4u:
        push(m, pb_cursor_u32(c));
        break;
    case OP_const4s:
        push(m, (uint64_t)(int64_t)(int32_t)pb_cursor_u32(c));
        break;
    case OP_const8u:
    case OP_const8s:
        push(m, pb_cursor_u64(c));
        break;
    case OP_constu:
        push(m, pb_cursor_uleb(c));
        break;
    default:
        push(m, (uint64_t)pb_cursor_sleb(c));
        break;
    }
}

static void rearrange(struct machine *m, uint8_t op)
{
    uint64_t a, b, c;

    switch (op) {
    case OP_dup:
        push(m, peek(m, 0));
        break;
    case OP_drop:
        pop(m);
        break;
    case OP_over:
        push(m, peek(m, 1));
        break;
    case OP_pick:
        push(m, peek(m, pb_cursor_u8(&m->code)));
        break;
    case OP_swap:
        a = pop(m), b = pop(m);
        push(m, a), push(m, b);
        break;
    default: /* OP_rot */
        a = pop(m), b = pop(m), c = pop(m);
        push(m, a), push(m, c), push(m, b);
        break;
    }
}

static void execute_other(struct machine *m, uint8_t op)
{
    uint64_t v;
    int16_t distance;

    switch (op) {
    case OP_addr:
        push(m, pb_cursor_u64(&m->code) + m->bias);
        break;
    case OP_deref:
        deref(m, 8);
        break;
    case OP_deref_size:
        deref(m, pb_cursor_u8(&m->code));
        break;
    case OP_abs:
        v = pop(m);
        push(m, (int64_t)v < 0 ? 0 - v : v);
        break;
    case OP_neg:
        push(m, 0 - pop(m));
        break;
    case OP_not:
        push(m, ~pop(m));
        break;
    case OP_plus_uconst:
        v = pop(m);
        push(m, v + pb_cursor_uleb(&m->code));
        break;
    case OP_skip:
        jump(m, (int16_t)pb_cursor_u16(&m->code));
        break;
    case OP_bra:
        distance = (int16_t)pb_cursor_u16(&m->code);
        if (pop(m))
            jump(m, distance);
        break;
    case OP_regx:
        push_reg(m, pb_cursor_uleb(&m->code), 0);
        break;
    case OP_bregx:
        v = pb_cursor_uleb(&m->code);
        push_reg(m, v, pb_cursor_sleb(&m->code));
        break;
    case OP_nop:
        break;
    default:
        binary(m, op);
        break;
    }
}

static void execute(struct machine *m, uint8_t op)
{
    if (op >= OP_lit0 && op <= OP_lit31)
        push(m, op - OP_lit0);
    else if (op >= OP_reg0 && op <= OP_reg31)
        push_reg(m, op - OP_reg0, 0);
    else if (op >= OP_breg0 && op <= OP_breg31)
        push_reg(m, op - OP_breg0, pb_cursor_sleb(&m->code));
    else if (op >= OP_const1u && op <= OP_consts)
        constant(m, op);
    else if (op >= OP_dup && op <= OP_rot)
        rearrange(m, op);
    else
        execute_other(m, op);
}

enum pb_cfi_result pb_expr_eval(struct pb_cursor code, const struct pb_regs *regs,
                                const struct pb_stack_reader *s, uint64_t bias,
                                const uint64_t *initial, uint64_t *ret)
{
    struct machine m;

    m.code = code;
    m.begin = code.p;
    m.regs = regs;
    m.s = s;
    m.bias = bias;
    m.n = 0;
    m.result = PB_CFI_OK;
    if (initial)
        push(&m, *initial);
    for (int step = 0; m.result == PB_CFI_OK && !pb_cursor_done(&m.code); step++) {
        if (step == STEPS_MAX)
            return PB_CFI_BAD;
        execute(&m, pb_cursor_u8(&m.code));
    }
    if (m.code.bad)
        fail(&m, PB_CFI_BAD);
    if (m.result == PB_CFI_OK)
        *ret = pop(&m);
    return m.result;
}
