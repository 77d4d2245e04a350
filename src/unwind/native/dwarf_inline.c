/* dwarf_inline.c - where a function calls what was inlined into it. */
#include "unwind/native/dwarf_form.h"
#include "unwind/native/dwarf_line.h"

/* Entries and ranges looked at in one file; the largest unit of CPython has 200,000. */
#define WORK_MAX 8000000
#define ABBREVS_MAX 65536

/* clang-format off */
enum {
    TAG_lexical_block = 0x0b, TAG_inlined_subroutine = 0x1d, TAG_subprogram = 0x2e,
    TAG_namespace = 0x39,
    AT_sibling = 0x01, AT_low_pc = 0x11, AT_high_pc = 0x12, AT_ranges = 0x55, AT_call_file = 0x58,
    AT_call_line = 0x59,
    RLE_end_of_list = 0, RLE_offset_pair = 4, RLE_base_address = 5, RLE_start_end = 6,
    RLE_start_length = 7,
};
/* clang-format on */

/* A declaration in .debug_abbrev: what entries of this code look like. */
struct abbrev {
    uint64_t tag;
    bool children;
    struct pb_cursor attrs;
};

struct unit {
    const struct pb_dwarf *d;
    struct pb_dwarf_unit u;
    const uint8_t *begin;
    size_t addr_size;
    uint64_t base; /* lowest address, from which ranges count */
    struct abbrev *abbrevs; /* by code */
    size_t nabbrevs;
    long *work; /* what is left of WORK_MAX */
};

struct entry {
    const struct abbrev *abbrev;
    uint64_t low, high, ranges, sibling, call_file, call_line;
    bool has_low, has_high, has_ranges;
};

static void read_abbrevs(struct unit *u, uint64_t table, struct pb_arena *a)
{
    struct pb_cursor c = pb_cursor_make(u->d->abbrev.data, u->d->abbrev.size);
    size_t cap = 0;

    pb_cursor_skip(&c, table);
    for (;;) {
        uint64_t code = pb_cursor_uleb(&c), attr, form;
        struct abbrev b;

        if (c.bad || code == 0 || code > ABBREVS_MAX)
            return;
        b = (struct abbrev){.tag = pb_cursor_uleb(&c), .children = pb_cursor_u8(&c) != 0};
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

/* A number of some form; false, and skipped, where it is none that can be used by itself. */
static bool read_number(struct unit *u, uint64_t form, int64_t constant, uint64_t *ret)
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
    default:
        pb_dwarf_skip_form(c, form, u->u.offset_size, u->addr_size);
        return false;
    }
}

static void keep(struct entry *e, uint64_t attr, uint64_t form, uint64_t value)
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
        e->high = form == FORM_addr ? value : e->low + value;
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
    }
}

/* False at the end of a list of children; the entry's abbrev is NULL when it makes no sense. */
static bool read_entry(struct unit *u, struct entry *e)
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
            keep(e, attr, form, value);
    }
    e->abbrev = &u->abbrevs[code];
    return true;
}

static bool in_ranges_4(const struct unit *u, uint64_t offset, uint64_t pc)
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
        else if (pc >= base + from && pc < base + to)
            return true;
    }
    return false;
}

static bool in_ranges_5(const struct unit *u, uint64_t offset, uint64_t pc)
{
    struct pb_cursor c = pb_cursor_make(u->d->rnglists.data, u->d->rnglists.size);
    uint64_t base = u->base, from, to;

    pb_cursor_skip(&c, offset);
    while (--*u->work > 0) {
        switch (pb_cursor_u8(&c)) {
        case RLE_offset_pair:
            from = base + pb_cursor_uleb(&c);
            to = base + pb_cursor_uleb(&c);
            break;
        case RLE_base_address:
            base = pb_cursor_u64(&c);
            continue;
        case RLE_start_end:
            from = pb_cursor_u64(&c);
            to = pb_cursor_u64(&c);
            break;
        case RLE_start_length:
            from = pb_cursor_u64(&c);
            to = from + pb_cursor_uleb(&c);
            break;
        default: /* the end, or addresses by number in a table of their own */
            return false;
        }
        if (c.bad)
            return false;
        if (pc >= from && pc < to)
            return true;
    }
    return false;
}

static bool contains(const struct unit *u, const struct entry *e, uint64_t pc)
{
    if (e->has_low && e->has_high)
        return pc >= e->low && pc < e->high;
    if (!e->has_ranges)
        return false;
    return u->u.version >= 5 ? in_ranges_5(u, e->ranges, pc) : in_ranges_4(u, e->ranges, pc);
}

static bool open_unit(struct unit *u, uint64_t offset, struct pb_arena *a)
{
    struct pb_cursor c = pb_cursor_make(u->d->info.data, u->d->info.size);
    struct entry first;
    uint64_t abbrev;

    u->addr_size = 8;
    pb_cursor_skip(&c, offset);
    u->begin = c.p;
    if (!pb_dwarf_next_unit(&c, &u->u) || !pb_dwarf_unit_header(&u->u, &abbrev, &u->addr_size) ||
        u->addr_size != 8)
        return false;
    read_abbrevs(u, abbrev, a);
    if (!read_entry(u, &first) || !first.abbrev || !first.abbrev->children)
        return false;
    u->base = first.low;
    return true;
}

/* Over the children of an entry, where it says where they end. */
static bool skip_children(struct unit *u, const struct entry *e)
{
    size_t at = (size_t)(u->u.c.p - u->begin);

    if (!e->sibling || e->sibling <= at || e->sibling - at > pb_cursor_left(&u->u.c))
        return false;
    pb_cursor_skip(&u->u.c, e->sibling - at);
    return true;
}

/* Where other entries of interest may stand between a unit or a function and its own. */
static bool is_transparent(uint64_t tag)
{
    return tag == TAG_lexical_block || tag == TAG_namespace;
}

/*
 * The outermost inlined call that the address lies in, among the children of its function: entries
 * stand in order of nesting.
 */
static bool find_call(struct unit *u, uint64_t pc, struct entry *ret)
{
    int depth = 1;

    while (!pb_cursor_done(&u->u.c)) {
        if (!read_entry(u, ret)) {
            if (--depth == 0)
                return false;
            continue;
        }
        if (!ret->abbrev || u->u.c.bad)
            return false;
        if (ret->abbrev->tag == TAG_inlined_subroutine && contains(u, ret, pc))
            return ret->call_line > 0 && ret->call_line <= INT32_MAX;
        if (!ret->abbrev->children ||
            (!is_transparent(ret->abbrev->tag) && skip_children(u, ret)))
            continue;
        depth++;
    }
    return false;
}

/* Addresses of one unit, and the files that it is made of. */
struct group {
    struct pb_want *v;
    size_t n, left; /* left: those whose function was not met yet */
    uint64_t lines; /* its line program */
};

static void leave_function(struct unit *u, const struct entry *function, struct group *g,
                           struct pb_arena *a)
{
    const struct pb_cursor children = u->u.c;

    for (size_t i = 0; i < g->n; i++) {
        struct entry call;
        const char *file;

        if (!contains(u, function, g->v[i].vaddr))
            continue;
        g->left -= g->left > 0;
        u->u.c = children;
        if (function->abbrev->children && g->v[i].file && find_call(u, g->v[i].vaddr, &call) &&
            (file = pb_dwarf_file_name(u->d, g->lines, call.call_file, a))) {
            g->v[i].file = file;
            g->v[i].lineno = (int)call.call_line;
        }
    }
    u->u.c = children;
}

/* Goes through the functions of a unit until all addresses have had theirs. */
static void leave_unit(struct unit *u, struct group *g, struct pb_arena *a)
{
    struct entry e;
    int depth = 1;

    while (g->left && !pb_cursor_done(&u->u.c)) {
        if (!read_entry(u, &e)) {
            if (--depth == 0)
                return;
            continue;
        }
        if (!e.abbrev || u->u.c.bad)
            return;
        if (e.abbrev->tag == TAG_subprogram)
            leave_function(u, &e, g, a);
        if (!e.abbrev->children || (!is_transparent(e.abbrev->tag) && skip_children(u, &e)))
            continue;
        depth++;
    }
}

void pb_dwarf_leave_inlined(const struct pb_dwarf *d, struct pb_want *v, size_t n,
                            struct pb_arena *a)
{
    long work = WORK_MAX;

    for (size_t i = 0, end; i < n; i = end) {
        struct group g = {.v = v + i};
        struct unit u = {.d = d, .work = &work};

        /* Functions of a unit lie together, except for those that are never or always used. */
        for (end = i + 1; end < n && v[end].has_unit == v[i].has_unit && v[end].unit == v[i].unit;)
            end++;
        g.n = g.left = end - i;
        if (v[i].has_unit && open_unit(&u, v[i].unit, a) &&
            pb_dwarf_unit_lines(d, v[i].unit, &g.lines))
            leave_unit(&u, &g, a);
    }
}
