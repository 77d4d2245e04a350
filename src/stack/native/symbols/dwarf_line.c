/* dwarf_line.c - line programs. */
#include "stack/native/symbols/dwarf_form.h"
#include "stack/native/symbols/dwarf_line.h"

#define BYTES_MAX ((uint64_t)64 << 20) /* of line programs that are run, per file */

#define PATH_PART_MAX 2000

/* clang-format off */
enum {
    LNS_copy = 1, LNS_advance_pc, LNS_advance_line, LNS_set_file, LNS_set_column, LNS_negate_stmt,
    LNS_set_basic_block, LNS_const_add_pc, LNS_fixed_advance_pc,
    LNE_end_sequence = 1, LNE_set_address,
    LNCT_path = 1, LNCT_directory_index = 2,
};
/* clang-format on */

struct row {
    uint64_t addr;
    uint64_t file;
    int64_t line;
};

struct program {
    const struct pb_dwarf *d;
    struct pb_dwarf_unit u;
    unsigned version;
    uint8_t min_len, opcode_base, line_range;
    int8_t line_base;
    struct pb_cursor lengths; /* operands of the standard opcodes */
    struct pb_cursor tables;  /* directories, then files */
    struct pb_cursor code;
    struct row row, last;
    bool has_last;
    uint64_t gap_from, gap_to; /* no wanted address lies in [gap_from, gap_to) */
    struct pb_symbol_query *v;
    size_t n, left; /* left: how many are still to be found in this program */
    struct pb_arena *a;
    uint64_t cached_file; /* the name made last: rows come in runs of one file */
    const char *cached_name;
};

struct entry_name {
    const char *path;
    uint64_t dir;
};

static bool read_header(struct program *p)
{
    struct pb_cursor *c = &p->u.c;
    uint64_t len;

    p->version = pb_cursor_u16(c);
    if (p->version < 2 || p->version > 5)
        return false;
    if (p->version == 5)
        pb_cursor_skip(c, 2); /* address and segment selector sizes */
    len = pb_cursor_uint(c, p->u.offset_size);
    if (c->bad || len > pb_cursor_left(c))
        return false;
    p->code = pb_cursor_make(c->p + len, pb_cursor_left(c) - len);
    p->min_len = pb_cursor_u8(c);
    if (p->version >= 4)
        pb_cursor_u8(c); /* operations per instruction: one on our processors */
    pb_cursor_u8(c);     /* default_is_stmt: every row counts here */
    p->line_base = (int8_t)pb_cursor_u8(c);
    p->line_range = pb_cursor_u8(c);
    p->opcode_base = pb_cursor_u8(c);
    if (p->line_range == 0 || p->opcode_base == 0)
        return false;
    p->lengths = pb_cursor_bytes(c, p->opcode_base - 1u);
    p->tables = *c;
    return !c->bad;
}

static const char *string_at(const struct pb_elf_range *section, uint64_t offset)
{
    struct pb_cursor c = pb_cursor_make(section->data, section->size);

    pb_cursor_skip(&c, offset);
    return pb_cursor_string(&c);
}

static const char *read_path(const struct program *p, struct pb_cursor *c, uint64_t form)
{
    switch (form) {
    case FORM_string:
        return pb_cursor_string(c);
    case FORM_line_strp:
        return string_at(&p->d->line_str, pb_cursor_uint(c, p->u.offset_size));
    case FORM_strp:
        return string_at(&p->d->str, pb_cursor_uint(c, p->u.offset_size));
    default:
        pb_dwarf_skip_form(c, form, p->u.offset_size, 8);
        return NULL;
    }
}

static uint64_t read_index(const struct program *p, struct pb_cursor *c, uint64_t form)
{
    switch (form) {
    case FORM_data1:
        return pb_cursor_u8(c);
    case FORM_data2:
        return pb_cursor_u16(c);
    case FORM_data4:
        return pb_cursor_u32(c);
    case FORM_udata:
        return pb_cursor_uleb(c);
    default:
        pb_dwarf_skip_form(c, form, p->u.offset_size, 8);
        return 0;
    }
}

/* DWARF 5: a table that describes its own columns. Leaves c behind it; ret is entry `index`. */
static void read_table_5(const struct program *p, struct pb_cursor *c, uint64_t index,
                         struct entry_name *ret)
{
    uint8_t columns = pb_cursor_u8(c);
    struct pb_cursor format = *c;
    uint64_t count;

    for (uint8_t i = 0; i < columns; i++) {
        pb_cursor_uleb(c);
        pb_cursor_uleb(c);
    }
    count = pb_cursor_uleb(c);
    if (count > pb_cursor_left(c)) /* columns may be empty: then only this bounds the loop */
        pb_cursor_fail(c);
    for (uint64_t k = 0; k < count && columns && !c->bad; k++) {
        struct pb_cursor f = format;
        struct entry_name e = {NULL, 0};

        for (uint8_t i = 0; i < columns; i++) {
            uint64_t what = pb_cursor_uleb(&f), form = pb_cursor_uleb(&f);

            if (what == LNCT_path)
                e.path = read_path(p, c, form);
            else if (what == LNCT_directory_index)
                e.dir = read_index(p, c, form);
            else
                pb_dwarf_skip_form(c, form, p->u.offset_size, 8);
        }
        if (k == index)
            *ret = e;
    }
}

/* Up to DWARF 4: strings up to an empty one, counted from 1; files with three numbers each. */
static void read_table_4(struct pb_cursor *c, bool files, uint64_t index, struct entry_name *ret)
{
    for (uint64_t k = 1;; k++) {
        struct entry_name e = {pb_cursor_string(c), 0};

        if (!e.path || !*e.path)
            return;
        if (files) {
            e.dir = pb_cursor_uleb(c);
            pb_cursor_uleb(c); /* time */
            pb_cursor_uleb(c); /* size */
        }
        if (k == index)
            *ret = e;
    }
}

static const char *file_name(struct program *p, uint64_t index)
{
    struct entry_name file = {NULL, 0}, dir = {NULL, 0}, none;
    struct pb_cursor c = p->tables;

    if (p->version == 5) {
        read_table_5(p, &c, UINT64_MAX, &none);
        read_table_5(p, &c, index, &file);
        c = p->tables;
        read_table_5(p, &c, file.dir, &dir);
    } else {
        read_table_4(&c, false, UINT64_MAX, &none);
        read_table_4(&c, true, index, &file);
        c = p->tables;
        read_table_4(&c, false, file.dir, &dir);
    }
    if (!file.path)
        return NULL;
    if (file.path[0] == '/' || !dir.path || !*dir.path)
        return pb_arena_strndup(p->a, file.path, PATH_PART_MAX);
    return pb_arena_printf(p->a, "%s/%s", pb_arena_strndup(p->a, dir.path, PATH_PART_MAX),
                           pb_arena_strndup(p->a, file.path, PATH_PART_MAX));
}

/* The wanted addresses between the last row and this one have the last row's line. */
static void match(struct program *p)
{
    size_t lo = 0, hi = p->n;

    /* Most rows fall between two wanted addresses, like the row before. */
    if (!p->has_last || (p->last.addr >= p->gap_from && p->row.addr <= p->gap_to))
        return;
    if (p->last.addr >= p->row.addr || p->last.line <= 0 || p->last.line > INT32_MAX)
        return;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (p->v[mid].vaddr < p->last.addr)
            lo = mid + 1;
        else
            hi = mid;
    }
    p->gap_from = p->last.addr;
    p->gap_to = lo < p->n ? p->v[lo].vaddr : UINT64_MAX;
    for (; lo < p->n && p->v[lo].vaddr < p->row.addr; lo++) {
        if (p->v[lo].file)
            continue;
        if (!p->cached_name || p->cached_file != p->last.file) {
            p->cached_file = p->last.file;
            p->cached_name = file_name(p, p->last.file);
        }
        p->v[lo].file = p->cached_name;
        p->v[lo].lineno = (int)p->last.line;
        p->left -= p->left > 0;
    }
}

static void emit(struct program *p)
{
    match(p);
    p->last = p->row;
    p->has_last = true;
}

static void start_sequence(struct program *p)
{
    p->row = (struct row){.addr = 0, .file = 1, .line = 1};
    p->has_last = false;
}

static void extended(struct program *p)
{
    uint64_t len = pb_cursor_uleb(&p->code);
    struct pb_cursor c = pb_cursor_bytes(&p->code, len);

    switch (pb_cursor_u8(&c)) {
    case LNE_end_sequence:
        match(p);
        start_sequence(p);
        break;
    case LNE_set_address:
        if (pb_cursor_left(&c) >= 1 && pb_cursor_left(&c) <= 8)
            p->row.addr = pb_cursor_uint(&c, pb_cursor_left(&c));
        break;
    default:
        break;
    }
}

static void add_line(struct program *p, int64_t n)
{
    p->row.line = (int64_t)((uint64_t)p->row.line + (uint64_t)n);
}

static void special(struct program *p, uint8_t op)
{
    uint8_t adjusted = (uint8_t)(op - p->opcode_base);

    p->row.addr += (uint64_t)(adjusted / p->line_range) * p->min_len;
    add_line(p, p->line_base + adjusted % p->line_range);
    emit(p);
}

static void standard(struct program *p, uint8_t op)
{
    switch (op) {
    case LNS_copy:
        emit(p);
        break;
    case LNS_advance_pc:
        p->row.addr += pb_cursor_uleb(&p->code) * p->min_len;
        break;
    case LNS_advance_line:
        add_line(p, pb_cursor_sleb(&p->code));
        break;
    case LNS_set_file:
        p->row.file = pb_cursor_uleb(&p->code);
        break;
    case LNS_const_add_pc:
        p->row.addr += (uint64_t)((255 - p->opcode_base) / p->line_range) * p->min_len;
        break;
    case LNS_fixed_advance_pc:
        p->row.addr += pb_cursor_u16(&p->code);
        break;
    default: /* the header says how many operands there are to skip */
        for (uint8_t i = 0; i < p->lengths.p[op - 1]; i++)
            pb_cursor_uleb(&p->code);
        break;
    }
}

uint64_t pb_dwarf_run_lines(const struct pb_dwarf *d, uint64_t offset, struct pb_symbol_query *v,
                            size_t n, size_t expected, struct pb_arena *a)
{
    struct pb_cursor c = pb_cursor_make(d->line.data, d->line.size);
    struct program p = {.d = d, .v = v, .n = n, .left = expected, .a = a};
    const uint8_t *begin;

    pb_cursor_skip(&c, offset);
    begin = c.p;
    if (n == 0 || !pb_dwarf_next_unit(&c, &p.u))
        return 0;
    if (read_header(&p)) {
        start_sequence(&p);
        while (p.left && !pb_cursor_done(&p.code)) {
            uint8_t op = pb_cursor_u8(&p.code);

            if (op >= p.opcode_base)
                special(&p, op);
            else if (op == 0)
                extended(&p);
            else
                standard(&p, op);
        }
    }
    return (uint64_t)(c.p - begin);
}

const char *pb_dwarf_file_name(const struct pb_dwarf *d, uint64_t offset, uint64_t index,
                               struct pb_arena *a)
{
    struct pb_cursor c = pb_cursor_make(d->line.data, d->line.size);
    struct program p = {.d = d, .a = a};

    pb_cursor_skip(&c, offset);
    return pb_dwarf_next_unit(&c, &p.u) && read_header(&p) ? file_name(&p, index) : NULL;
}

static void open_sections(struct pb_dwarf *d, const struct pb_elf *elf)
{
    memset(d, 0, sizeof *d);
    pb_elf_section(elf, ".debug_line", &d->line);
    pb_elf_section(elf, ".debug_line_str", &d->line_str);
    pb_elf_section(elf, ".debug_str", &d->str);
    pb_elf_section(elf, ".debug_aranges", &d->aranges);
    pb_elf_section(elf, ".debug_info", &d->info);
    pb_elf_section(elf, ".debug_abbrev", &d->abbrev);
    pb_elf_section(elf, ".debug_ranges", &d->ranges);
    pb_elf_section(elf, ".debug_rnglists", &d->rnglists);
    pb_elf_section(elf, ".debug_addr", &d->addr);
}

/* How many addresses of a unit have no line yet. */
static size_t count_unit(const struct pb_symbol_query *v, size_t n, uint64_t unit)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++)
        count += v[i].has_unit && v[i].unit == unit && !v[i].file;
    return count;
}

/* Runs only the line programs of the units that hold the addresses. */
static void run_needed(const struct pb_dwarf *d, struct pb_symbol_query *v, size_t n,
                       struct pb_arena *a)
{
    uint64_t offset, done = 0, last = UINT64_MAX;

    pb_dwarf_find_units(d, v, n, a);
    for (size_t i = 0; i < n && done < BYTES_MAX; i++) {
        if (v[i].file || !v[i].has_unit || v[i].unit == last)
            continue;
        last = v[i].unit;
        if (pb_dwarf_unit_lines(d, last, &offset))
            done += pb_dwarf_run_lines(d, offset, v, n, count_unit(v, n, last), a);
    }
}

void pb_dwarf_lines(const struct pb_elf *elf, struct pb_symbol_query *v, size_t n,
                    struct pb_arena *a)
{
    struct pb_dwarf d;
    uint64_t size;

    open_sections(&d, elf);
    if (n == 0 || d.line.size == 0)
        return;
    if (d.aranges.size || d.info.size) {
        run_needed(&d, v, n, a);
        pb_dwarf_leave_inlined(&d, v, n, a);
        return;
    }
    for (uint64_t at = 0; at < d.line.size && at < BYTES_MAX; at += size) {
        size = pb_dwarf_run_lines(&d, at, v, n, n, a);
        if (size == 0)
            return;
    }
}
