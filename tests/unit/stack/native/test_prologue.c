/* Decoding x86_64 code that has no call frame information. */
#include "pb_test.h"
#include "stack/native/x86/x86_prologue.h"
#include "stack/native/x86/x86_state.h"

#define START 0x401000u
#define STACK 0x7000u

enum { RBX = 3, RBP = 6, RSP = 7 }; /* DWARF numbers */

static void assert_length(const char *bytes, size_t len)
{
    struct pb_x86_insn i;
    uint8_t padded[32] = {0};

    memcpy(padded, bytes, len);
    assert_true(pb_x86_decode(&i, padded, sizeof padded));
    assert_int_equal(i.len, len);
    assert_false(pb_x86_decode(&i, padded, len - 1));
}

static void knows_the_length_of_instructions(void **state)
{
    (void)state;
    assert_length("\x90", 1);
    assert_length("\xf3\x0f\x1e\xfa", 4);                /* endbr64 */
    assert_length("\x48\x83\xec\x40", 4);                /* sub rsp,0x40 */
    assert_length("\x48\xb8\1\2\3\4\5\6\7\x08", 10);     /* movabs */
    assert_length("\x66\xb8\1\2", 4);                    /* mov ax,imm16 */
    assert_length("\x66\x2e\x0f\x1f\x84\0\0\0\0\0", 10); /* long nop */
    assert_length("\xc7\x44\x24\x08\1\0\0\0", 8);        /* mov [rsp+8],imm32 */
    assert_length("\xf7\xc1\1\0\0\0", 6);                /* test ecx,imm32 */
    assert_length("\xf7\xd9", 2);                        /* neg ecx */
    assert_length("\xff\x15\1\2\3\4", 6);                /* call [rip+..] */
    assert_length("\xc5\xf8\x77", 3);                    /* vzeroupper */
    assert_length("\xc4\xc1\x7c\x10\x44\x0a\x80", 7);    /* vmovups ymm0,[r10+rcx-0x80] */
    assert_length("\xc4\xe3\x7d\x19\xc1\x01", 6);        /* vextractf128 .., imm8 */
    assert_length("\x62\xf2\x7d\x48\x18\x75\x92", 7);    /* vbroadcastss zmm6,[rbp-..] */
    assert_length("\x62\x62\x45\x48\xb8\xca", 6);        /* vfmadd231ps */
    assert_length("\x0f\x3a\x0f\xc1\x08", 5);            /* palignr */
    assert_length("\xe8\1\2\3\4", 5);
}

static void no_instructions_are_refused(void **state)
{
    struct pb_x86_insn i;

    (void)state;
    assert_false(pb_x86_decode(&i, (const uint8_t *)"\x06", 1));
    assert_false(pb_x86_decode(&i, (const uint8_t *)"\x66\x66\x66", 3));
    assert_false(pb_x86_decode(&i, NULL, 0));
}

static void calls_end_where_they_end(void **state)
{
    (void)state;
    assert_true(pb_x86_ends_with_call((const uint8_t *)"\x90\x90\x90\xe8\1\2\3\4", 8));
    assert_true(pb_x86_ends_with_call((const uint8_t *)"\x90\x90\x90\x90\x90\x90\xff\xd0", 8));
    assert_true(pb_x86_ends_with_call((const uint8_t *)"\x90\x90\x90\x90\x90\x41\xff\xd0", 8));
    assert_true(pb_x86_ends_with_call((const uint8_t *)"\x90\x90\xff\x15\1\2\3\4", 8));
    assert_false(pb_x86_ends_with_call((const uint8_t *)"\x90\x90\xff\x25\1\2\3\4", 8)); /* jmp */
    assert_false(pb_x86_ends_with_call((const uint8_t *)"\x90\x90\x90\x90\x90\x90\x90\x90", 8));
}

struct scene {
    uint64_t words[16]; /* the stack from STACK on; words[i] is 0xa0 + i */
    struct pb_regs regs;
    struct pb_guess guess[PB_GUESSES_MAX];
    size_t n;
};

/* What is guessed at `at` bytes into the code, with rsp = STACK. */
static void guess(struct scene *s, const char *code, size_t len, size_t at)
{
    struct pb_stack_copy copy = {STACK, sizeof s->words, (const uint8_t *)s->words};
    struct pb_stack_reader reader = {&copy, NULL};
    struct pb_function f = {START, (const uint8_t *)code, len, true, true};

    s->regs.pc = START + at;
    s->regs.sp = s->regs.r[RSP] = STACK;
    s->regs.known |= 1 << RSP;
    s->n = pb_x86_guess(&f, &s->regs, &reader, s->guess);
}

static struct scene new_scene(void)
{
    struct scene s = {.n = 0};

    for (size_t i = 0; i < 16; i++)
        s.words[i] = 0xa0 + i;
    s.regs.known = 1 << RBX | 1 << RBP;
    s.regs.r[RBX] = 0xbb;
    s.regs.r[RBP] = 0xbbb;
    return s;
}

#define BRANCH "\x74\x00" /* keeps the forward way out of it */

static void follows_pushes_and_sub(void **state)
{
    static const char code[] = "\xf3\x0f\x1e\xfa\x55\x53\x48\x83\xec\x08\x90" BRANCH;
    struct scene s = new_scene();

    (void)state;
    guess(&s, code, sizeof code - 1, 10);
    assert_int_equal(s.n, 1);
    assert_int_equal(s.guess[0].regs.pc, 0xa3); /* 8 bytes of locals, rbx, rbp, return address */
    assert_int_equal(s.guess[0].cfa, STACK + 32);
    assert_int_equal(s.guess[0].regs.r[RBX], 0xa1);
    assert_int_equal(s.guess[0].regs.r[RBP], 0xa2);
}

static void half_a_prologue_is_enough(void **state)
{
    static const char code[] = "\x55\x53\x48\x83\xec\x08" BRANCH;
    struct scene s = new_scene();

    (void)state;
    guess(&s, code, sizeof code - 1, 0);
    assert_int_equal(s.guess[0].regs.pc, 0xa0);
    assert_int_equal(s.guess[0].regs.r[RBP], 0xbbb);
    s = new_scene();
    guess(&s, code, sizeof code - 1, 1);
    assert_int_equal(s.guess[0].regs.pc, 0xa1);
    assert_int_equal(s.guess[0].regs.r[RBP], 0xa0);
}

/* sub rsp,0x40; mov [rsp],rbx; shl r11,2 (whose opcode holds a 4, the number of rsp) */
static void opcode_extensions_are_no_registers(void **state)
{
    static const char code[] = "\x48\x83\xec\x40\x48\x89\x1c\x24\x49\xc1\xe3\x02\x90" BRANCH;
    struct scene s = new_scene();

    (void)state;
    guess(&s, code, sizeof code - 1, 12);
    assert_int_equal(s.n, 1);
    assert_int_equal(s.guess[0].regs.pc, 0xa8);
    assert_int_equal(s.guess[0].regs.r[RBX], 0xa0);
}

/* push rbp; mov rbp,rsp; and rsp,-64; sub rsp,0x40 */
static void aligned_frames_hang_on_rbp(void **state)
{
    static const char code[] = "\x55\x48\x89\xe5\x48\x83\xe4\xc0\x48\x83\xec\x40\x90" BRANCH;
    struct scene s = new_scene();

    (void)state;
    s.regs.r[RBP] = STACK + 72;
    guess(&s, code, sizeof code - 1, 12);
    assert_int_equal(s.n, 1);
    assert_int_equal(s.guess[0].regs.pc, 0xaa);
    assert_int_equal(s.guess[0].regs.r[RBP], 0xa9);
    s.regs.known &= ~(uint64_t)(1 << RBP); /* then nothing can be said */
    guess(&s, code, sizeof code - 1, 12);
    assert_int_equal(s.n, 0);
}

/* mov rax,rsp; and rsp,-64; sub rsp,0x20; mov [rsp+8],rax: the old rsp lies in the frame */
static void aligned_frames_that_save_rsp(void **state)
{
    static const char code[] =
        "\x48\x89\xe0\x48\x83\xe4\xc0\x48\x83\xec\x20\x48\x89\x44\x24\x08\x31\xc0\x90" BRANCH;
    struct scene s = new_scene();

    (void)state;
    s.words[1] = STACK + 48;
    guess(&s, code, sizeof code - 1, 18);
    assert_int_equal(s.n, 1);
    assert_int_equal(s.guess[0].regs.pc, 0xa6);
    assert_int_equal(s.guess[0].cfa, STACK + 56);
}

/* Behind an early return the body's frame is still there. */
static void early_returns_do_not_end_the_frame(void **state)
{
    static const char code[] =
        "\x53\x48\x83\xec\x10" BRANCH "\x48\x83\xc4\x10\x5b\xc3" /* add rsp,16; pop rbx; ret */
        "\x90\x90" BRANCH;
    struct scene s = new_scene();

    (void)state;
    guess(&s, code, sizeof code - 1, 14);
    assert_int_equal(s.n, 1);
    assert_int_equal(s.guess[0].regs.pc, 0xa3);
    assert_int_equal(s.guess[0].regs.r[RBX], 0xa2);
}

/* A trampoline's return address: nothing is known of its start, its end tells all. */
static void goes_forward_to_the_return(void **state)
{
    static const char code[] = "\x48\x83\xc4\x08\x5d\xc3"; /* add rsp,8; pop rbp; ret */
    struct scene s = new_scene();
    struct pb_stack_copy copy = {STACK, sizeof s.words, (const uint8_t *)s.words};
    struct pb_stack_reader reader = {&copy, NULL};
    struct pb_function f = {0, (const uint8_t *)code, sizeof code - 1, false, true};

    (void)state;
    s.regs.pc = START;
    s.regs.sp = s.regs.r[RSP] = STACK;
    s.regs.known |= 1 << RSP;
    s.n = pb_x86_guess(&f, &s.regs, &reader, s.guess);
    assert_int_equal(s.n, 1);
    assert_int_equal(s.guess[0].regs.pc, 0xa2);
    assert_int_equal(s.guess[0].regs.r[RBP], 0xa1);
    assert_int_equal(s.guess[0].how, PB_NATIVE_PROLOGUE);
}

static void falls_back_to_the_frame_pointer(void **state)
{
    struct scene s = new_scene();
    struct pb_stack_copy copy = {STACK, sizeof s.words, (const uint8_t *)s.words};
    struct pb_stack_reader reader = {&copy, NULL};
    struct pb_function f = {0, (const uint8_t *)BRANCH, 2, false, true};

    (void)state;
    s.regs.sp = s.regs.r[RSP] = STACK;
    s.regs.r[RBP] = STACK + 16;
    s.regs.known |= 1 << RSP;
    s.n = pb_x86_guess(&f, &s.regs, &reader, s.guess);
    assert_int_equal(s.n, 1);
    assert_int_equal(s.guess[0].regs.pc, 0xa3);
    assert_int_equal(s.guess[0].how, PB_NATIVE_FP);
}

static void jumps_out_are_found(void **state)
{
    static const char code[] = "\xeb\x00\x90\xe9\x10\x00\x00\x00\x0f\x84\xf0\xff\xff\xff";
    uint64_t v[4];

    (void)state;
    assert_int_equal(pb_x86_jumps_out((const uint8_t *)code, sizeof code - 1, START, v, 4), 2);
    assert_int_equal(v[0], START + 24);
    assert_int_equal(v[1], START - 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(knows_the_length_of_instructions),
        cmocka_unit_test(no_instructions_are_refused),
        cmocka_unit_test(calls_end_where_they_end),
        cmocka_unit_test(follows_pushes_and_sub),
        cmocka_unit_test(half_a_prologue_is_enough),
        cmocka_unit_test(opcode_extensions_are_no_registers),
        cmocka_unit_test(aligned_frames_hang_on_rbp),
        cmocka_unit_test(aligned_frames_that_save_rsp),
        cmocka_unit_test(early_returns_do_not_end_the_frame),
        cmocka_unit_test(goes_forward_to_the_return),
        cmocka_unit_test(falls_back_to_the_frame_pointer),
        cmocka_unit_test(jumps_out_are_found),
    };

    return RUN_TESTS(tests);
}
