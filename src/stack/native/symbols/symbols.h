/*
 * symbols.h - the functions that hold a set of addresses, in one pass.
 *
 * Owns: nothing; names point into the file.
 * Threads: any. Fails: an address that no symbol covers keeps name NULL.
 * Not here: demangling (native.h), source lines (dwarf_line.h).
 */
#ifndef PB_STACK_NATIVE_SYMBOLS_SYMBOLS_H
#define PB_STACK_NATIVE_SYMBOLS_SYMBOLS_H

#include "host/elf/elf.h"

#define PB_SYMBOL_NAME_MAX 32768 /* what is copied of a name: longer ones only serve to do harm */

struct pb_symbol_query {
    uint64_t vaddr;
    const char *name; /* raw, into the file; NULL until found */
    uint64_t start;
    unsigned char type;
    const char *file; /* source, see dwarf_line.h */
    int lineno;
    bool has_unit;
    uint64_t unit; /* offset in .debug_info */
};

/* v is sorted by vaddr. Reads .symtab, then .dynsym for what is left. */
void pb_symbols_find(const struct pb_elf *elf, struct pb_symbol_query *v, size_t n);

#endif
