/* Call frame information built by hand: finding it, executing it, and its expressions. */
#include "pb_test.h"
#include "stack/native/arch.h"
#include "stack/native/cfi.h"

#define CODE 0x401000u
#define FRAME 0x402000u
#define STACK 0x7000u

/* .eh_frame with one CIE and one FDE for [CODE, CODE + 256). */
struct image {
    uint8_t v[512];
    size_t n;
};

static void put(struct image *i, const void *bytes, size_t n)
{
    assert_true(i->n + n <= sizeof i->v);
    if (n)
        memcpy(i->v + i->n, bytes, n);
    i->n += n;
}

static void put_u32(struct image *i, uint32_t v)
{
    put(i, &v, sizeof v);
}

static void put_record(struct image *i, uint32_t id, const struct image *body)
{
    put_u32(i, (uint32_t)body->n + 4);
    put_u32(i, id);
    put(i, body->v, body->n);
}

static void build(struct image *i, const char *aug, const uint8_t *instructions, size_t n)
{
    struct image cie = {.n = 0}, fde = {.n = 0};
    uint8_t head[] = {1, (uint8_t)0x78, (uint8_t)pb_arch.ra}; /* alignments 1 and -8 */
    uint8_t initial[] = {0x0c, (uint8_t)pb_arch.sp, 8,        /* CFA is sp + 8 */
                         (uint8_t)(0x80 | pb_arch.ra), 1};    /* return address at CFA - 8 */
    uint8_t encoding[] = {1, 0x1b};

    i->n = 0;
    put(&cie, "\1", 1);
    put(&cie, aug, strlen(aug) + 1);
    put(&cie, head, sizeof head);
    put(&cie, encoding, sizeof encoding);
    put(&cie, initial, sizeof initial);
    put_record(i, 0, &cie);
    put_u32(&fde, CODE - (uint32_t)(FRAME + i->n + 8)); /* relative to its own place */
    put_u32(&fde, 256);
    put(&fde, "\0", 1);
    put(&fde, instructions, n);
    put_record(i, (uint32_t)i->n + 4, &fde);
    put_u32(i, 0);
}

static struct pb_eh table_of(const struct image *i)
{
    return (struct pb_eh){.frame = {i->v, i->n, FRAME}};
}

static enum pb_cfi_result row_at(const uint8_t *instructions, size_t n, uint64_t pc,
                                 struct pb_cfi_row *ret)
{
    struct image i;
    struct pb_eh eh;
    struct pb_fde fde;
    enum pb_cfi_result result;

    build(&i, "zR", instructions, n);
    eh = table_of(&i);
    assert_true(pb_eh_find(&eh, pc, &fde));
    result = pb_cfi_row(&fde, pc, ret);
    pb_eh_finish(&eh);
    return result;
}

static void finds_only_what_is_covered(void **state)
{
    struct image i;
    struct pb_eh eh;
    struct pb_fde fde;

    (void)state;
    build(&i, "zRS", NULL, 0);
    eh = table_of(&i);
    assert_true(pb_eh_find(&eh, CODE, &fde));
    assert_int_equal(fde.start, CODE);
    assert_int_equal(fde.end, CODE + 256);
    assert_true(fde.is_signal);
    assert_true(pb_eh_find(&eh, CODE + 255, &fde));
    assert_false(pb_eh_find(&eh, CODE + 256, &fde));
    assert_false(pb_eh_find(&eh, CODE - 1, &fde));
    pb_eh_finish(&eh);
}

static void rows_follow_the_address(void **state)
{
    /* at +1 CFA offset 16, register 6 at CFA - 16; at +4 CFA from register 6 */
    static const uint8_t cfi[] = {0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6};
    struct pb_cfi_row row;

    (void)state;
    assert_int_equal(row_at(cfi, sizeof cfi, CODE, &row), PB_CFI_OK);
    assert_int_equal(row.cfa_offset, 8);
    assert_int_equal(row_at(cfi, sizeof cfi, CODE + 1, &row), PB_CFI_OK);
    assert_int_equal(row.cfa_offset, 16);
    assert_int_equal(row.reg[6].kind, PB_RULE_OFFSET);
    assert_int_equal(row.reg[6].n, -16);
    assert_int_equal(row.cfa.n, pb_arch.sp);
    assert_int_equal(row_at(cfi, sizeof cfi, CODE + 4, &row), PB_CFI_OK);
    assert_int_equal(row.cfa.n, 6);
    assert_int_equal(row.cfa_offset, 16);
}

static void every_way_to_set_a_rule(void **state)
{
    static const uint8_t cfi[] = {
        0x05, 1,    3,          /* offset_extended */
        0x07, 2,                /* undefined */
        0x08, 3,                /* same_value */
        0x09, 4,    5,          /* register */
        0x11, 5,    0x7e,       /* offset_extended_sf -2 */
        0x14, 6,    2,          /* val_offset */
        0x15, 8,    0x7f,       /* val_offset_sf -1 */
        0x2f, 9,    2,          /* GNU_negative_offset_extended */
        0x2e, 32,               /* GNU_args_size */
        0x10, 10,   1,    0x30, /* expression: lit0 */
        0x16, 11,   1,    0x31, /* val_expression: lit1 */
        0x2d,                   /* negate_ra_state */
        0x05, 100,  1,          /* a vector register: ignored */
        0x13, 0x7c,             /* def_cfa_offset_sf -4 */
    };
    struct pb_cfi_row row;

    (void)state;
    assert_int_equal(row_at(cfi, sizeof cfi, CODE, &row), PB_CFI_OK);
    assert_int_equal(row.reg[1].n, -24);
    assert_int_equal(row.reg[2].kind, PB_RULE_UNDEFINED);
    assert_int_equal(row.reg[3].kind, PB_RULE_SAME);
    assert_int_equal(row.reg[4].kind, PB_RULE_REGISTER);
    assert_int_equal(row.reg[4].n, 5);
    assert_int_equal(row.reg[5].n, 16);
    assert_int_equal(row.reg[6].kind, PB_RULE_VAL_OFFSET);
    assert_int_equal(row.reg[6].n, -16);
    assert_int_equal(row.reg[8].n, 8);
    assert_int_equal(row.reg[9].n, 16);
    assert_int_equal(row.reg[10].kind, PB_RULE_EXPR);
    assert_int_equal(row.reg[11].kind, PB_RULE_VAL_EXPR);
    assert_true(row.ra_signed);
    assert_int_equal(row.cfa_offset, 32);
}

static void remembers_and_restores(void **state)
{
    static const uint8_t cfi[] = {0x0e, 16,   0x83, 2,    0x0a, /* remember */
                                  0x41, 0x0e, 8,    0xc3,       /* epilogue: restore register 3 */
                                  0x41, 0x0b};                  /* back in the body */
    struct pb_cfi_row row;

    (void)state;
    assert_int_equal(row_at(cfi, sizeof cfi, CODE + 1, &row), PB_CFI_OK);
    assert_int_equal(row.cfa_offset, 8);
    assert_int_equal(row.reg[3].kind, PB_RULE_UNSPECIFIED);
    assert_int_equal(row_at(cfi, sizeof cfi, CODE + 2, &row), PB_CFI_OK);
    assert_int_equal(row.cfa_offset, 16);
    assert_int_equal(row.reg[3].kind, PB_RULE_OFFSET);
}

static void damaged_instructions_are_refused(void **state)
{
    static const uint8_t unknown[] = {0x3f}, cut[] = {0x0c, 7}, pop[] = {0x0b};
    static const uint8_t push[] = {0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a};
    struct pb_cfi_row row;

    (void)state;
    assert_int_equal(row_at(unknown, sizeof unknown, CODE, &row), PB_CFI_BAD);
    assert_int_equal(row_at(cut, sizeof cut, CODE, &row), PB_CFI_BAD);
    assert_int_equal(row_at(pop, sizeof pop, CODE, &row), PB_CFI_BAD);
    assert_int_equal(row_at(push, sizeof push, CODE, &row), PB_CFI_BAD);
}

static struct pb_regs registers(uint64_t known)
{
    struct pb_regs regs = {.known = known | (uint64_t)1 << pb_arch.sp};

    for (unsigned i = 0; i < PB_REGS_MAX; i++)
        regs.r[i] = 0x1000 + i;
    regs.r[pb_arch.sp] = regs.sp = STACK;
    return regs;
}

/* Applies the rules at CODE to a stack whose words are 0xa0, 0xa1 and so on. */
static enum pb_cfi_result apply(const uint8_t *cfi, size_t n, struct pb_regs *regs, uint64_t *cfa)
{
    uint64_t words[16];
    struct pb_stack_copy copy = {STACK, sizeof words, (const uint8_t *)words};
    struct pb_stack_reader s = {&copy, NULL};
    struct pb_cfi_row row;
    struct pb_fde fde = {.ra_reg = pb_arch.ra};

    for (size_t i = 0; i < 16; i++)
        words[i] = 0xa0 + i;
    assert_int_equal(row_at(cfi, n, CODE, &row), PB_CFI_OK);
    return pb_cfi_apply(&fde, &row, &s, 0, regs, cfa);
}

static void steps_to_the_caller(void **state)
{
    uint8_t cfi[] = {0x0e, 24, (uint8_t)(0x80 | pb_arch.fp), 2};
    struct pb_regs regs = registers(0);
    uint64_t cfa;

    (void)state;
    assert_int_equal(apply(cfi, sizeof cfi, &regs, &cfa), PB_CFI_OK);
    assert_int_equal(cfa, STACK + 24);
    assert_int_equal(regs.sp, STACK + 24);
    assert_int_equal(regs.pc, 0xa2);
    assert_int_equal(regs.r[pb_arch.fp], 0xa1);
    assert_true(regs.known >> pb_arch.fp & 1);
    assert_false(regs.known & 1); /* a scratch register is not the caller's */
}

static void says_which_registers_it_misses(void **state)
{
    uint8_t from_fp[] = {0x0c, (uint8_t)pb_arch.fp, 16};
    uint8_t ended[] = {0x07, (uint8_t)pb_arch.ra};
    uint8_t far_away[] = {0x0e, 0x80, 0x80, 1};
    struct pb_regs regs = registers(0);
    uint64_t cfa;

    (void)state;
    assert_int_equal(apply(from_fp, sizeof from_fp, &regs, &cfa), PB_CFI_NO_REG);
    regs = registers((uint64_t)1 << pb_arch.fp);
    regs.r[pb_arch.fp] = STACK + 8;
    assert_int_equal(apply(from_fp, sizeof from_fp, &regs, &cfa), PB_CFI_OK);
    assert_int_equal(regs.pc, 0xa2);
    regs = registers(0);
    assert_int_equal(apply(ended, sizeof ended, &regs, &cfa), PB_CFI_END);
    assert_int_equal(apply(far_away, sizeof far_away, &regs, &cfa), PB_CFI_NO_MEMORY);
}

static enum pb_cfi_result eval(const uint8_t *code, size_t n, const struct pb_regs *regs,
                               uint64_t *ret)
{
    static const uint64_t word = 0x1234567890abcdef;
    struct pb_stack_copy copy = {STACK, sizeof word, (const uint8_t *)&word};
    struct pb_stack_reader s = {&copy, NULL};

    return pb_expr_eval(pb_cursor_make(code, n), regs, &s, 0x10000, NULL, ret);
}

/* The rule of every procedure linkage table: sp + 8, and 8 more behind its push. */
static void evaluates_the_plt_expression(void **state)
{
    static const uint8_t plt[] = {0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22};
    struct pb_regs regs = {.known = 1 << 7 | 1 << 16};
    uint64_t v;

    (void)state;
    regs.r[7] = STACK;
    regs.r[16] = 0x401026;
    assert_int_equal(eval(plt, sizeof plt, &regs, &v), PB_CFI_OK);
    assert_int_equal(v, STACK + 8);
    regs.r[16] = 0x40102b;
    assert_int_equal(eval(plt, sizeof plt, &regs, &v), PB_CFI_OK);
    assert_int_equal(v, STACK + 16);
    regs.known = 1 << 7;
    assert_int_equal(eval(plt, sizeof plt, &regs, &v), PB_CFI_NO_REG);
}

static void evaluates_arithmetic_and_memory(void **state)
{
    static const uint8_t sum[] = {0x08, 40, 0x31, 0x22, 0x31, 0x1c, 0x32, 0x1e}; /* (40+1-1)*2 */
    static const uint8_t deref[] = {0x0a, 0x00, 0x70, 0x94, 2};                  /* u16 at 0x7000 */
    static const uint8_t branch[] = {0x30, 0x28, 1, 0, 0x35, 0x36}; /* lit0; bra +1; lit5; lit6 */
    static const uint8_t address[] = {0x03, 1, 0, 0, 0, 0, 0, 0, 0};
    static const uint8_t by_zero[] = {0x31, 0x30, 0x1b};
    static const uint8_t endless[] = {0x2f, 0xfd, 0xff};
    static const uint8_t empty[] = {0x22};
    struct pb_regs regs = {.known = 0};
    uint64_t v;

    (void)state;
    assert_int_equal(eval(sum, sizeof sum, &regs, &v), PB_CFI_OK);
    assert_int_equal(v, 80);
    assert_int_equal(eval(deref, sizeof deref, &regs, &v), PB_CFI_OK);
    assert_int_equal(v, 0xcdef);
    assert_int_equal(eval(branch, sizeof branch, &regs, &v), PB_CFI_OK);
    assert_int_equal(v, 6);
    assert_int_equal(eval(address, sizeof address, &regs, &v), PB_CFI_OK);
    assert_int_equal(v, 0x10001);
    assert_int_equal(eval(by_zero, sizeof by_zero, &regs, &v), PB_CFI_BAD);
    assert_int_equal(eval(endless, sizeof endless, &regs, &v), PB_CFI_BAD);
    assert_int_equal(eval(empty, sizeof empty, &regs, &v), PB_CFI_BAD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_only_what_is_covered),
        cmocka_unit_test(rows_follow_the_address),
        cmocka_unit_test(every_way_to_set_a_rule),
        cmocka_unit_test(remembers_and_restores),
        cmocka_unit_test(damaged_instructions_are_refused),
        cmocka_unit_test(steps_to_the_caller),
        cmocka_unit_test(says_which_registers_it_misses),
        cmocka_unit_test(evaluates_the_plt_expression),
        cmocka_unit_test(evaluates_arithmetic_and_memory),
    };

    return RUN_TESTS(tests);
}
