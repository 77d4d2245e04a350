/* Names only where a symbol covers the address. */
#include <stdlib.h>

#include "pb_test.h"
#include "stack/native/symbols/symbols.h"

enum { NSYMS = 8 };

/* An ELF file with nothing but a symbol table. */
struct file {
    Elf64_Ehdr eh;
    Elf64_Shdr sh[4];
    Elf64_Sym sym[NSYMS];
    char str[128];
    char shstr[32];
};

static uint32_t add_text(struct file *f, const char *s)
{
    static const size_t cap = sizeof f->str;
    size_t at = 1;

    while (at < cap && f->str[at])
        at += strlen(f->str + at) + 1;
    assert_true(at + strlen(s) + 1 < cap);
    strcpy(f->str + at, s);
    return (uint32_t)at;
}

static void add_symbol(struct file *f, const char *name, int type, uint64_t value, uint64_t size)
{
    size_t i = 1;

    while (f->sym[i].st_name)
        i++;
    assert_true(i < NSYMS);
    f->sym[i] = (Elf64_Sym){.st_name = add_text(f, name),
                            .st_info = ELF64_ST_INFO(0, type),
                            .st_shndx = 1,
                            .st_value = value,
                            .st_size = size};
}

static void build(struct file *f)
{
    memset(f, 0, sizeof *f);
    f->eh = (Elf64_Ehdr){.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB},
                         .e_shoff = offsetof(struct file, sh),
                         .e_shnum = 4,
                         .e_shstrndx = 3,
                         .e_shentsize = sizeof(Elf64_Shdr)};
    f->sh[1] = (Elf64_Shdr){.sh_type = SHT_SYMTAB,
                            .sh_offset = offsetof(struct file, sym),
                            .sh_size = sizeof f->sym,
                            .sh_link = 2};
    f->sh[2] = (Elf64_Shdr){
        .sh_type = SHT_STRTAB, .sh_offset = offsetof(struct file, str), .sh_size = sizeof f->str};
    f->sh[3] = (Elf64_Shdr){.sh_type = SHT_STRTAB,
                            .sh_offset = offsetof(struct file, shstr),
                            .sh_size = sizeof f->shstr};
}

static const char *name_at(struct file *f, uint64_t vaddr)
{
    struct pb_symbol_query w = {.vaddr = vaddr};
    struct pb_elf elf;

    assert_int_equal(pb_elf_from_memory(&elf, f, sizeof *f, NULL), 0);
    pb_symbols_find(&elf, &w, 1);
    pb_elf_close(&elf);
    return w.name ? w.name : "-";
}

static void never_the_nearest_neighbour(void **state)
{
    struct file f;

    (void)state;
    build(&f);
    add_symbol(&f, "first", STT_FUNC, 0x1000, 0x10);
    add_symbol(&f, "unsized", STT_FUNC, 0x2000, 0);
    add_symbol(&f, "data", STT_OBJECT, 0x3000, 0x100);
    assert_string_equal(name_at(&f, 0x0fff), "-");
    assert_string_equal(name_at(&f, 0x1000), "first");
    assert_string_equal(name_at(&f, 0x100f), "first");
    assert_string_equal(name_at(&f, 0x1010), "-");
    assert_string_equal(name_at(&f, 0x2000), "-");
    assert_string_equal(name_at(&f, 0x3000), "-");
}

static void the_plainest_name_of_the_innermost_symbol(void **state)
{
    struct file f;

    (void)state;
    build(&f);
    add_symbol(&f, "outer", STT_FUNC, 0x1000, 0x100);
    add_symbol(&f, "__poll", STT_FUNC, 0x1040, 0x20);
    add_symbol(&f, "poll", STT_FUNC, 0x1040, 0x20);
    add_symbol(&f, "__GI___poll", STT_FUNC, 0x1040, 0x20);
    assert_string_equal(name_at(&f, 0x1050), "poll");
    assert_string_equal(name_at(&f, 0x1060), "outer");
}

static void many_addresses_far_apart(void **state)
{
    struct pb_symbol_query w[3] = {
        {.vaddr = 0x1004}, {.vaddr = 0x40000000}, {.vaddr = 0x7fffffffff}};
    struct file f;
    struct pb_elf elf;

    (void)state;
    build(&f);
    add_symbol(&f, "wide", STT_FUNC, 0x3fffffff, 0x7000000000);
    add_symbol(&f, "low", STT_FUNC, 0x1000, 0x10);
    add_symbol(&f, "wraps", STT_FUNC, 0x7fffffffff, UINT64_MAX);
    assert_int_equal(pb_elf_from_memory(&elf, &f, sizeof f, NULL), 0);
    pb_symbols_find(&elf, w, 3);
    assert_string_equal(w[0].name, "low");
    assert_string_equal(w[1].name, "wide");
    assert_string_equal(w[2].name, "wraps");
    assert_int_equal(w[1].start, 0x3fffffff);
    pb_elf_close(&elf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(never_the_nearest_neighbour),
        cmocka_unit_test(the_plainest_name_of_the_innermost_symbol),
        cmocka_unit_test(many_addresses_far_apart),
    };

    return RUN_TESTS(tests);
}
