/* A part that the compiler split off a function gets the function's name, with proof only. */
#include "pb_test.h"
#include "stack/native/arch.h"
#include "stack/native/symbols/split.h"

#define BASE 0x400000u
#define PARENT 0x100u /* offsets in the file, which is loaded as a whole */
#define COLD 0x200u
#define SIZE 0x1000u

struct file {
    union {
        uint8_t bytes[SIZE];
        struct {
            Elf64_Ehdr eh;
            Elf64_Phdr ph;
        };
    } u;
    Elf64_Shdr sh[3];
    Elf64_Sym sym[3];
    char str[32];
    uint8_t frame[128];
    size_t nframe;
};

static void put(struct file *f, const void *data, size_t n)
{
    assert_true(f->nframe + n <= sizeof f->frame);
    memcpy(f->frame + f->nframe, data, n);
    f->nframe += n;
}

static void put_u32(struct file *f, uint32_t v)
{
    put(f, &v, sizeof v);
}

/* One CIE and one FDE for [COLD, COLD + 16), whose CFA begins as sp + offset. */
static void build_frame(struct file *f, uint8_t offset)
{
    const uint8_t head[] = {1, 'z', 'R', 0, 1, 0x78, (uint8_t)pb_arch.ra, 1, 0x00};
    const uint8_t initial[] = {0x0c, (uint8_t)pb_arch.sp, (uint8_t)pb_arch.entry_cfa, 0};
    const uint8_t body[] = {0, 0x0e, offset};
    uint64_t range[2] = {BASE + COLD, 16};

    f->nframe = 0;
    put_u32(f, 4 + sizeof head + sizeof initial);
    put_u32(f, 0);
    put(f, head, sizeof head);
    put(f, initial, sizeof initial);
    put_u32(f, 4 + sizeof range + sizeof body);
    put_u32(f, (uint32_t)f->nframe);
    put(f, range, sizeof range);
    put(f, body, sizeof body);
}

/* A direct jump at `from`, in this processor's code. */
static void put_jump(struct file *f, size_t from, size_t to)
{
    if (pb_arch.machine == EM_X86_64) {
        int32_t distance = (int32_t)(to - from) - 5;

        f->u.bytes[from] = 0xe9;
        memcpy(f->u.bytes + from + 1, &distance, sizeof distance);
    } else {
        uint32_t insn = 0x14000000 | ((uint32_t)((to - from) / 4) & 0x03ffffff);

        memcpy(f->u.bytes + from, &insn, sizeof insn);
    }
}

static void build(struct file *f)
{
    memset(f, 0, sizeof *f);
    f->u.eh = (Elf64_Ehdr){.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB},
                           .e_phoff = offsetof(struct file, u.ph),
                           .e_phnum = 1,
                           .e_phentsize = sizeof(Elf64_Phdr),
                           .e_shoff = offsetof(struct file, sh),
                           .e_shnum = 3,
                           .e_shentsize = sizeof(Elf64_Shdr)};
    f->u.ph = (Elf64_Phdr){.p_type = PT_LOAD, .p_filesz = SIZE, .p_vaddr = BASE};
    f->sh[1] = (Elf64_Shdr){.sh_type = SHT_SYMTAB,
                            .sh_offset = offsetof(struct file, sym),
                            .sh_size = sizeof f->sym,
                            .sh_link = 2};
    f->sh[2] = (Elf64_Shdr){
        .sh_type = SHT_STRTAB, .sh_offset = offsetof(struct file, str), .sh_size = sizeof f->str};
    memcpy(f->str, "\0parent\0other", 14);
    f->sym[1] = (Elf64_Sym){.st_name = 1,
                            .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                            .st_shndx = 1,
                            .st_value = BASE + PARENT,
                            .st_size = 0x40};
    f->sym[2] = (Elf64_Sym){.st_name = 8,
                            .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                            .st_shndx = 1,
                            .st_value = BASE + PARENT + 0x40,
                            .st_size = 0x40};
    memset(f->u.bytes + COLD, 0x90, 16);
    if (pb_arch.machine != EM_X86_64)
        memset(f->u.bytes + COLD, 0, 16);
    build_frame(f, 64);
}

static void assert_name(struct file *f, const char *expected)
{
    struct pb_symbol_query w = {.vaddr = BASE + COLD + 4};
    struct pb_module m = {.has_eh = true};
    struct pb_arena a = PB_ARENA_INIT;

    assert_int_equal(pb_elf_from_memory(&m.elf, f, sizeof *f, NULL), 0);
    m.eh = (struct pb_eh){.elf = &m.elf, .frame = {f->frame, f->nframe, 0x1000}};
    pb_split_name(&m, &w, 1, &a);
    if (expected) {
        assert_non_null(w.name);
        assert_string_equal(w.name, expected);
        assert_int_equal(w.start, BASE + COLD);
    } else {
        assert_null(w.name);
    }
    pb_eh_finish(&m.eh);
    pb_elf_close(&m.elf);
    pb_arena_finish(&a);
}

static void jumps_into_the_middle_prove_it(void **state)
{
    struct file f;

    (void)state;
    build(&f);
    put_jump(&f, COLD, PARENT + 8);
    put_jump(&f, COLD + 8, PARENT + 0x40); /* the start of another: a tail call */
    assert_name(&f, "parent.cold");
}

static void two_parents_prove_nothing(void **state)
{
    struct file f;

    (void)state;
    build(&f);
    put_jump(&f, COLD, PARENT + 8);
    put_jump(&f, COLD + 8, PARENT + 0x48);
    assert_name(&f, NULL);
}

static void a_function_of_its_own_stays_unnamed(void **state)
{
    struct file f;

    (void)state;
    build(&f);
    put_jump(&f, COLD, PARENT + 8);
    build_frame(&f, (uint8_t)pb_arch.entry_cfa);
    assert_name(&f, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jumps_into_the_middle_prove_it),
        cmocka_unit_test(two_parents_prove_nothing),
        cmocka_unit_test(a_function_of_its_own_stays_unnamed),
    };

    return RUN_TESTS(tests);
}
