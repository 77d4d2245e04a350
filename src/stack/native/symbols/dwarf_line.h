/*
 * dwarf_line.h - source lines from debug information, DWARF 2 to 5.
 *
 * Owns: nothing; file names go into the arena.
 * Threads: any.
 * Fails: an address without a line keeps file NULL; damaged data too.
 * Not here: debug information in other files, compressed sections.
 *
 * Work is bounded: .debug_aranges leads to the one unit that is needed; where it is missing, what
 * each unit says of itself in .debug_info; without that, line programs are run in turn up to a
 * limit per file.
 */
#ifndef PB_STACK_NATIVE_SYMBOLS_DWARF_LINE_H
#define PB_STACK_NATIVE_SYMBOLS_DWARF_LINE_H

#include "host/text/arena.h"
#include "host/elf/elf.h"
#include "stack/native/cursor.h"
#include "stack/native/symbols/symbols.h"

/* Fills file and lineno of the wanted addresses, which are sorted by vaddr. */
void pb_dwarf_lines(const struct pb_elf *elf, struct pb_symbol_query *v, size_t n,
                    struct pb_arena *a);

/* Sections that debug information is spread over; absent ones are empty. */
struct pb_dwarf {
    struct pb_elf_range line, line_str, str;
    struct pb_elf_range aranges, info, abbrev;
    struct pb_elf_range ranges, rnglists; /* to DWARF 4, and from 5 on */
    struct pb_elf_range addr;             /* addresses that are given by number */
};

/* What stands in front of every unit: its length, and how wide offsets are in it. */
struct pb_dwarf_unit {
    struct pb_cursor c; /* behind the length, to the unit's end */
    size_t offset_size; /* 4 or 8 */
    unsigned version;   /* the unit's version; known when its header was read */
};

bool pb_dwarf_next_unit(struct pb_cursor *c, struct pb_dwarf_unit *ret);
/* Moves over the value of an attribute. */
void pb_dwarf_skip_form(struct pb_cursor *c, uint64_t form, size_t offset_size, size_t addr_size);

/*
 * Runs the line program at an offset of .debug_line over the wanted addresses,
 * until as many as expected were found. Returns the bytes that it has, 0 when
 * there is none.
 */
uint64_t pb_dwarf_run_lines(const struct pb_dwarf *d, uint64_t offset, struct pb_symbol_query *v,
                            size_t n, size_t expected, struct pb_arena *a);
/* Name of a file by its number in the line program at an offset of .debug_line, or NULL. */
const char *pb_dwarf_file_name(const struct pb_dwarf *d, uint64_t offset, uint64_t index,
                               struct pb_arena *a);
/*
 * A line program has the line of the innermost function, inlined or not; the symbol table knows
 * only the function that others were inlined into. Replaces such lines by the one in that function
 * from which the others were called. Needs the units noted.
 */
void pb_dwarf_leave_inlined(const struct pb_dwarf *d, struct pb_symbol_query *v, size_t n,
                            struct pb_arena *a);
/* Reads up to the first entry of a unit; false for units that have no line program. */
bool pb_dwarf_unit_header(struct pb_dwarf_unit *u, uint64_t *abbrev, size_t *addr_size);
/* Notes in each wanted address the unit of .debug_info that holds it. */
void pb_dwarf_find_units(const struct pb_dwarf *d, struct pb_symbol_query *v, size_t n,
                         struct pb_arena *a);
/* The line program of a unit of .debug_info. */
bool pb_dwarf_unit_lines(const struct pb_dwarf *d, uint64_t unit, uint64_t *ret_offset);

#endif
