/* x86_state.c - following the stack pointer through a function. */
#include "stack/native/x86/x86_state.h"

#include <string.h>

#define EPILOGUE_MAX 64 /* instructions; longer ones have branches */

static const struct pb_x86_value unknown = {PB_X86_UNKNOWN, 0, 0};

static bool is_address(struct pb_x86_value v)
{
    return v.kind == PB_X86_REG || v.kind == PB_X86_ALIGNED;
}

static struct pb_x86_value plus(struct pb_x86_value v, int64_t n)
{
    if (!is_address(v))
        return unknown;
    v.n = (int64_t)((uint64_t)v.n + (uint64_t)n);
    return v;
}

static bool same(struct pb_x86_value a, struct pb_x86_value b)
{
    return a.kind == b.kind && a.reg == b.reg && a.n == b.n;
}

void pb_x86_state_init(struct pb_x86_state *st)
{
    memset(st, 0, sizeof *st);
    for (uint8_t i = 0; i < 16; i++)
        st->reg[i] = (struct pb_x86_value){PB_X86_REG, i, 0};
}

static struct pb_x86_value load(const struct pb_x86_state *st, struct pb_x86_value addr)
{
    if (!is_address(addr))
        return unknown;
    for (size_t i = 0; i < st->nslots; i++) {
        if (same(st->slot[i].addr, addr))
            return st->slot[i].what;
    }
    if (addr.kind != PB_X86_REG)
        return unknown;
    addr.kind = PB_X86_MEM;
    return addr;
}

static void store(struct pb_x86_state *st, struct pb_x86_value addr, struct pb_x86_value what)
{
    size_t i = 0;

    if (!is_address(addr))
        return;
    while (i < st->nslots && !same(st->slot[i].addr, addr))
        i++;
    if (i == PB_X86_SLOTS_MAX)
        return;
    st->slot[i] = (struct pb_x86_slot){addr, what};
    if (i == st->nslots)
        st->nslots++;
}

static void push(struct pb_x86_state *st, struct pb_x86_value what)
{
    st->reg[PB_X86_RSP] = plus(st->reg[PB_X86_RSP], -8);
    store(st, st->reg[PB_X86_RSP], what);
}

static struct pb_x86_value pop(struct pb_x86_state *st)
{
    struct pb_x86_value v = load(st, st->reg[PB_X86_RSP]);

    st->reg[PB_X86_RSP] = plus(st->reg[PB_X86_RSP], 8);
    return v;
}

/* The address of a memory operand, when it is a register plus a constant. */
static struct pb_x86_value operand_address(const struct pb_x86_state *st,
                                           const struct pb_x86_insn *i)
{
    if (!i->is_mem || i->base >= 16 || i->index != PB_X86_NO_REG)
        return unknown;
    return plus(st->reg[i->base], i->disp);
}

/* An instruction that we do not follow writes this register, if it is one. */
static void forget(struct pb_x86_state *st, uint8_t reg)
{
    if (reg < 16)
        st->reg[reg] = unknown;
}

static void align(struct pb_x86_state *st, uint8_t reg)
{
    if (reg >= 16)
        return;
    st->reg[reg] = is_address(st->reg[reg])
                       ? (struct pb_x86_value){PB_X86_ALIGNED, st->naligned++, 0}
                       : unknown;
}

static void step_mov(struct pb_x86_state *st, const struct pb_x86_insn *i)
{
    bool to_rm = i->opcode == 0x89;

    if (!i->wide) {
        if (i->is_mem && to_rm)
            store(st, operand_address(st, i), unknown);
        else
            forget(st, to_rm ? i->rm : i->reg);
    } else if (!i->is_mem) {
        if (to_rm)
            st->reg[i->rm] = st->reg[i->reg];
        else
            st->reg[i->reg] = st->reg[i->rm];
    } else if (to_rm) {
        store(st, operand_address(st, i), st->reg[i->reg]);
    } else {
        st->reg[i->reg] = load(st, operand_address(st, i));
    }
}

/* Opcodes 81 and 83: arithmetic with a constant. */
static void step_arithmetic(struct pb_x86_state *st, const struct pb_x86_insn *i)
{
    if (i->is_mem) {
        store(st, operand_address(st, i), unknown);
        return;
    }
    switch (i->reg & 7) {
    case 0:
        st->reg[i->rm] = i->wide ? plus(st->reg[i->rm], i->imm) : unknown;
        break;
    case 5:
        st->reg[i->rm] = i->wide ? plus(st->reg[i->rm], (int64_t)(0 - (uint64_t)i->imm)) : unknown;
        break;
    case 4:
        align(st, i->rm);
        break;
    case 7:
        break; /* cmp */
    default:
        forget(st, i->rm);
        break;
    }
}

static void after_call(struct pb_x86_state *st)
{
    static const uint8_t scratch[] = {0, 1, 2, 6, 7, 8, 9, 10, 11};

    for (size_t i = 0; i < sizeof scratch; i++)
        forget(st, scratch[i]);
}

/* Opcode ff: inc, dec, call, jmp, push. */
static enum pb_x86_flow step_group5(struct pb_x86_state *st, const struct pb_x86_insn *i)
{
    switch (i->reg & 7) {
    case 2:
    case 3:
        after_call(st);
        return PB_X86_CALL;
    case 4:
    case 5:
        return PB_X86_JUMP;
    case 6:
        push(st, unknown);
        return PB_X86_NEXT;
    default:
        forget(st, i->rm);
        return PB_X86_NEXT;
    }
}

/* In these the reg field is a part of the opcode, not a register. */
static bool is_group(const struct pb_x86_insn *i)
{
    uint8_t op = i->opcode;

    if (i->map == 1)
        return op == 0xba || op == 0xc7 || op == 0xae || (op >= 0x90 && op <= 0x9f);
    if (i->map == 2)
        return op == 0xf3; /* blsr and its like */
    return i->map == 0 && (op == 0x80 || op == 0x81 || op == 0x83 || op == 0x8f || op == 0xc0 ||
                           op == 0xc1 || op == 0xc6 || op == 0xc7 || (op >= 0xd0 && op <= 0xd3) ||
                           op == 0xf6 || op == 0xf7 || op == 0xfe || op == 0xff);
}

/* An instruction that is not followed may write any register that it names. */
static void forget_operands(struct pb_x86_state *st, const struct pb_x86_insn *i)
{
    if (!is_group(i))
        forget(st, i->reg);
    forget(st, i->rm);
}

/* Does an opcode of map 0 that is not followed leave its ModRM registers alone? */
static bool writes_nothing(const struct pb_x86_insn *i)
{
    uint8_t op = i->opcode;

    if (!i->has_modrm)
        return true;
    return (op >= 0x38 && op <= 0x3b) || op == 0x84 || op == 0x85 || (op >= 0xd8 && op <= 0xdf) ||
           ((op == 0x80) && (i->reg & 7) == 7) || ((op == 0xf6 || op == 0xf7) && (i->reg & 7) < 2);
}

/* Does an instruction outside map 0 write a general register? Most are vector instructions. */
static bool writes_general(const struct pb_x86_insn *i)
{
    uint8_t op = i->opcode;

    if (i->map == 2)
        return op >= 0xf0;
    if (i->map == 3)
        return op == 0xf0 || (op >= 0x14 && op <= 0x17);
    if (i->is_vector)
        return op == 0x2c || op == 0x2d || op == 0x50 || op == 0x7e || op == 0x93 || op == 0xc5 ||
               op == 0xd7;
    return op == 0x2c || op == 0x2d || (op >= 0x40 && op <= 0x50) || op == 0x7e ||
           (op >= 0x90 && op <= 0x9f) || (op >= 0xa3 && op <= 0xaf) || (op >= 0xb0 && op <= 0xc1) ||
           op == 0xc5 || op == 0xd7;
}

static enum pb_x86_flow step_other_maps(struct pb_x86_state *st, const struct pb_x86_insn *i)
{
    if (i->map == 1 && !i->is_vector && i->opcode >= 0x80 && i->opcode <= 0x8f)
        return PB_X86_BRANCH;
    if (i->map == 1 && !i->is_vector && i->opcode == 0x0b)
        return PB_X86_JUMP; /* ud2: never goes on */
    if (i->map == 1 && !i->is_vector && i->opcode >= 0xc8 && i->opcode <= 0xcf) {
        forget(st, i->low); /* bswap */
        return PB_X86_NEXT;
    }
    if (i->has_modrm && writes_general(i))
        forget_operands(st, i);
    return PB_X86_NEXT;
}

static void step_unfollowed(struct pb_x86_state *st, const struct pb_x86_insn *i)
{
    if (i->opcode >= 0xb0 && i->opcode <= 0xbf) { /* mov with a constant */
        forget(st, i->low);
        return;
    }
    if (i->opcode >= 0x91 && i->opcode <= 0x97) { /* xchg with rax */
        forget(st, PB_X86_RAX);
        forget(st, i->low);
        return;
    }
    if (writes_nothing(i))
        return;
    forget_operands(st, i);
    if (i->is_mem)
        store(st, operand_address(st, i), unknown);
}

enum pb_x86_flow pb_x86_state_step(struct pb_x86_state *st, const struct pb_x86_insn *i)
{
    if (i->map != 0)
        return step_other_maps(st, i);
    if (i->opcode >= 0x70 && i->opcode <= 0x7f)
        return PB_X86_BRANCH;
    if (i->opcode >= 0x50 && i->opcode <= 0x57) {
        push(st, st->reg[i->low]);
        return PB_X86_NEXT;
    }
    if (i->opcode >= 0x58 && i->opcode <= 0x5f) {
        struct pb_x86_value v = pop(st);

        st->reg[i->low] = v;
        return PB_X86_NEXT;
    }
    switch (i->opcode) {
    case 0x68:
    case 0x6a:
    case 0x9c:
        push(st, unknown);
        return PB_X86_NEXT;
    case 0x9d:
        pop(st);
        return PB_X86_NEXT;
    case 0x81:
    case 0x83:
        step_arithmetic(st, i);
        return PB_X86_NEXT;
    case 0x89:
    case 0x8b:
        step_mov(st, i);
        return PB_X86_NEXT;
    case 0x8d:
        st->reg[i->reg] = i->wide ? operand_address(st, i) : unknown;
        return PB_X86_NEXT;
    case 0xc9:
        st->reg[PB_X86_RSP] = st->reg[PB_X86_RBP];
        st->reg[PB_X86_RBP] = pop(st);
        return PB_X86_NEXT;
    case 0xe0:
    case 0xe1:
    case 0xe2:
    case 0xe3:
        return PB_X86_BRANCH;
    case 0xe8:
        after_call(st);
        return PB_X86_CALL;
    case 0xe9:
    case 0xeb:
        return PB_X86_JUMP;
    case 0xc2:
    case 0xc3:
        return PB_X86_RETURN;
    case 0xf4:
    case 0xcc:
        return PB_X86_JUMP; /* hlt, int3: never go on */
    case 0xff:
        return step_group5(st, i);
    default:
        step_unfollowed(st, i);
        return PB_X86_NEXT;
    }
}

bool pb_x86_state_at(struct pb_x86_state *ret, const uint8_t *code, size_t len, size_t at)
{
    struct pb_x86_state body;
    struct pb_x86_insn i;
    size_t off = 0;

    pb_x86_state_init(ret);
    body = *ret;
    while (off < at) {
        if (!pb_x86_decode(&i, code + off, len - off))
            return false;
        off += i.len;
        switch (pb_x86_state_step(ret, &i)) {
        case PB_X86_BRANCH:
            body = *ret;
            break;
        case PB_X86_JUMP:
        case PB_X86_RETURN:
            *ret = body;
            break;
        default:
            break;
        }
    }
    return off == at;
}

bool pb_x86_state_at_return(struct pb_x86_state *ret, const uint8_t *code, size_t len, size_t at)
{
    struct pb_x86_insn i;

    pb_x86_state_init(ret);
    for (int n = 0; n < EPILOGUE_MAX && at < len; n++) {
        struct pb_x86_state before = *ret;
        int64_t to;

        if (!pb_x86_decode(&i, code + at, len - at))
            return false;
        at += i.len;
        switch (pb_x86_state_step(ret, &i)) {
        case PB_X86_NEXT:
            break;
        case PB_X86_RETURN:
            *ret = before;
            return true;
        case PB_X86_JUMP:
            to = (int64_t)at + i.imm;
            if ((i.opcode != 0xe9 && i.opcode != 0xeb) || to < 0 || to >= (int64_t)len)
                return false;
            at = (size_t)to;
            break;
        default:
            return false;
        }
    }
    return false;
}
