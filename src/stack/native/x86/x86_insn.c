/* x86_insn.c - an instruction's length: prefixes, opcode, ModRM, displacement, immediate. */
#include "stack/native/x86/x86_insn.h"

#include <string.h>

#include "stack/native/cursor.h"

/*
 * What follows an opcode, one letter each, 16 opcodes a line:
 * .  nothing                    m  ModRM
 * b  8-bit immediate            M  ModRM and 8-bit immediate
 * z  32 bits (16 with 66)       Z  ModRM and 32 bits (16 with 66)
 * r  32-bit distance            v  32 bits, or 64 with REX.W
 * w  16 bits                    e  16 and 8 bits (enter)
 * o  64-bit address             g  ModRM, and an immediate only for test (reg 0, 1)
 * p  prefix or escape           x  no instruction in 64-bit mode
 */
static const char map0[257] = "mmmmbzxxmmmmbzxp"  /* 00 */
                              "mmmmbzxxmmmmbzxx"  /* 10 */
                              "mmmmbzpxmmmmbzpx"  /* 20 */
                              "mmmmbzpxmmmmbzpx"  /* 30 */
                              "pppppppppppppppp"  /* 40 */
                              "................"  /* 50 */
                              "xxpmppppzZbM...."  /* 60 */
                              "bbbbbbbbbbbbbbbb"  /* 70 */
                              "MZxMmmmmmmmmmmmm"  /* 80 */
                              "..........x....."  /* 90 */
                              "oooo....bz......"  /* a0 */
                              "bbbbbbbbvvvvvvvv"  /* b0 */
                              "MMw.ppMZe.w..bx."  /* c0 */
                              "mmmmxxx.mmmmmmmm"  /* d0 */
                              "bbbbbbbbrrxb...."  /* e0 */
                              "p.pp..gg......mm"; /* f0 */

static const char map1[257] = "mmmmx.....x.xm.M"  /* 00 */
                              "mmmmmmmmmmmmmmmm"  /* 10 */
                              "mmmmmmmmmmmmmmmm"  /* 20 */
                              "........pxpxxxxx"  /* 30 */
                              "mmmmmmmmmmmmmmmm"  /* 40 */
                              "mmmmmmmmmmmmmmmm"  /* 50 */
                              "mmmmmmmmmmmmmmmm"  /* 60 */
                              "MMMMmmm.mmmmmmmm"  /* 70 */
                              "rrrrrrrrrrrrrrrr"  /* 80 */
                              "mmmmmmmmmmmmmmmm"  /* 90 */
                              "...mMmxx...mMmmm"  /* a0 */
                              "mmmmmmmmmmMmmmmm"  /* b0 */
                              "mmMmMMMm........"  /* c0 */
                              "mmmmmmmmmmmmmmmm"  /* d0 */
                              "mmmmmmmmmmmmmmmm"  /* e0 */
                              "mmmmmmmmmmmmmmmm"; /* f0 */

enum { REX_B = 1, REX_X = 2, REX_R = 4, REX_W = 8 };

struct decoder {
    struct pb_cursor c;
    struct pb_x86_insn *i;
    bool size16; /* prefix 66 */
    bool addr32; /* prefix 67 */
    uint8_t rex;
};

static bool is_legacy_prefix(uint8_t b)
{
    /* clang-format off */
    switch (b) {
    case 0x26: case 0x2e: case 0x36: case 0x3e: case 0x64: case 0x65: /* segments */
    case 0x66: case 0x67: case 0xf0: case 0xf2: case 0xf3: return true;
    default: return false;
    }
    /* clang-format on */
}

static uint8_t inverted_rxb(uint8_t b)
{
    return (uint8_t)(~b >> 5 & 7); /* R, X, B stand inverted in bits 7, 6, 5: the order of REX */
}

/* Reads VEX (c4, c5) or EVEX (62) behind its first byte, up to and with the opcode. */
static void read_vector_opcode(struct decoder *d, uint8_t first)
{
    uint8_t p = pb_cursor_u8(&d->c);

    d->i->is_vector = true;
    if (first == 0xc5) {
        d->rex = p & 0x80 ? 0 : REX_R;
        d->i->map = 1;
    } else {
        uint8_t q = pb_cursor_u8(&d->c);

        d->rex = inverted_rxb(p) | (q & 0x80 ? REX_W : 0);
        d->i->map = first == 0x62 ? p & 0x07 : p & 0x1f;
        if (first == 0x62)
            pb_cursor_u8(&d->c);
    }
    d->i->opcode = pb_cursor_u8(&d->c);
}

static void read_opcode(struct decoder *d)
{
    uint8_t b = pb_cursor_u8(&d->c);

    while (is_legacy_prefix(b) && !d->c.bad) {
        d->size16 |= b == 0x66;
        d->addr32 |= b == 0x67;
        b = pb_cursor_u8(&d->c);
    }
    if (b == 0xc4 || b == 0xc5 || b == 0x62) {
        read_vector_opcode(d, b);
        return;
    }
    if ((b & 0xf0) == 0x40) {
        d->rex = b & 0x0f;
        b = pb_cursor_u8(&d->c);
    }
    if (b == 0x0f) {
        b = pb_cursor_u8(&d->c);
        d->i->map = 1;
        if (b == 0x38 || b == 0x3a) {
            d->i->map = b == 0x38 ? 2 : 3;
            b = pb_cursor_u8(&d->c);
        }
    }
    d->i->opcode = b;
}

static char shape_of(const struct pb_x86_insn *i)
{
    switch (i->map) {
    case 0:
        return i->is_vector ? 'x' : map0[i->opcode];
    case 1:
        return map1[i->opcode];
    case 2:
        return 'm';
    case 3:
        return 'M';
    case 5:
    case 6:
        return i->is_vector ? 'm' : 'x';
    default:
        return 'x';
    }
}

static void read_memory_operand(struct decoder *d, uint8_t mod, uint8_t rm)
{
    struct pb_x86_insn *i = d->i;
    uint8_t base = rm;

    i->is_mem = true;
    i->base = rm | (d->rex & REX_B ? 8 : 0);
    if (rm == 4) {
        uint8_t sib = pb_cursor_u8(&d->c);
        uint8_t index = (sib >> 3 & 7) | (d->rex & REX_X ? 8 : 0);

        base = sib & 7;
        i->base = base | (d->rex & REX_B ? 8 : 0);
        if (index != 4)
            i->index = index;
    }
    if (mod == 1) {
        i->disp = (int8_t)pb_cursor_u8(&d->c);
    } else if (mod == 2) {
        i->disp = (int32_t)pb_cursor_u32(&d->c);
    } else if (base == 5) { /* mod 0 without base: relative to rip, or absolute behind a SIB */
        i->base = rm == 5 ? PB_X86_RIP : PB_X86_NO_REG;
        i->disp = (int32_t)pb_cursor_u32(&d->c);
    }
}

static void read_modrm(struct decoder *d)
{
    uint8_t b = pb_cursor_u8(&d->c);

    d->i->has_modrm = true;
    d->i->reg = (b >> 3 & 7) | (d->rex & REX_R ? 8 : 0);
    if (b >> 6 == 3)
        d->i->rm = (b & 7) | (d->rex & REX_B ? 8 : 0);
    else
        read_memory_operand(d, b >> 6, b & 7);
}

static void read_immediate(struct decoder *d, char shape)
{
    struct pb_x86_insn *i = d->i;

    if (shape == 'g')
        shape = (i->reg & 7) > 1 ? '.' : i->opcode == 0xf6 ? 'b' : 'z';
    switch (shape) {
    case 'b':
    case 'M':
        i->imm = (int8_t)pb_cursor_u8(&d->c);
        break;
    case 'w':
        i->imm = pb_cursor_u16(&d->c);
        break;
    case 'e':
        i->imm = (int64_t)pb_cursor_uint(&d->c, 3);
        break;
    case 'o':
        i->imm = (int64_t)pb_cursor_uint(&d->c, d->addr32 ? 4 : 8);
        break;
    case 'r':
        i->imm = (int32_t)pb_cursor_u32(&d->c);
        break;
    case 'v':
        if (i->wide) {
            i->imm = (int64_t)pb_cursor_u64(&d->c);
            break;
        }
        /* fall through */
    case 'z':
    case 'Z':
        i->imm =
            d->size16 && !i->wide ? (int16_t)pb_cursor_u16(&d->c) : (int32_t)pb_cursor_u32(&d->c);
        break;
    default:
        break;
    }
}

bool pb_x86_decode(struct pb_x86_insn *ret, const uint8_t *bytes, size_t len)
{
    struct decoder d = {.c = pb_cursor_make(bytes, len < 15 ? len : 15), .i = ret};
    char shape;

    memset(ret, 0, sizeof *ret);
    ret->rm = ret->base = ret->index = PB_X86_NO_REG;
    read_opcode(&d);
    ret->wide = d.rex & REX_W;
    ret->low = (ret->opcode & 7) | (d.rex & REX_B ? 8 : 0);
    shape = shape_of(ret);
    if (d.c.bad || shape == 'x' || shape == 'p')
        return false;
    if (shape == 'm' || shape == 'M' || shape == 'Z' || shape == 'g')
        read_modrm(&d);
    if (ret->map == 0 && ret->opcode == 0x8f && (ret->reg & 7) != 0)
        return false; /* XOP */
    read_immediate(&d, shape);
    ret->len = (uint8_t)(d.c.p - bytes);
    return !d.c.bad;
}
