/* dwarf_inline.c - where a function calls what was inlined into it. */
#include "stack/native/symbols/dwarf_entry.h"

enum {
    TAG_lexical_block = 0x0b,
    TAG_inlined_subroutine = 0x1d,
    TAG_subprogram = 0x2e,
    TAG_namespace = 0x39,
};

static bool is_inside(uint64_t from, uint64_t to, void *arg)
{
    uint64_t pc = *(uint64_t *)arg;

    return pc >= from && pc < to;
}

static bool contains(const struct pb_dwarf_entries *u, const struct pb_dwarf_entry *e, uint64_t pc)
{
    return pb_dwarf_each_range(u, e, is_inside, &pc);
}

/* Over the children of an entry, where it says where they end. */
static bool skip_children(struct pb_dwarf_entries *u, const struct pb_dwarf_entry *e)
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
static bool find_call(struct pb_dwarf_entries *u, uint64_t pc, struct pb_dwarf_entry *ret)
{
    int depth = 1;

    while (!pb_cursor_done(&u->u.c)) {
        if (!pb_dwarf_read_entry(u, ret)) {
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
    struct pb_symbol_query *v;
    size_t n, left; /* left: those whose function was not met yet */
    uint64_t lines; /* its line program */
};

static void leave_function(struct pb_dwarf_entries *u, const struct pb_dwarf_entry *function,
                           struct group *g, struct pb_arena *a)
{
    const struct pb_cursor children = u->u.c;

    for (size_t i = 0; i < g->n; i++) {
        struct pb_dwarf_entry call;
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
static void leave_unit(struct pb_dwarf_entries *u, struct group *g, struct pb_arena *a)
{
    struct pb_dwarf_entry e;
    int depth = 1;

    while (g->left && !pb_cursor_done(&u->u.c)) {
        if (!pb_dwarf_read_entry(u, &e)) {
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

void pb_dwarf_leave_inlined(const struct pb_dwarf *d, struct pb_symbol_query *v, size_t n,
                            struct pb_arena *a)
{
    long work = PB_DWARF_WORK_MAX;

    for (size_t i = 0, end; i < n; i = end) {
        struct group g = {.v = v + i};
        struct pb_dwarf_entries u = {.d = d, .work = &work};
        struct pb_dwarf_entry first;

        /* Functions of a unit lie together, except for those that are never or always used. */
        for (end = i + 1; end < n && v[end].has_unit == v[i].has_unit && v[end].unit == v[i].unit;)
            end++;
        g.n = g.left = end - i;
        if (v[i].has_unit && pb_dwarf_open_unit(&u, v[i].unit, a, &first) &&
            first.abbrev->children && pb_dwarf_unit_lines(d, v[i].unit, &g.lines))
            leave_unit(&u, &g, a);
    }
}
