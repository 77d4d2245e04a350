/* dwarf_entry.c - entries of a compilation unit in .debug_info. */
#include "stack/native/symbols/dwarf_entry.h"

#include "stack/native/symbols/dwarf_form.h"

#define ABBREVS_MAX 65536

/* clang-format off */
enum {
    AT_sibling = 0x01, AT_low_pc = 0x11, AT_high_pc = 0x12, AT_ranges = 0x55, AT_call_file = 0x58,
    AT_call_line = 0x59, AT_addr_base = 0x73, AT_rnglists_base = 0x74,
    RLE_end_of_list = 0, RLE_base_addressx, RLE_startx_endx, RLE_startx_length, RLE_offset_pair,
    RLE_base_address, RLE_start_end, RLE_start_length,
};
/* clang-format on */

static void read_abbrevs(struct pb_dwarf_entries *u, uint64_t table, struct pb_arena *a)
{
    struct pb_cursor c = pb_cursor_make(u->d->abbrev.data, u->d->abbrev.size);
    size_t cap = 0;

    pb_cursor_skip(&c, table);
    for (;;) {
        uint64_t code = pb_cursor_uleb(&c), attr, form;
        struct pb_dwarf_abbrev b;

        if (c.bad || code == 0 || code > ABBREVS_MAX || --*u->work <= 0)
            return;
        b = (struct pb_dwarf_abbrev){.tag = pb_cursor_uleb(&c), .children = pb_cursor_u8(&c) != 0};
        b.attrs = c;
        do {
            attr = pb_cursor_uleb(&c);
            form = pb_cursor_uleb(&c);
            if (form == FORM_implicit_const)
                pb_cursor_sleb(&c);
        } while ((attr || form) && !c.bad);
        while (code >= cap) {
            size_t more = cap ? cap * 2 : 64;

            u->abbrevs = pb_arena_grow(a, u->abbrevs, cap * sizeof b, more * sizeof b);
            memset(u->abbrevs + cap, 0, (more - cap) * sizeof b);
            cap = more;
        }
        u->abbrevs[code] = b;
        u->nabbrevs = cap;
    }
}

/* A word of .debug_addr or an offset out of .debug_rnglists, by its number. */
static uint64_t by_number(const struct pb_elf_range *section, uint64_t base, uint64_t number,
                          size_t size)
{
    struct pb_cursor c = pb_cursor_make(section->data, section->size);

    if (base > section->size || number > section->size)
        return 0;
    pb_cursor_skip(&c, base + number * size);
    return pb_cursor_uint(&c, size);
}

static uint64_t address_by_number(const struct pb_dwarf_entries *u, uint64_t number)
{
    return by_number(&u->d->addr, u->addr_base, number, u->addr_size);
}

/* The number in front of an address by number: of one to four bytes, or as many as it needs. */
static uint64_t read_index(struct pb_cursor *c, uint64_t form)
{
    return form == FORM_addrx ? pb_cursor_uleb(c) : pb_cursor_uint(c, form - FORM_addrx1 + 1);
}

/* A number of some form; false, and skipped, where it is none that can be used by itself. */
static bool read_number(struct pb_dwarf_entries *u, uint64_t form, int64_t constant, uint64_t *ret)
{
    struct pb_cursor *c = &u->u.c;

    switch (form) {
    case FORM_addr:
        *ret = pb_cursor_uint(c, u->addr_size);
        return true;
    case FORM_data1:
    case FORM_ref1:
        *ret = pb_cursor_u8(c);
        return true;
    case FORM_data2:
    case FORM_ref2:
        *ret = pb_cursor_u16(c);
        return true;
    case FORM_data4:
    case FORM_ref4:
        *ret = pb_cursor_u32(c);
        return true;
    case FORM_data8:
    case FORM_ref8:
        *ret = pb_cursor_u64(c);
        return true;
    case FORM_udata:
    case FORM_ref_udata:
        *ret = pb_cursor_uleb(c);
        return true;
    case FORM_sdata:
        *ret = (uint64_t)pb_cursor_sleb(c);
        return true;
    case FORM_sec_offset:
        *ret = pb_cursor_uint(c, u->u.offset_size);
        return true;
    case FORM_implicit_const:
        *ret = (uint64_t)constant;
        return true;
    case FORM_addrx:
    case FORM_addrx1:
    case FORM_addrx2:
    case FORM_addrx3:
    case FORM_addrx4:
        *ret = address_by_number(u, read_index(c, form));
        return true;
    case FORM_rnglistx:
        *ret = u->rnglists_base + by_number(&u->d->rnglists, u->rnglists_base, pb_cursor_uleb(c),
                                            u->u.offset_size);
        return true;
    default:
        pb_dwarf_skip_form(c, form, u->u.offset_size, u->addr_size);
        return false;
    }
}

static bool is_address(uint64_t form)
{
    return form == FORM_addr || form == FORM_addrx || (form >= FORM_addrx1 && form <= FORM_addrx4);
}

static void store_attribute(struct pb_dwarf_entry *e, uint64_t attr, uint64_t form, uint64_t value)
{
    switch (attr) {
    case AT_sibling:
        e->sibling = value;
        break;
    case AT_low_pc:
        e->low = value;
        e->has_low = true;
        break;
    case AT_high_pc: /* an address, or a length */
        e->high = is_address(form) ? value : e->low + value;
        e->has_high = true;
        break;
    case AT_ranges:
        e->ranges = value;
        e->has_ranges = true;
        break;
    case AT_call_file:
        e->call_file = value;
        break;
    case AT_call_line:
        e->call_line = value;
        break;
    case AT_addr_base:
        e->addr_base = value;
        break;
    case AT_rnglists_base:
        e->rnglists_base = value;
        break;
    }
}

bool pb_dwarf_read_entry(struct pb_dwarf_entries *u, struct pb_dwarf_entry *e)
{
    uint64_t code = pb_cursor_uleb(&u->u.c), attr, form, value;
    struct pb_cursor attrs;

    memset(e, 0, sizeof *e);
    if (code == 0)
        return false;
    if (--*u->work <= 0)
        pb_cursor_fail(&u->u.c);
    if (code >= u->nabbrevs || !u->abbrevs[code].tag)
        return true;
    attrs = u->abbrevs[code].attrs;
    for (;;) {
        int64_t constant = 0;

        attr = pb_cursor_uleb(&attrs);
        form = pb_cursor_uleb(&attrs);
        if (form == FORM_implicit_const)
            constant = pb_cursor_sleb(&attrs);
        if (attrs.bad || u->u.c.bad)
            return true;
        if (!attr && !form)
            break;
        if (read_number(u, form, constant, &value))
            store_attribute(e, attr, form, value);
    }
    e->abbrev = &u->abbrevs[code];
    return true;
}

static bool each_range_4(const struct pb_dwarf_entries *u, uint64_t offset,
                         pb_dwarf_range_fn *visit, void *arg)
{
    struct pb_cursor c = pb_cursor_make(u->d->ranges.data, u->d->ranges.size);
    uint64_t base = u->base;

    pb_cursor_skip(&c, offset);
    while (--*u->work > 0) {
        uint64_t from = pb_cursor_u64(&c), to = pb_cursor_u64(&c);

        if (c.bad || (!from && !to))
            return false;
        if (from == UINT64_MAX)
            base = to;
        else if (visit(base + from, base + to, arg))
            return true;
    }
    return false;
}

/* One entry of a list of ranges: 1 a range, 0 a new base, -1 the end. */
static int read_range_5(const struct pb_dwarf_entries *u, struct pb_cursor *c, uint64_t *base,
                        uint64_t *from, uint64_t *to)
{
    switch (pb_cursor_u8(c)) {
    case RLE_base_addressx:
        *base = address_by_number(u, pb_cursor_uleb(c));
        return 0;
    case RLE_base_address:
        *base = pb_cursor_u64(c);
        return 0;
    case RLE_startx_endx:
        *from = address_by_number(u, pb_cursor_uleb(c));
        *to = address_by_number(u, pb_cursor_uleb(c));
        return 1;
    case RLE_startx_length:
        *from = address_by_number(u, pb_cursor_uleb(c));
        *to = *from + pb_cursor_uleb(c);
        return 1;
    case RLE_offset_pair:
        *from = *base + pb_cursor_uleb(c);
        *to = *base + pb_cursor_uleb(c);
        return 1;
    case RLE_start_end:
        *from = pb_cursor_u64(c);
        *to = pb_cursor_u64(c);
        return 1;
    case RLE_start_length:
        *from = pb_cursor_u64(c);
        *to = *from + pb_cursor_uleb(c);
        return 1;
    default:
        return -1;
    }
}

static bool each_range_5(const struct pb_dwarf_entries *u, uint64_t offset,
                         pb_dwarf_range_fn *visit, void *arg)
{
    struct pb_cursor c = pb_cursor_make(u->d->rnglists.data, u->d->rnglists.size);
    uint64_t base = u->base, from = 0, to = 0;

    pb_cursor_skip(&c, offset);
    while (--*u->work > 0) {
        int kind = read_range_5(u, &c, &base, &from, &to);

        if (kind < 0 || c.bad)
            return false;
        if (kind > 0 && visit(from, to, arg))
            return true;
    }
    return false;
}

bool pb_dwarf_each_range(const struct pb_dwarf_entries *u, const struct pb_dwarf_entry *e,
                         pb_dwarf_range_fn *visit, void *arg)
{
    if (e->has_low && e->has_high)
        return visit(e->low, e->high, arg);
    if (!e->has_ranges)
        return false;
    return u->u.version >= 5 ? each_range_5(u, e->ranges, visit, arg)
                             : each_range_4(u, e->ranges, visit, arg);
}

bool pb_dwarf_open_unit(struct pb_dwarf_entries *u, uint64_t offset, struct pb_arena *a,
                        struct pb_dwarf_entry *ret)
{
    struct pb_cursor c = pb_cursor_make(u->d->info.data, u->d->info.size), entries;
    uint64_t abbrev;

    u->addr_size = 8;
    pb_cursor_skip(&c, offset);
    u->begin = c.p;
    if (!pb_dwarf_next_unit(&c, &u->u) || !pb_dwarf_unit_header(&u->u, &abbrev, &u->addr_size) ||
        u->addr_size != 8)
        return false;
    read_abbrevs(u, abbrev, a);
    entries = u->u.c;
    if (!pb_dwarf_read_entry(u, ret) || !ret->abbrev)
        return false;
    /* The bases of numbers may stand behind the numbers: read once more with them. */
    u->addr_base = ret->addr_base;
    u->rnglists_base = ret->rnglists_base;
    u->u.c = entries;
    if (!pb_dwarf_read_entry(u, ret) || !ret->abbrev)
        return false;
    u->base = ret->low;
    return true;
}
