/* elf_image.c - an ELF file put together again from a target's memory. */
#include "host/elf/elf_image.h"

#include <string.h>
#include <sys/mman.h>

#define HEAD_MAX 8192
#define IMAGE_MAX ((uint64_t)256 << 20)
#define CHUNK ((size_t)1 << 20)
#define PAGE ((uint64_t)4096)

/* Copies a segment; pages that the target cannot read stay zero. */
static void copy_segment(uint8_t *to, struct pb_mem *mem, uint64_t from, uint64_t len)
{
    while (len) {
        size_t n = len < CHUNK ? (size_t)len : CHUNK;

        if (!pb_mem_get(mem, from, to, n)) {
            for (size_t off = 0; off < n; off += PAGE)
                pb_mem_get(mem, from + off, to + off, n - off < PAGE ? n - off : PAGE);
        }
        to += n;
        from += n;
        len -= n;
    }
}

/* The size of the file as far as it is loaded; 0 when it makes no sense. */
static uint64_t image_size(const struct pb_elf *head)
{
    uint64_t size = 0;

    for (size_t i = 0; i < head->nph; i++) {
        const Elf64_Phdr *ph = &head->ph[i];

        if (ph->p_type != PT_LOAD)
            continue;
        if (ph->p_offset > IMAGE_MAX || ph->p_filesz > IMAGE_MAX - ph->p_offset)
            return 0;
        if (ph->p_offset + ph->p_filesz > size)
            size = ph->p_offset + ph->p_filesz;
    }
    return size;
}

/* The loader writes real addresses over some of the file's; this takes that back. */
static void unrelocate_dynamic(struct pb_elf *elf, uint8_t *image, uint64_t bias)
{
    struct pb_elf_range dyn, at;
    Elf64_Dyn d;

    if (bias == 0 || !pb_elf_segment(elf, PT_DYNAMIC, &dyn))
        return;
    for (size_t off = 0; off + sizeof d <= dyn.size; off += sizeof d) {
        memcpy(&d, dyn.data + off, sizeof d);
        if (d.d_tag == DT_NULL)
            return;
        if (d.d_tag != DT_SYMTAB && d.d_tag != DT_STRTAB && d.d_tag != DT_HASH &&
            d.d_tag != DT_GNU_HASH)
            continue;
        if (!pb_elf_at(elf, d.d_un.d_ptr, &at) && pb_elf_at(elf, d.d_un.d_ptr - bias, &at)) {
            d.d_un.d_ptr -= bias;
            memcpy(image + (dyn.data - elf->data) + off, &d, sizeof d);
        }
    }
}

static void copy_segments(uint8_t *image, const struct pb_elf *head, struct pb_mem *mem,
                          uint64_t bias)
{
    for (size_t i = 0; i < head->nph; i++) {
        const Elf64_Phdr *ph = &head->ph[i];

        if (ph->p_type == PT_LOAD)
            copy_segment(image + ph->p_offset, mem, bias + ph->p_vaddr, ph->p_filesz);
    }
}

/* Neither the header's section table nor its count means anything in memory. */
static void forget_sections(uint8_t *image, size_t size)
{
    Elf64_Ehdr eh;

    if (size < sizeof eh)
        return;
    memcpy(&eh, image, sizeof eh);
    eh.e_shoff = 0;
    eh.e_shnum = 0;
    memcpy(image, &eh, sizeof eh);
}

int pb_elf_from_process(struct pb_elf *elf, struct pb_mem *mem, uint64_t base, struct pb_err *err)
{
    uint8_t buf[HEAD_MAX] __attribute__((aligned(16)));
    struct pb_elf head;
    uint64_t size, bias;
    uint8_t *image;
    size_t n = sizeof buf;

    memset(elf, 0, sizeof *elf);
    if (!pb_mem_get(mem, base, buf, n)) {
        n = PAGE;
        if (!pb_mem_get(mem, base, buf, n))
            return pb_err_set(err, PB_FAIL, "image at %#llx not readable",
                              (unsigned long long)base);
    }
    forget_sections(buf, n);
    if (pb_elf_from_memory(&head, buf, n, err) < 0)
        return -1;
    size = image_size(&head);
    bias = base - head.base_vaddr;
    image = size < sizeof(Elf64_Ehdr) ? MAP_FAILED
                                      : mmap(NULL, size, PROT_READ | PROT_WRITE,
                                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (image == MAP_FAILED) {
        pb_elf_close(&head);
        return pb_err_set(err, PB_FAIL, "image at %#llx too large", (unsigned long long)base);
    }
    copy_segments(image, &head, mem, bias);
    pb_elf_close(&head);
    forget_sections(image, size);
    if (pb_elf_from_memory(elf, image, size, err) < 0) {
        munmap(image, size);
        return -1;
    }
    elf->is_image = true;
    unrelocate_dynamic(elf, image, bias);
    return 0;
}
