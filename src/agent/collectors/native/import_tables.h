/*
 * import_tables.h - where a loaded library keeps the addresses of what it imports.
 *
 * Owns: nothing.
 * Threads: inside of dl_iterate_phdr, which keeps the library loaded.
 * Fails: false, for a library without such tables.
 * Not here: what is put there (import.h, imports.h).
 */
#ifndef PB_AGENT_COLLECTORS_NATIVE_IMPORT_TABLES_H
#define PB_AGENT_COLLECTORS_NATIVE_IMPORT_TABLES_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PB_IMPORT_RELOCATIONS_MAX (1u << 22)

/* The loader's tables of one library. */
struct pb_import_tables {
    const ElfW(Sym) *symbols;
    const char *names;
    size_t names_size;
    const ElfW(Rela) *calls, *others; /* the first of `others` that name no symbol are left out */
    size_t ncalls, nothers;
};

bool pb_import_tables_read(const struct dl_phdr_info *info, struct pb_import_tables *ret);
const ElfW(Phdr) *pb_import_header(const struct dl_phdr_info *info, uint32_t type);
/* Whether an offset is in a part of the library that the loader has mapped to be written. */
bool pb_import_is_writable(const struct dl_phdr_info *info, uintptr_t offset);
/* Whether the loader has made it read-only since. */
bool pb_import_is_sealed(const struct dl_phdr_info *info, uintptr_t offset);
/* Puts an address there; false: it cannot be written. */
bool pb_import_write(void *_Atomic *slot, bool sealed, void *value);

#endif
