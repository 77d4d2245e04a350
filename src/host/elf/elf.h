/*
 * elf.h - a read-only view of one ELF file.
 *
 * Owns: the mapping of the file, which whoever owns the file may change at any time: values are
 * copied before they are checked.
 * Threads: any number of readers of an open object.
 * Fails: with a reason; every offset in the file is checked, nothing in it is
 * trusted (fuzzed in tests/fuzz).
 * Not here: where the file is loaded (maps.h), CFI, DWARF.
 */
#ifndef PB_HOST_ELF_ELF_H
#define PB_HOST_ELF_ELF_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct pb_elf {
    const uint8_t *data;
    size_t size;
    bool is_file, is_image; /* data is ours to unmap: a file's, or a copy of a target's memory */
    const Elf64_Ehdr *eh;
    const Elf64_Phdr *ph;
    size_t nph;
    const Elf64_Shdr *sh; /* NULL when the section table is missing or bad */
    size_t nsh;
    const char *shstr;
    size_t shstr_len;
    uint64_t base_vaddr; /* page-aligned p_vaddr - p_offset side of the first PT_LOAD */
    void *eh_copy, *ph_copy, *sh_copy; /* ours: where eh, ph and sh point */
};

/* A run of bytes inside the file, together with its address when loaded. */
struct pb_elf_range {
    const uint8_t *data;
    size_t size;
    uint64_t vaddr;
};

struct pb_elf_sym {
    const char *name; /* points into the file */
    uint64_t vaddr;
    uint64_t size;
    unsigned char type; /* STT_* */
};

enum pb_elf_table { PB_ELF_DYNSYM, PB_ELF_SYMTAB };

/* A symbol table with its strings, for passes that must be quick. */
struct pb_elf_symbols {
    const uint8_t *syms; /* n times Elf64_Sym, maybe unaligned: read by memcpy */
    size_t n;
    const char *str;
    size_t str_len; /* up to and with the last NUL: a name that begins below it also ends there */
};

/* Do bytes [off, off + len) lie within the first size ones? */
static inline bool pb_elf_inside(size_t size, uint64_t off, uint64_t len)
{
    return off <= size && len <= size - off;
}

int pb_elf_open_fd(struct pb_elf *elf, int fd, struct pb_err *err);
/* The bytes stay the caller's (the vdso, a fuzzer's input). */
int pb_elf_from_memory(struct pb_elf *elf, const void *data, size_t size, struct pb_err *err);
void pb_elf_close(struct pb_elf *elf);

/* Finds a section by name; false when it is not there or lies outside the file. */
bool pb_elf_section(const struct pb_elf *elf, const char *name, struct pb_elf_range *ret);
/* The bytes of a section; false when it has none in the file, or they are compressed. */
bool pb_elf_section_bytes(const struct pb_elf *elf, const Elf64_Shdr *sh, struct pb_elf_range *ret);
/* Finds the first program header of a type, as bytes of the file. */
bool pb_elf_segment(const struct pb_elf *elf, uint32_t type, struct pb_elf_range *ret);
/* File bytes behind an address (through PT_LOAD); false outside of them. */
bool pb_elf_at(const struct pb_elf *elf, uint64_t vaddr, struct pb_elf_range *ret);

bool pb_elf_symbols(const struct pb_elf *elf, enum pb_elf_table table, struct pb_elf_symbols *ret);
/* Symbol i; false when it is undefined here or has no proper name. */
bool pb_elf_symbol(const struct pb_elf_symbols *t, size_t i, struct pb_elf_sym *ret);

/*
 * Calls visit for each defined symbol of a table until it returns true; then
 * returns true. Without section headers the dynamic symbols are found through
 * PT_DYNAMIC.
 */
bool pb_elf_each_symbol(const struct pb_elf *elf, enum pb_elf_table table,
                        bool (*visit)(const struct pb_elf_sym *sym, void *arg), void *arg);
/* Looks a name up among the exported symbols only: quick also when it is not there. */
bool pb_elf_find_export(const struct pb_elf *elf, const char *name, struct pb_elf_sym *ret);
/* Looks a name up in .dynsym (by its hash table where there is one), then in .symtab. */
bool pb_elf_find_symbol(const struct pb_elf *elf, const char *name, struct pb_elf_sym *ret);

#endif
