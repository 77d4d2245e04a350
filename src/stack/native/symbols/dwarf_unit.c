/* dwarf_unit.c - from an address to its compilation unit, and to the unit's line program. */
#include "stack/native/symbols/dwarf_entry.h"
#include "stack/native/symbols/dwarf_form.h"

enum { AT_stmt_list = 0x10, UT_compile = 1, UT_partial = 3, UT_skeleton = 4 };

bool pb_dwarf_next_unit(struct pb_cursor *c, struct pb_dwarf_unit *ret)
{
    uint64_t len = pb_cursor_u32(c);

    ret->offset_size = 4;
    if (len == 0xffffffff) {
        len = pb_cursor_u64(c);
        ret->offset_size = 8;
    } else if (len >= 0xfffffff0) {
        pb_cursor_fail(c);
    }
    ret->c = pb_cursor_bytes(c, len);
    return !c->bad && len > 0;
}

void pb_dwarf_skip_form(struct pb_cursor *c, uint64_t form, size_t offset_size, size_t addr_size)
{
    /* clang-format off */
    switch (form) {
    case FORM_flag_present:
    case FORM_implicit_const: break;
    case FORM_data1: case FORM_flag: case FORM_ref1: case FORM_strx1: case FORM_addrx1:
        pb_cursor_skip(c, 1);
        break;
    case FORM_data2: case FORM_ref2: case FORM_strx2: case FORM_addrx2:
        pb_cursor_skip(c, 2);
        break;
    case FORM_strx3: case FORM_addrx3: pb_cursor_skip(c, 3); break;
    case FORM_data4: case FORM_ref4: case FORM_ref_sup4: case FORM_strx4: case FORM_addrx4:
        pb_cursor_skip(c, 4);
        break;
    case FORM_data8: case FORM_ref8: case FORM_ref_sig8: case FORM_ref_sup8:
        pb_cursor_skip(c, 8);
        break;
    case FORM_data16: pb_cursor_skip(c, 16); break;
    case FORM_addr: pb_cursor_skip(c, addr_size); break;
    case FORM_strp: case FORM_ref_addr: case FORM_sec_offset: case FORM_strp_sup:
    case FORM_line_strp: case FORM_GNU_ref_alt: case FORM_GNU_strp_alt:
        pb_cursor_skip(c, offset_size);
        break;
    case FORM_sdata: case FORM_udata: case FORM_ref_udata: case FORM_strx: case FORM_addrx:
    case FORM_loclistx: case FORM_rnglistx: case FORM_GNU_addr_index: case FORM_GNU_str_index:
        pb_cursor_uleb(c);
        break;
    case FORM_string: pb_cursor_string(c); break;
    case FORM_block1: pb_cursor_skip(c, pb_cursor_u8(c)); break;
    case FORM_block2: pb_cursor_skip(c, pb_cursor_u16(c)); break;
    case FORM_block4: pb_cursor_skip(c, pb_cursor_u32(c)); break;
    case FORM_block: case FORM_exprloc: pb_cursor_skip(c, pb_cursor_uleb(c)); break;
    default: pb_cursor_fail(c); break; /* FORM_indirect too: no compiler writes it here */
    }
    /* clang-format on */
}

/* The attributes of one declaration in .debug_abbrev. */
static bool find_abbrev(const struct pb_dwarf *d, uint64_t table, uint64_t code,
                        struct pb_cursor *ret)
{
    struct pb_cursor c = pb_cursor_make(d->abbrev.data, d->abbrev.size);
    uint64_t here, attr, form;

    pb_cursor_skip(&c, table);
    while (!pb_cursor_done(&c)) {
        here = pb_cursor_uleb(&c);
        if (here == 0)
            return false;
        pb_cursor_uleb(&c); /* tag */
        pb_cursor_u8(&c);   /* has children */
        if (here == code) {
            *ret = c;
            return !c.bad;
        }
        do {
            attr = pb_cursor_uleb(&c);
            form = pb_cursor_uleb(&c);
            if (form == FORM_implicit_const)
                pb_cursor_sleb(&c);
        } while ((attr || form) && !c.bad);
    }
    return false;
}

bool pb_dwarf_unit_header(struct pb_dwarf_unit *u, uint64_t *abbrev, size_t *addr_size)
{
    unsigned version = pb_cursor_u16(&u->c);
    uint8_t type = UT_compile;

    u->version = version;
    if (version < 2 || version > 5)
        return false;
    if (version == 5) {
        type = pb_cursor_u8(&u->c);
        *addr_size = pb_cursor_u8(&u->c);
    }
    *abbrev = pb_cursor_uint(&u->c, u->offset_size);
    if (version < 5)
        *addr_size = pb_cursor_u8(&u->c);
    if (type == UT_skeleton)
        pb_cursor_skip(&u->c, 8);
    return !u->c.bad && (type == UT_compile || type == UT_partial || type == UT_skeleton);
}

bool pb_dwarf_unit_lines(const struct pb_dwarf *d, uint64_t unit, uint64_t *ret_offset)
{
    struct pb_cursor c = pb_cursor_make(d->info.data, d->info.size), attrs;
    struct pb_dwarf_unit u;
    uint64_t abbrev, attr, form;
    size_t addr_size = 8;

    pb_cursor_skip(&c, unit);
    if (!pb_dwarf_next_unit(&c, &u) || !pb_dwarf_unit_header(&u, &abbrev, &addr_size) ||
        !find_abbrev(d, abbrev, pb_cursor_uleb(&u.c), &attrs))
        return false;
    for (;;) {
        attr = pb_cursor_uleb(&attrs);
        form = pb_cursor_uleb(&attrs);
        if (form == FORM_implicit_const)
            pb_cursor_sleb(&attrs);
        if ((!attr && !form) || attrs.bad || u.c.bad)
            return false;
        if (attr == AT_stmt_list) {
            size_t width = form == FORM_data4 ? 4 : form == FORM_data8 ? 8 : u.offset_size;

            *ret_offset = pb_cursor_uint(&u.c, width);
            return !u.c.bad;
        }
        pb_dwarf_skip_form(&u.c, form, u.offset_size, addr_size);
    }
}

/* Wanted addresses inside [start, start + len) belong to the unit. */
static void note_unit(struct pb_symbol_query *v, size_t n, uint64_t start, uint64_t len,
                      uint64_t unit)
{
    size_t lo = 0, hi = n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (v[mid].vaddr < start)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (; lo < n && v[lo].vaddr - start < len; lo++) {
        v[lo].has_unit = true;
        v[lo].unit = unit;
    }
}

static void find_by_aranges(const struct pb_dwarf *d, struct pb_symbol_query *v, size_t n)
{
    struct pb_cursor all = pb_cursor_make(d->aranges.data, d->aranges.size);
    struct pb_dwarf_unit u;

    while (!pb_cursor_done(&all)) {
        const uint8_t *begin = all.p;
        uint64_t unit, start, len;
        size_t addr_size, misfit;

        if (!pb_dwarf_next_unit(&all, &u))
            return;
        pb_cursor_u16(&u.c); /* version */
        unit = pb_cursor_uint(&u.c, u.offset_size);
        addr_size = pb_cursor_u8(&u.c);
        pb_cursor_u8(&u.c); /* segment selector size */
        if (u.c.bad || addr_size != 8)
            continue;
        /* Pairs are aligned to their own size, counted from the unit's beginning. */
        misfit = (size_t)(u.c.p - begin) % (2 * addr_size);
        if (misfit)
            pb_cursor_skip(&u.c, 2 * addr_size - misfit);
        for (;;) {
            start = pb_cursor_u64(&u.c);
            len = pb_cursor_u64(&u.c);
            if (u.c.bad || (!start && !len))
                break;
            note_unit(v, n, start, len, unit);
        }
    }
}

/* The wanted addresses, and the unit whose ranges are being told. */
struct noting {
    struct pb_symbol_query *v;
    size_t n;
    uint64_t unit;
};

static bool note_range(uint64_t from, uint64_t to, void *arg)
{
    struct noting *w = arg;

    if (from && to > from)
        note_unit(w->v, w->n, from, to - from, w->unit);
    return false;
}

static bool have_all(const struct pb_symbol_query *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!v[i].has_unit)
            return false;
    return true;
}

/* Without .debug_aranges, as clang leaves it: by what each unit says of itself. */
static void find_by_info(const struct pb_dwarf *d, struct pb_symbol_query *v, size_t n,
                         struct pb_arena *a)
{
    struct pb_cursor all = pb_cursor_make(d->info.data, d->info.size);
    long work = PB_DWARF_WORK_MAX;

    while (!pb_cursor_done(&all) && work > 0 && !have_all(v, n)) {
        struct pb_dwarf_entries u = {.d = d, .work = &work};
        struct noting w = {v, n, (uint64_t)(all.p - d->info.data)};
        struct pb_dwarf_entry first;
        struct pb_dwarf_unit skipped;

        if (pb_dwarf_open_unit(&u, w.unit, a, &first))
            pb_dwarf_each_range(&u, &first, note_range, &w);
        if (!pb_dwarf_next_unit(&all, &skipped))
            return;
    }
}

void pb_dwarf_find_units(const struct pb_dwarf *d, struct pb_symbol_query *v, size_t n,
                         struct pb_arena *a)
{
    if (d->aranges.size)
        find_by_aranges(d, v, n);
    else
        find_by_info(d, v, n, a);
}
