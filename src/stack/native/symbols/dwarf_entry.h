/*
 * dwarf_entry.h - entries of a compilation unit in .debug_info.
 *
 * Owns: nothing; declarations go into the caller's arena.
 * Threads: any.
 * Fails: damaged data ends the reading of a unit; work is bounded by the caller's count.
 * Not here: what entries mean for a line (dwarf_inline.c), finding units (dwarf_unit.c).
 */
#ifndef PB_STACK_NATIVE_SYMBOLS_DWARF_ENTRY_H
#define PB_STACK_NATIVE_SYMBOLS_DWARF_ENTRY_H

#include "stack/native/symbols/dwarf_line.h"

/* Entries and ranges looked at in one file; the largest unit of CPython has 200,000. */
#define PB_DWARF_WORK_MAX 8000000

/* A declaration in .debug_abbrev: what entries of this code look like. */
struct pb_dwarf_abbrev {
    uint64_t tag;
    bool children;
    struct pb_cursor attrs;
};

struct pb_dwarf_entries {
    const struct pb_dwarf *d;
    struct pb_dwarf_unit u;
    const uint8_t *begin;
    size_t addr_size;
    uint64_t base; /* lowest address, from which ranges count */
    uint64_t addr_base, rnglists_base; /* bases of what is given by number, from DWARF 5 on */
    struct pb_dwarf_abbrev *abbrevs; /* by code */
    size_t nabbrevs;
    long *work; /* what is left of PB_DWARF_WORK_MAX */
};

struct pb_dwarf_entry {
    const struct pb_dwarf_abbrev *abbrev; /* NULL: makes no sense */
    uint64_t low, high, ranges, sibling, call_file, call_line;
    uint64_t addr_base, rnglists_base;
    bool has_low, has_high, has_ranges;
};

/* Opens the unit at an offset of .debug_info; its first entry, or false. */
bool pb_dwarf_open_unit(struct pb_dwarf_entries *u, uint64_t offset, struct pb_arena *a,
                        struct pb_dwarf_entry *ret);
/* False at the end of a list of children. */
bool pb_dwarf_read_entry(struct pb_dwarf_entries *u, struct pb_dwarf_entry *e);

/* Calls visit for each range of addresses of an entry until it returns true; then true. */
typedef bool pb_dwarf_range_fn(uint64_t from, uint64_t to, void *arg);
bool pb_dwarf_each_range(const struct pb_dwarf_entries *u, const struct pb_dwarf_entry *e,
                         pb_dwarf_range_fn *visit, void *arg);

#endif
