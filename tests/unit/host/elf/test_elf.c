/* The ELF reader on real files (this test, its libc) and on damaged ones. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "host/elf/elf.h"
#include "host/elf/elf_image.h"
#include "host/process/maps.h"
#include "pb_test.h"

static const struct pb_map *map_of(const struct pb_maps *maps, const void *addr)
{
    const struct pb_map *m = pb_maps_find(maps, (uintptr_t)addr);

    assert_non_null(m);
    return m;
}

static void open_libc(struct pb_elf *elf)
{
    struct pb_err err = {0};
    struct pb_maps maps;
    int fd;

    assert_int_equal(pb_maps_read(&maps, getpid(), &err), 0);
    fd = open(map_of(&maps, (void *)(uintptr_t)getppid)->path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(pb_elf_open_fd(elf, fd, &err), 0);
    close(fd);
    pb_maps_finish(&maps);
}

static void finds_exported_symbols(void **state)
{
    struct pb_elf elf;
    struct pb_elf_sym a, b;
    struct pb_elf_range at;

    (void)state;
    open_libc(&elf);
    assert_true(pb_elf_find_symbol(&elf, "getppid", &a));
    assert_true(pb_elf_find_symbol(&elf, "getpid", &b));
    assert_string_equal(a.name, "getppid");
    assert_int_equal(a.vaddr - b.vaddr, (uintptr_t)getppid - (uintptr_t)getpid);
    assert_true(pb_elf_at(&elf, a.vaddr, &at));
    assert_memory_equal(at.data, (void *)(uintptr_t)getppid, a.size);
    assert_false(pb_elf_find_symbol(&elf, "no_such_function", &a));
    pb_elf_close(&elf);
}

static bool count(const struct pb_elf_sym *sym, void *arg)
{
    assert_non_null(sym->name);
    ++*(size_t *)arg;
    return false;
}

/* What tools that strip section headers leave behind. */
static void finds_symbols_without_sections(void **state)
{
    struct pb_elf elf, bare;
    struct pb_elf_sym a, b;
    size_t with = 0, without = 0;
    uint8_t *copy;

    (void)state;
    open_libc(&elf);
    copy = malloc(elf.size);
    memcpy(copy, elf.data, elf.size);
    ((Elf64_Ehdr *)(void *)copy)->e_shoff = 0;
    assert_int_equal(pb_elf_from_memory(&bare, copy, elf.size, NULL), 0);
    assert_null(bare.sh);
    assert_true(pb_elf_find_symbol(&elf, "getppid", &a));
    assert_true(pb_elf_find_symbol(&bare, "getppid", &b));
    assert_int_equal(a.vaddr, b.vaddr);
    pb_elf_each_symbol(&elf, PB_ELF_DYNSYM, count, &with);
    pb_elf_each_symbol(&bare, PB_ELF_DYNSYM, count, &without);
    assert_true(with > 1000);
    assert_int_equal(with, without);
    pb_elf_close(&bare);
    pb_elf_close(&elf);
    free(copy);
}

static void reads_unaligned_images(void **state)
{
    struct pb_elf elf, odd;
    struct pb_elf_sym sym;
    uint8_t *copy;

    (void)state;
    open_libc(&elf);
    copy = malloc(elf.size + 1);
    memcpy(copy + 1, elf.data, elf.size);
    assert_int_equal(pb_elf_from_memory(&odd, copy + 1, elf.size, NULL), 0);
    assert_true(pb_elf_find_symbol(&odd, "getppid", &sym));
    assert_int_equal(odd.nsh, elf.nsh);
    pb_elf_close(&odd);
    pb_elf_close(&elf);
    free(copy);
}

static void reads_sections_and_build_id(void **state)
{
    struct pb_elf elf;
    struct pb_elf_range text, seg;

    (void)state;
    open_libc(&elf);
    assert_true(pb_elf_section(&elf, ".text", &text));
    assert_true(text.size > 100000);
    assert_false(pb_elf_section(&elf, ".bss", &text)); /* no bytes in the file */
    assert_false(pb_elf_section(&elf, ".no_such", &text));
    assert_true(pb_elf_segment(&elf, PT_GNU_EH_FRAME, &seg));
    pb_elf_close(&elf);
}

static void assert_refused(const void *data, size_t size, const char *why)
{
    struct pb_err err = {0};
    struct pb_elf elf;

    assert_int_equal(pb_elf_from_memory(&elf, data, size, &err), -1);
    assert_string_equal(err.msg, why);
    pb_elf_close(&elf);
}

static void refuses_what_it_cannot_read(void **state)
{
    Elf64_Ehdr eh = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB}};

    (void)state;
    assert_refused("hello", 5, "not an ELF file");
    assert_refused(&eh, sizeof eh - 1, "not an ELF file");
    eh.e_ident[EI_CLASS] = ELFCLASS32;
    assert_refused(&eh, sizeof eh, "a 32-bit ELF file");
    eh.e_ident[EI_CLASS] = ELFCLASS64;
    eh.e_ident[EI_DATA] = ELFDATA2MSB;
    assert_refused(&eh, sizeof eh, "a big-endian ELF file");
    eh.e_ident[EI_DATA] = ELFDATA2LSB;
    eh.e_phnum = 1;
    eh.e_phentsize = sizeof(Elf64_Phdr);
    eh.e_phoff = UINT64_MAX - 8;
    assert_refused(&eh, sizeof eh, "program headers outside the file");
}

static void cuts_of_a_file_are_harmless(void **state)
{
    struct pb_elf elf, cut;
    struct pb_elf_sym sym;

    (void)state;
    open_libc(&elf);
    for (size_t size = 0; size < elf.size; size += elf.size / 50 + 7) {
        if (pb_elf_from_memory(&cut, elf.data, size, NULL) == 0)
            pb_elf_find_symbol(&cut, "getppid", &sym);
        pb_elf_close(&cut);
    }
    pb_elf_close(&elf);
}

/* A deleted library can still be read from whoever has it loaded. */
static void rebuilds_a_file_from_memory(void **state)
{
    struct pb_maps maps;
    struct pb_mem mem;
    struct pb_elf file, image;
    struct pb_elf_sym a, b;
    const struct pb_map *m;

    (void)state;
    assert_int_equal(pb_maps_read(&maps, getpid(), NULL), 0);
    for (m = map_of(&maps, (void *)(uintptr_t)getppid); m->offset != 0; m--)
        continue;
    pb_mem_init_process(&mem, getpid());
    open_libc(&file);
    assert_int_equal(pb_elf_from_process(&image, &mem, m->start, NULL), 0);
    assert_true(pb_elf_find_symbol(&file, "getppid", &a));
    assert_true(pb_elf_find_symbol(&image, "getppid", &b));
    assert_int_equal(a.vaddr, b.vaddr);
    pb_elf_close(&image);
    pb_elf_close(&file);
    assert_int_equal(pb_elf_from_process(&image, &mem, 4096, NULL), -1);
    pb_maps_finish(&maps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_exported_symbols),
        cmocka_unit_test(finds_symbols_without_sections),
        cmocka_unit_test(reads_unaligned_images),
        cmocka_unit_test(reads_sections_and_build_id),
        cmocka_unit_test(refuses_what_it_cannot_read),
        cmocka_unit_test(cuts_of_a_file_are_harmless),
        cmocka_unit_test(rebuilds_a_file_from_memory),
    };

    return RUN_TESTS(tests);
}
