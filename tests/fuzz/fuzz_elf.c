/* Any bytes as an ELF file: nothing is read outside of them, and nothing loops. */
#include "real_elf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t pb_fuzz_seed(int index, uint8_t *buf, size_t cap);

static bool touch(const struct pb_elf_sym *sym, void *arg)
{
    size_t *left = arg;

    if (strlen(sym->name) > 1 << 20)
        __builtin_trap();
    return (*left)-- == 0;
}

static void touch_range(const struct pb_elf_range *r)
{
    volatile uint8_t sink;

    if (r->size) {
        sink = r->data[0];
        sink = r->data[r->size - 1];
        (void)sink;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const sections[] = {".text", ".eh_frame", ".debug_line", ".bss"};
    struct pb_elf elf;
    struct pb_elf_range r;
    struct pb_elf_sym sym;
    size_t left = 5000;

    if (pb_elf_from_memory(&elf, data, size, NULL) < 0)
        return 0;
    pb_elf_each_symbol(&elf, PB_ELF_SYMTAB, touch, &left);
    pb_elf_each_symbol(&elf, PB_ELF_DYNSYM, touch, &left);
    pb_elf_find_symbol(&elf, "clock_gettime", &sym);
    pb_elf_find_symbol(&elf, "no such symbol", &sym);
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        if (pb_elf_section(&elf, sections[i], &r))
            touch_range(&r);
    }
    for (uint32_t type = 0; type < 8; type++) {
        if (pb_elf_segment(&elf, type, &r))
            touch_range(&r);
    }
    if (pb_elf_at(&elf, elf.eh->e_entry, &r))
        touch_range(&r);
    pb_elf_close(&elf);
    return 0;
}

size_t pb_fuzz_seed(int index, uint8_t *buf, size_t cap)
{
    /* The vdso is complete and small; of the others the first pages are enough. */
    return real_elf(index, buf, cap < 32768 ? cap : 32768);
}
