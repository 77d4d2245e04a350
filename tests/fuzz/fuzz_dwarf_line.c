/* Any bytes as debug information: the lookup ends and stays inside them. */
#include "stack/native/symbols/dwarf_line.h"

#include "../unit/stack/native/line_program.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t pb_fuzz_seed(int index, uint8_t *buf, size_t cap);

/* In front: the sizes of the sections, 16 bits each; the last section takes the rest. */
#define SECTIONS 5
#define HEAD (2 * SECTIONS)

static struct pb_elf_range take(struct pb_cursor *c, size_t size)
{
    struct pb_cursor part = pb_cursor_bytes(c, size < pb_cursor_left(c) ? size : pb_cursor_left(c));

    return (struct pb_elf_range){part.p, (size_t)(part.end - part.p), 0};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pb_symbol_query want[3] = {
        {.vaddr = 0}, {.vaddr = LINE_CODE + 5}, {.vaddr = LINE_CODE + 13}};
    struct pb_cursor c = pb_cursor_make(data, size);
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_dwarf d = {.line = {0}};
    uint16_t sizes[SECTIONS];
    uint64_t offset;

    if (size < HEAD)
        return 0;
    for (size_t i = 0; i < SECTIONS; i++)
        sizes[i] = pb_cursor_u16(&c);
    d.line_str = take(&c, sizes[0]);
    d.info = take(&c, sizes[1]);
    d.abbrev = take(&c, sizes[2]);
    d.aranges = take(&c, sizes[3]);
    d.line = take(&c, sizes[4]);
    d.str = take(&c, SIZE_MAX);
    pb_dwarf_run_lines(&d, 0, want, 3, 3, &a);
    pb_dwarf_find_units(&d, want, 3, &a);
    for (size_t i = 0; i < 3; i++) {
        if (want[i].has_unit && pb_dwarf_unit_lines(&d, want[i].unit, &offset))
            pb_dwarf_run_lines(&d, offset, want, 3, 3, &a);
    }
    for (size_t i = 0; i < 3; i++)
        want[i].file = "any";
    d.ranges = d.rnglists = d.addr = d.str;
    pb_dwarf_leave_inlined(&d, want, 3, &a);
    /* As if there were no table of units, and the last section held anything. */
    d.aranges.size = 0;
    for (size_t i = 0; i < 3; i++)
        want[i].has_unit = false;
    pb_dwarf_find_units(&d, want, 3, &a);
    pb_arena_finish(&a);
    return 0;
}

size_t pb_fuzz_seed(int index, uint8_t *buf, size_t cap)
{
    struct bytes part[SECTIONS] = {{.n = 0}}, all = {.n = 0};
    unsigned version = index == 0 ? 4 : 5;

    if (index < 0 || index > 1)
        return 0;
    build_line_str(&part[0]);
    build_info(&part[1], version, 0);
    build_abbrev(&part[2]);
    build_aranges(&part[3], 0, LINE_CODE, 16);
    build_line(&part[4], version);
    for (size_t i = 0; i < SECTIONS; i++)
        put_number(&all, part[i].n, 2);
    for (size_t i = 0; i < SECTIONS; i++)
        put(&all, part[i].v, part[i].n);
    if (all.n > cap)
        return 0;
    memcpy(buf, all.v, all.n);
    return all.n;
}
