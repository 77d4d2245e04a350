/* Any bytes as unwind tables, as .eh_frame alone, and as code without either. */
#include <fcntl.h>

#include "real_elf.h"
#include "stack/native/arch.h"
#include "stack/native/x86/x86_prologue.h"

#define STACK 0x7000u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t pb_fuzz_seed(int index, uint8_t *buf, size_t cap);

/* The first byte says what the rest is. */
enum { AS_FILE, AS_FRAME, AS_CODE, KINDS };

static struct pb_regs any_regs(const uint8_t *data, size_t size)
{
    struct pb_regs regs = {.known = ~(uint64_t)0 >> 1};

    for (unsigned i = 0; i < PB_REGS_MAX; i++)
        regs.r[i] = STACK + (size ? data[i % size] : 0u);
    regs.sp = STACK;
    regs.pc = 0x1000;
    return regs;
}

static void step(const struct pb_fde *fde, uint64_t vaddr, const uint8_t *data, size_t size)
{
    struct pb_stack_copy copy = {STACK, size, data};
    struct pb_stack_reader s = {&copy, NULL};
    struct pb_regs regs = any_regs(data, size);
    struct pb_cfi_row row;
    uint64_t cfa;

    if (pb_cfi_row(fde, vaddr, &row) == PB_CFI_OK)
        pb_cfi_apply(fde, &row, &s, 0, &regs, &cfa);
}

static void look_up(struct pb_eh *eh, const uint8_t *data, size_t size)
{
    struct pb_fde fde;

    for (size_t i = 0; i < 64 && i + 8 <= size; i += 8) {
        uint64_t vaddr;

        memcpy(&vaddr, data + i, sizeof vaddr);
        if (pb_eh_find(eh, vaddr % 0x100000, &fde))
            step(&fde, vaddr % 0x100000, data, size);
    }
    for (size_t i = 0; i < eh->nindex && i < 64; i++) {
        if (pb_eh_find(eh, eh->index[i].start, &fde))
            step(&fde, fde.end - 1, data, size);
    }
}

static void as_file(const uint8_t *data, size_t size)
{
    struct pb_elf elf;
    struct pb_eh eh;

    if (pb_elf_from_memory(&elf, data, size, NULL) < 0)
        return;
    if (pb_eh_init(&eh, &elf))
        look_up(&eh, data, size);
    pb_eh_finish(&eh);
    pb_elf_close(&elf);
}

static void as_frame(const uint8_t *data, size_t size)
{
    struct pb_eh eh = {.frame = {data, size, 0x1000}};

    look_up(&eh, data, size);
    pb_eh_finish(&eh);
}

static void as_code(const uint8_t *data, size_t size)
{
    struct pb_stack_copy copy = {STACK, size, data};
    struct pb_stack_reader s = {&copy, NULL};
    struct pb_regs regs = any_regs(data, size);
    struct pb_function f = {.bytes = data, .len = size, .is_code = true};
    struct pb_guess guess[PB_GUESSES_MAX];
    uint64_t jumps[16];

    pb_x86_guess(&f, &regs, &s, guess);
    f.start = 0x1000;
    for (size_t i = 0; i < 64 && i < size; i++) {
        regs.pc = f.start + i;
        pb_x86_guess(&f, &regs, &s, guess);
    }
    pb_x86_jumps_out(data, size, f.start, jumps, 16);
    pb_x86_ends_with_call(data, size < 8 ? size : 8);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    void (*const kinds[KINDS])(const uint8_t *, size_t) = {as_file, as_frame, as_code};

    if (size > 0)
        kinds[data[0] % KINDS](data + 1, size - 1);
    return 0;
}

static size_t section_of(const char *name, uint8_t *buf, size_t cap)
{
    struct pb_elf elf;
    struct pb_elf_range r = {.size = 0};
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), rc = pb_elf_open_fd(&elf, fd, NULL);

    close(fd);
    if (rc < 0)
        return 0;
    if (pb_elf_section(&elf, name, &r)) {
        r.size = r.size < cap ? r.size : cap;
        memcpy(buf, r.data, r.size);
    }
    pb_elf_close(&elf);
    return r.size;
}

size_t pb_fuzz_seed(int index, uint8_t *buf, size_t cap)
{
    size_t n = 0;

    if (index < 0 || index >= KINDS || cap < 1)
        return 0;
    buf[0] = (uint8_t)index;
    switch (index) {
    case AS_FILE:
        n = real_elf(0, buf + 1, cap - 1);
        break;
    case AS_FRAME:
        n = section_of(".eh_frame", buf + 1, cap < 8192 ? cap - 1 : 8192);
        break;
    default:
        n = section_of(".text", buf + 1, cap < 4096 ? cap - 1 : 4096);
        break;
    }
    return n + 1;
}
