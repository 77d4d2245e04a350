/* Any bytes as a core file: it is refused, or its memory can be read without harm. */
#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/procfs.h>
#include <unistd.h>

#include "host/process/core.h"
#include "stack/core_stacks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t pb_fuzz_seed(int index, uint8_t *buf, size_t cap);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd = memfd_create("core", MFD_CLOEXEC);
    struct pb_core_stacks stacks;
    struct pb_core core;
    char bytes[64];

    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        __builtin_trap();
    if (pb_core_open(&core, fd, geteuid(), size % 2 ? "/etc" : NULL, NULL) == 0) {
        for (size_t i = 0; i < core.maps.n && i < 64; i++) {
            if (core.maps.v[i].start >= core.maps.v[i].end)
                __builtin_trap();
            pb_mem_get(&core.mem, core.maps.v[i].start, bytes, sizeof bytes);
            pb_mem_get(&core.mem, core.maps.v[i].end - 8, bytes, sizeof bytes);
        }
        for (size_t i = 0; i < core.ntids; i++) {
            struct pb_regs regs;

            if (i && core.tids[i] < core.tids[i - 1])
                __builtin_trap();
            pb_regs_from_prstatus(&regs, core.threads[i].registers, core.threads[i].len);
        }
        if (pb_core_stacks_open(&stacks, &core, NULL) == 0) {
            struct pb_arena a = PB_ARENA_INIT;
            struct pb_snapshot_opts o = {.all = true, .native = true, .locals = true};
            struct pb_snapshot snap;

            pb_core_stacks_read(&stacks, &o, &a, &snap, NULL);
            pb_arena_finish(&a);
            pb_core_stacks_close(&stacks);
        }
        pb_core_close(&core);
    }
    return 0;
}

static size_t put_note(uint8_t *at, uint32_t type, const void *bytes, uint32_t len)
{
    Elf64_Nhdr h = {5, len, type};

    memcpy(at, &h, sizeof h);
    memcpy(at + sizeof h, "CORE", 5);
    memcpy(at + sizeof h + 8, bytes, len);
    return sizeof h + 8 + ((len + 3) & ~3u);
}

/* A core of one mapping, one thread and one file. */
size_t pb_fuzz_seed(int index, uint8_t *buf, size_t cap)
{
    struct {
        Elf64_Ehdr eh;
        Elf64_Phdr ph[2];
    } head = {0};
    struct elf_prstatus status = {.pr_pid = 7};
    struct elf_prpsinfo info = {.pr_pid = 7};
    uint64_t files[7] = {1, 4096, 0x10000, 0x12000, 0};
    size_t at = sizeof head;
    int fd;

    if (index || cap < 8192)
        return 0;
    memset(buf, 0, 8192);
    fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, &head.eh, sizeof head.eh) != sizeof head.eh)
        __builtin_trap();
    close(fd);
    memcpy(&files[5], "/etc/passwd", 12);
    head.eh.e_type = ET_CORE;
    head.eh.e_phoff = sizeof head.eh;
    head.eh.e_phnum = 2;
    at += put_note(buf + at, NT_PRSTATUS, &status, sizeof status);
    at += put_note(buf + at, NT_PRPSINFO, &info, sizeof info);
    at += put_note(buf + at, NT_FILE, files, sizeof files);
    head.ph[0] = (Elf64_Phdr){.p_type = PT_NOTE, .p_offset = sizeof head,
                              .p_filesz = at - sizeof head};
    head.ph[1] = (Elf64_Phdr){.p_type = PT_LOAD, .p_flags = PF_R, .p_vaddr = 0x10000,
                              .p_offset = 4096, .p_filesz = 4096, .p_memsz = 8192};
    memcpy(buf, &head, sizeof head);
    return 8192;
}
