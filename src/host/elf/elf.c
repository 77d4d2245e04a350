/* elf.c - a read-only view of one ELF file. Every offset is checked before use. */
#include "host/elf/elf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/os/filemap.h"

#define PAGE_MASK 4095u
#define SECTIONS_MAX (1u << 18) /* more than any linker makes */
/* Holes cost whoever made the file nothing, and whoever reads it time. */
#define SPARSE_MIN ((off_t)16 << 20)
#define SPARSE_TIMES 16

static void read_program_headers(struct pb_elf *elf)
{
    for (size_t i = 0; i < elf->nph; i++) {
        if (elf->ph[i].p_type == PT_LOAD) {
            elf->base_vaddr = (elf->ph[i].p_vaddr - elf->ph[i].p_offset) & ~(uint64_t)PAGE_MASK;
            return;
        }
    }
}

/*
 * What is checked once and used later is copied: the file's owner may change it meanwhile, and
 * tables may lie at odd offsets.
 */
static const void *copy_table(struct pb_elf *elf, uint64_t off, size_t bytes, void **copy)
{
    *copy = malloc(bytes ? bytes : 1);
    if (*copy)
        memcpy(*copy, elf->data + off, bytes);
    return *copy;
}

/* A damaged section table only means that there is none. */
static void read_sections(struct pb_elf *elf)
{
    uint64_t off = elf->eh->e_shoff, n = elf->eh->e_shnum, names = elf->eh->e_shstrndx;
    Elf64_Shdr first;

    if (off == 0 || elf->eh->e_shentsize != sizeof first ||
        !pb_elf_inside(elf->size, off, sizeof first))
        return;
    memcpy(&first, elf->data + off, sizeof first);
    if (n == 0)
        n = first.sh_size;
    if (names == SHN_XINDEX)
        names = first.sh_link;
    if (n > SECTIONS_MAX || !pb_elf_inside(elf->size, off, n * sizeof first))
        return;
    elf->sh = copy_table(elf, off, n * sizeof first, &elf->sh_copy);
    if (!elf->sh)
        return;
    elf->nsh = n;
    if (names < n && pb_elf_inside(elf->size, elf->sh[names].sh_offset, elf->sh[names].sh_size)) {
        elf->shstr = (const char *)elf->data + elf->sh[names].sh_offset;
        elf->shstr_len = elf->sh[names].sh_size;
    }
}

static int parse(struct pb_elf *elf, struct pb_err *err)
{
    const Elf64_Ehdr *eh;

    if (elf->size < sizeof *eh || memcmp(elf->data, ELFMAG, SELFMAG) != 0)
        return pb_err_set(err, PB_FAIL, "not an ELF file");
    if (elf->data[EI_CLASS] != ELFCLASS64)
        return pb_err_set(err, PB_FAIL, "a 32-bit ELF file");
    if (elf->data[EI_DATA] != ELFDATA2LSB)
        return pb_err_set(err, PB_FAIL, "a big-endian ELF file");
    eh = copy_table(elf, 0, sizeof *eh, &elf->eh_copy);
    if (!eh)
        return pb_err_set(err, PB_FAIL, "out of memory");
    elf->eh = eh;
    if (eh->e_phnum != 0) {
        size_t bytes = eh->e_phnum * sizeof(Elf64_Phdr);

        if (eh->e_phentsize != sizeof(Elf64_Phdr) || !pb_elf_inside(elf->size, eh->e_phoff, bytes))
            return pb_err_set(err, PB_FAIL, "program headers outside the file");
        elf->ph = copy_table(elf, eh->e_phoff, bytes, &elf->ph_copy);
        if (!elf->ph)
            return pb_err_set(err, PB_FAIL, "out of memory");
        elf->nph = eh->e_phnum;
    }
    read_program_headers(elf);
    read_sections(elf);
    return 0;
}

int pb_elf_from_memory(struct pb_elf *elf, const void *data, size_t size, struct pb_err *err)
{
    memset(elf, 0, sizeof *elf);
    elf->data = data;
    elf->size = size;
    if (parse(elf, err) < 0) {
        pb_elf_close(elf);
        return -1;
    }
    return 0;
}

/* Some file systems do not tell how much of a file is there: 0. */
static bool is_sparse(const struct stat *st)
{
    return st->st_uid != 0 && st->st_uid != geteuid() && st->st_size > SPARSE_MIN &&
           st->st_blocks && st->st_blocks < st->st_size / 512 / SPARSE_TIMES;
}

int pb_elf_open_fd(struct pb_elf *elf, int fd, struct pb_err *err)
{
    struct stat st;

    memset(elf, 0, sizeof *elf);
    if (fstat(fd, &st) < 0)
        return pb_err_set(err, PB_FAIL, "stat: %s", strerror(errno));
    if (!S_ISREG(st.st_mode) || st.st_size <= 0)
        return pb_err_set(err, PB_FAIL, "not an ELF file");
    if (is_sparse(&st))
        return pb_err_set(err, PB_FAIL, "not an ELF file: it is mostly holes");
    elf->data = pb_filemap_open(fd, (size_t)st.st_size);
    if (!elf->data)
        return pb_err_set(err, PB_FAIL, "mmap: %s", strerror(errno));
    elf->size = (size_t)st.st_size;
    elf->is_file = true;
    if (parse(elf, err) < 0) {
        pb_elf_close(elf);
        return -1;
    }
    return 0;
}

void pb_elf_close(struct pb_elf *elf)
{
    if (!elf)
        return;
    if (elf->is_file)
        pb_filemap_close(elf->data, elf->size);
    if (elf->is_image)
        munmap((void *)(uintptr_t)elf->data, elf->size);
    free(elf->eh_copy);
    free(elf->ph_copy);
    free(elf->sh_copy);
    memset(elf, 0, sizeof *elf);
}

static bool section_name_is(const struct pb_elf *elf, const Elf64_Shdr *sh, const char *name)
{
    size_t len = strlen(name) + 1;

    return sh->sh_name < elf->shstr_len && len <= elf->shstr_len - sh->sh_name &&
           memcmp(elf->shstr + sh->sh_name, name, len) == 0;
}

bool pb_elf_section_bytes(const struct pb_elf *elf, const Elf64_Shdr *sh, struct pb_elf_range *ret)
{
    if (sh->sh_type == SHT_NOBITS || (sh->sh_flags & SHF_COMPRESSED) ||
        !pb_elf_inside(elf->size, sh->sh_offset, sh->sh_size))
        return false;
    ret->data = elf->data + sh->sh_offset;
    ret->size = sh->sh_size;
    ret->vaddr = sh->sh_addr;
    return true;
}

bool pb_elf_section(const struct pb_elf *elf, const char *name, struct pb_elf_range *ret)
{
    for (size_t i = 0; i < elf->nsh; i++) {
        if (section_name_is(elf, &elf->sh[i], name))
            return pb_elf_section_bytes(elf, &elf->sh[i], ret);
    }
    return false;
}

bool pb_elf_segment(const struct pb_elf *elf, uint32_t type, struct pb_elf_range *ret)
{
    for (size_t i = 0; i < elf->nph; i++) {
        const Elf64_Phdr *ph = &elf->ph[i];

        if (ph->p_type != type)
            continue;
        if (!pb_elf_inside(elf->size, ph->p_offset, ph->p_filesz))
            return false;
        ret->data = elf->data + ph->p_offset;
        ret->size = ph->p_filesz;
        ret->vaddr = ph->p_vaddr;
        return true;
    }
    return false;
}

bool pb_elf_at(const struct pb_elf *elf, uint64_t vaddr, struct pb_elf_range *ret)
{
    for (size_t i = 0; i < elf->nph; i++) {
        const Elf64_Phdr *ph = &elf->ph[i];

        if (ph->p_type != PT_LOAD || vaddr < ph->p_vaddr || vaddr - ph->p_vaddr >= ph->p_filesz)
            continue;
        if (!pb_elf_inside(elf->size, ph->p_offset, ph->p_filesz))
            continue;
        ret->data = elf->data + ph->p_offset + (vaddr - ph->p_vaddr);
        ret->size = ph->p_filesz - (vaddr - ph->p_vaddr);
        ret->vaddr = vaddr;
        return true;
    }
    return false;
}
