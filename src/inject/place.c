/*
 * Where things go in the target's address space.
 *
 * Code: behind the last instruction of a mapped file the page is filled up
 * with zeros that are mapped executable and belong to nobody. The private
 * copy of that one page is all it costs; no live code is touched and no page
 * is ever writable and executable.
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "host/elf/elf.h"
#include "host/elf/elf_image.h"
#include "inject/arch.h"
#include "inject/internal.h"

#define PAGE 4096ull
#define CODE_ALIGN 16
#define CODE_MAX 4096
/* For pthread_create, its lazy binding (which saves all vector registers) and a signal frame. */
#define STUB_STACK (64u << 10)
#define COMPARE_CHUNK (64u << 10)
/* Below this lies the user's half of the address space on every supported machine. */
#define ADDRESS_END (1ull << 46)
#define ADDRESS_LOW (1ull << 24)

static size_t code_size(void)
{
    return (size_t)(pb_code_end - pb_code_start);
}

/* First free byte behind the code of a mapped file; 0 when that cannot be told. */
static uint64_t end_of_code(struct pb_injection *in, const struct pb_map *map)
{
    struct pb_err ignored = {0};
    struct pb_elf elf;
    uint64_t end = 0;
    int fd = pb_maps_open_file(in->pid, map, &ignored);

    if (fd < 0)
        return 0;
    if (pb_elf_open_fd(&elf, fd, &ignored) == 0) {
        for (size_t i = 0; i < elf.nph; i++) {
            const Elf64_Phdr *ph = &elf.ph[i];

            if (ph->p_type == PT_LOAD && (ph->p_flags & PF_X) && ph->p_filesz == ph->p_memsz &&
                ph->p_offset - ph->p_offset % PAGE == map->offset)
                end = map->start + ph->p_offset % PAGE + ph->p_filesz;
        }
        pb_elf_close(&elf);
    }
    close(fd);
    return end;
}

/* Nothing but zeros, or what an earlier injection wrote of the same code? */
static bool is_free(struct pb_injection *in, uint64_t at)
{
    uint8_t bytes[CODE_MAX];

    if (!pb_mem_get(&in->mem, at, bytes, code_size()))
        return false;
    for (size_t i = 0; i < code_size(); i++)
        if (bytes[i] != 0 && bytes[i] != pb_code_start[i])
            return false;
    return true;
}

static bool write_code(struct pb_injection *in, uint64_t at)
{
    uint8_t bytes[CODE_MAX];

    if (pb_mem_get(&in->mem, at, bytes, code_size()) &&
        memcmp(bytes, pb_code_start, code_size()) == 0)
        return true;
    return pwrite(in->fd, pb_code_start, code_size(), (off_t)at) == (ssize_t)code_size() &&
           pb_mem_get(&in->mem, at, bytes, code_size()) &&
           memcmp(bytes, pb_code_start, code_size()) == 0;
}

static bool place_stub_behind(struct pb_injection *in, const struct pb_map *map)
{
    uint64_t at;

    if (!map->exec || map->write || map->shared || map->path[0] != '/')
        return false;
    at = end_of_code(in, map);
    at = (at + CODE_ALIGN - 1) & ~(uint64_t)(CODE_ALIGN - 1);
    /* Another version of this tool may have been here: what is behind it will do. */
    for (; at > map->start && at + code_size() <= map->end; at += CODE_ALIGN) {
        if (is_free(in, at) && write_code(in, at)) {
            in->code = at;
            in->room_end = map->end;
            return true;
        }
    }
    return false;
}

int pb_place_code(struct pb_injection *in, struct pb_err *err)
{
    const struct pb_map *first = pb_maps_find(&in->maps, in->libc.text.lo);

    if (code_size() > CODE_MAX)
        return pb_err_set(err, PB_FAIL, "the code is too large");
    if (first && place_stub_behind(in, first))
        return 0;
    for (size_t i = 0; i < in->maps.n; i++)
        if (&in->maps.v[i] != first && place_stub_behind(in, &in->maps.v[i]))
            return 0;
    return pb_err_set(err, PB_FAIL,
                      "no room for %zu bytes of code behind any of its files, or the kernel does "
                      "not let us write there",
                      code_size());
}

/* The middle of the widest gap: far from where the kernel places the next mappings. */
int pb_place_arena(struct pb_injection *in, struct pb_err *err)
{
    size_t save = (pb_arch_save_size() + 63) & ~(size_t)63;
    uint64_t at = (PB_B_TOTAL + 63) & ~63ull;
    uint64_t size = (at + save + STUB_STACK + PAGE - 1) & ~(PAGE - 1);
    uint64_t lo = ADDRESS_LOW, best = 0, middle = 0;

    for (size_t i = 0; i <= in->maps.n; i++) {
        uint64_t hi = i < in->maps.n ? in->maps.v[i].start : ADDRESS_END;

        if (hi > ADDRESS_END)
            hi = ADDRESS_END;
        if (hi > lo && hi - lo > best) {
            best = hi - lo;
            middle = lo + best / 2;
        }
        if (i < in->maps.n && in->maps.v[i].end > lo)
            lo = in->maps.v[i].end;
    }
    if (best < size * 1024)
        return pb_err_set(err, PB_FAIL, "no memory left for a probe: its address space is full");
    /* An arena that an injection left behind must not be in the way of the next. */
    middle += pb_clock_ns() / 64 % 256 * size;
    in->block.arena = middle & ~(PAGE - 1);
    in->block.size = size;
    in->block.save = at;
    return 0;
}

/* Does the code at map equal the library's? It is never written to once it is loaded. */
static bool same_code(struct pb_injection *in, const struct pb_map *map,
                      const struct pb_elf_range *code)
{
    uint8_t *chunk = pb_arena_alloc(&in->arena, COMPARE_CHUNK);

    for (size_t done = 0; done < code->size; done += COMPARE_CHUNK) {
        size_t len = code->size - done < COMPARE_CHUNK ? code->size - done : COMPARE_CHUNK;

        if (!pb_mem_get(&in->mem, map->start + done, chunk, len) ||
            memcmp(chunk, code->data + done, len) != 0)
            return false;
    }
    return true;
}

uint64_t pb_place_loaded(struct pb_injection *in)
{
    struct pb_err ignored = {0};
    struct pb_elf_range code = {0};
    struct pb_elf_sym sym;
    struct pb_elf elf;
    uint64_t found = 0, offset = 0, vaddr = 0;

    if (pb_elf_from_memory(&elf, in->o->library, in->o->library_size, &ignored) < 0)
        return 0;
    for (size_t i = 0; i < elf.nph; i++) {
        const Elf64_Phdr *ph = &elf.ph[i];

        if (ph->p_type == PT_LOAD && (ph->p_flags & PF_X) && ph->p_offset % PAGE == 0 &&
            pb_elf_at(&elf, ph->p_vaddr, &code)) {
            offset = ph->p_offset;
            vaddr = ph->p_vaddr;
            code.size = ph->p_filesz;
        }
    }
    for (size_t i = 0; code.data && i < in->maps.n && !found; i++) {
        const struct pb_map *map = &in->maps.v[i];

        if (map->exec && map->offset == offset && map->end - map->start >= code.size &&
            strstr(map->path, "libprobing") && same_code(in, map, &code) &&
            pb_elf_find_symbol(&elf, in->o->entry, &sym))
            found = map->start - vaddr + sym.vaddr;
    }
    pb_elf_close(&elf);
    return found;
}
