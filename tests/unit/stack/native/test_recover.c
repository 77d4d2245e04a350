/* A frame pointer that nobody knows, found on the stack: only with proof. */
#include "pb_test.h"
#include "stack/native/arch.h"
#include "stack/native/internal.h"

#define BASE 0x400000u
#define SIZE 0x1000u
#define STACK 0x7000u
#define WORDS 32

/* Functions, as offsets in the file; each is 32 bytes long and calls at its 8th. */
enum { SLEEPER = 0x200, CALLER = 0x220, OTHER = 0x240, BEGIN = 0x260, STRANGE = 0x280 };

#define RETURN_TO(f) (BASE + (f) + 8 + (pb_arch.machine == EM_X86_64 ? 5 : 4))
#define WORD(i) (STACK + 8 * (uint64_t)(i))

struct scene {
    union {
        uint8_t bytes[SIZE];
        struct {
            Elf64_Ehdr eh;
            Elf64_Phdr ph;
        };
    } u;
    uint8_t frame[512];
    size_t nframe;
    uint64_t words[WORDS]; /* the stack from STACK on */
    struct pb_native_stack stack;
    struct pb_arena arena;
};

static void put(struct scene *s, const void *data, size_t n)
{
    assert_true(s->nframe + n <= sizeof s->frame);
    memcpy(s->frame + s->nframe, data, n);
    s->nframe += n;
}

static void put_u32(struct scene *s, uint32_t v)
{
    put(s, &v, sizeof v);
}

static void put_fde(struct scene *s, uint64_t function, const uint8_t *rules, size_t n)
{
    uint64_t range[2] = {BASE + function, 32};
    uint8_t no_augmentation = 0;

    put_u32(s, (uint32_t)(4 + sizeof range + 1 + n));
    put_u32(s, (uint32_t)s->nframe);
    put(s, range, sizeof range);
    put(s, &no_augmentation, 1);
    put(s, rules, n);
}

/* BEGIN has no caller, STRANGE finds its own by another register, the rest by frame pointer. */
static void put_rules(struct scene *s)
{
    const uint8_t head[] = {1, 'z', 'R', 0, 1, 0x78, (uint8_t)pb_arch.ra, 1, 0x00};
    const uint8_t framed[] = {0x0c, (uint8_t)pb_arch.fp,          16, (uint8_t)(0x80 | pb_arch.ra),
                              1,    (uint8_t)(0x80 | pb_arch.fp), 2};
    const uint8_t outermost[] = {0x0c, (uint8_t)pb_arch.sp, 8, 0x07, (uint8_t)pb_arch.ra};
    const uint8_t strange[] = {0x0c, 12, 16, (uint8_t)(0x80 | pb_arch.ra), 1};

    put_u32(s, 4 + sizeof head);
    put_u32(s, 0);
    put(s, head, sizeof head);
    put_fde(s, SLEEPER, framed, sizeof framed);
    put_fde(s, CALLER, framed, sizeof framed);
    put_fde(s, OTHER, framed, sizeof framed);
    put_fde(s, BEGIN, outermost, sizeof outermost);
    put_fde(s, STRANGE, strange, sizeof strange);
}

/* In this processor's code. */
static void put_call(struct scene *s, size_t from, size_t to)
{
    uint8_t *code = s->u.bytes + from + 8;

    if (pb_arch.machine == EM_X86_64) {
        int32_t distance = (int32_t)(to - (from + 8)) - 5;

        code[0] = 0xe8;
        memcpy(code + 1, &distance, sizeof distance);
    } else {
        uint32_t insn = 0x94000000 | ((uint32_t)((to - (from + 8)) / 4) & 0x03ffffff);

        memcpy(code, &insn, sizeof insn);
    }
}

static void build(struct scene *s)
{
    memset(s, 0, sizeof *s);
    s->u.eh = (Elf64_Ehdr){.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB},
                           .e_phoff = offsetof(struct scene, u.ph),
                           .e_phnum = 1,
                           .e_phentsize = sizeof(Elf64_Phdr)};
    s->u.ph = (Elf64_Phdr){.p_type = PT_LOAD, .p_filesz = SIZE, .p_vaddr = BASE};
    put_rules(s);
    put_call(s, CALLER, SLEEPER);
    put_call(s, OTHER, CALLER);
    put_call(s, BEGIN, CALLER);
    for (size_t i = 0; i < WORDS; i++)
        s->words[i] = 0xa0 + i;
}

/* What a frame leaves: the frame pointer that it saved, and where it returns to. */
static void put_record(struct scene *s, size_t word, uint64_t fp, uint64_t ret_addr)
{
    s->words[word] = fp;
    s->words[word + 1] = ret_addr;
}

static void unwind(struct scene *s, uint64_t function)
{
    struct pb_module m = {.is_open = true, .has_eh = true}, *by_map = &m;
    struct pb_map map = {.start = BASE, .end = BASE + SIZE, .exec = true, .path = "/code"};
    struct pb_maps maps = {.v = &map, .n = 1};
    struct pb_native n = {.modules = {.maps = &maps, .by_map = &by_map}};
    struct pb_stack_copy copy = {STACK, sizeof s->words, (const uint8_t *)s->words};
    struct pb_regs regs;

    assert_int_equal(pb_elf_from_memory(&m.elf, s->u.bytes, SIZE, NULL), 0);
    m.eh = (struct pb_eh){.elf = &m.elf, .frame = {s->frame, s->nframe, 0x1000}};
    pb_regs_from_sp_pc(&regs, STACK, BASE + function + 4);
    pb_native_unwind(&n, &regs, &copy, 0, &s->arena, &s->stack);
    pb_eh_finish(&m.eh);
    pb_elf_close(&m.elf);
}

static void assert_right(struct scene *s)
{
    assert_int_equal(s->stack.end, PB_NATIVE_COMPLETE);
    assert_int_equal(s->stack.n, 3);
    assert_int_equal(s->stack.v[0].cfa, WORD(12));
    assert_int_equal(s->stack.v[1].pc, RETURN_TO(CALLER));
    assert_int_equal(s->stack.v[2].pc, RETURN_TO(BEGIN));
    pb_arena_finish(&s->arena);
}

static void assert_refused(struct scene *s)
{
    assert_int_equal(s->stack.end, PB_NATIVE_NO_REG);
    assert_int_equal(s->stack.n, 1);
    pb_arena_finish(&s->arena);
}

/* SLEEPER's frame pointer is at word 10, CALLER's at 20. */
static void put_truth(struct scene *s)
{
    put_record(s, 10, WORD(20), RETURN_TO(CALLER));
    put_record(s, 20, 0, RETURN_TO(BEGIN));
}

static void finds_it_on_the_stack(void **state)
{
    struct scene s;

    (void)state;
    build(&s);
    put_truth(&s);
    unwind(&s, SLEEPER);
    assert_right(&s);
}

static void a_caller_of_others_is_passed_over(void **state)
{
    struct scene s;

    (void)state;
    build(&s);
    put_truth(&s);
    put_record(&s, 2, WORD(6), RETURN_TO(OTHER)); /* reaches the start, but by a call of CALLER */
    put_record(&s, 6, 0, RETURN_TO(BEGIN));
    unwind(&s, SLEEPER);
    assert_right(&s);
}

static void a_chain_that_breaks_is_taken_back(void **state)
{
    struct scene s;

    (void)state;
    build(&s);
    put_truth(&s);
    put_record(&s, 2, WORD(6), RETURN_TO(CALLER));
    put_record(&s, 4, 0xdead, RETURN_TO(CALLER));
    put_record(&s, 6, 0, 0); /* a return address of 0 is no proof here */
    unwind(&s, SLEEPER);
    assert_right(&s);
}

static void without_proof_there_is_no_caller(void **state)
{
    struct scene s;

    (void)state;
    build(&s);
    unwind(&s, SLEEPER);
    assert_refused(&s);
    build(&s);
    put_record(&s, 10, WORD(20), RETURN_TO(CALLER));
    put_record(&s, 20, 0, 0);
    unwind(&s, SLEEPER);
    assert_refused(&s);
}

static void other_registers_are_not_looked_for(void **state)
{
    struct scene s;

    (void)state;
    build(&s);
    put_truth(&s);
    put_call(&s, CALLER, STRANGE);
    unwind(&s, STRANGE);
    assert_refused(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_it_on_the_stack),
        cmocka_unit_test(a_caller_of_others_is_passed_over),
        cmocka_unit_test(a_chain_that_breaks_is_taken_back),
        cmocka_unit_test(without_proof_there_is_no_caller),
        cmocka_unit_test(other_registers_are_not_looked_for),
    };

    return RUN_TESTS(tests);
}
