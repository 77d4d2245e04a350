/* split.c - names for the parts that a compiler splits off a function. */
#include "stack/native/symbols/split.h"

#include <stdlib.h>

#include "stack/native/arch.h"

#define TARGETS_MAX 16
#define PARTS_MAX 8 /* per file and call: each costs a pass over the symbols */
#define PART_SIZE_MAX (1 << 20)

static bool is_split_part(const struct pb_fde *fde)
{
    struct pb_cfi_row row;

    if (pb_cfi_row(fde, fde->start, &row) != PB_CFI_OK || row.cfa.kind != PB_RULE_REGISTER)
        return false;
    return row.cfa.n != (int64_t)pb_arch.sp || row.cfa_offset != pb_arch.entry_cfa;
}

static int compare_wants(const void *a, const void *b)
{
    const struct pb_symbol_query *x = a, *y = b;

    return x->vaddr < y->vaddr ? -1 : x->vaddr > y->vaddr;
}

/* The one function that all jumps into the middle of something lead to, or NULL. */
static const char *parent_of(struct pb_module *m, const struct pb_fde *fde)
{
    struct pb_symbol_query to[TARGETS_MAX] = {{.vaddr = 0}};
    uint64_t targets[TARGETS_MAX];
    struct pb_elf_range code;
    const struct pb_symbol_query *parent = NULL;
    size_t n;

    if (fde->end - fde->start > PART_SIZE_MAX || !pb_elf_at(&m->elf, fde->start, &code) ||
        code.size < fde->end - fde->start)
        return NULL;
    n = pb_arch_jumps_out(code.data, fde->end - fde->start, fde->start, targets, TARGETS_MAX);
    for (size_t i = 0; i < n; i++)
        to[i].vaddr = targets[i];
    qsort(to, n, sizeof to[0], compare_wants);
    pb_symbols_find(&m->elf, to, n);
    for (size_t i = 0; i < n; i++) {
        if (!to[i].name || to[i].vaddr == to[i].start)
            continue;
        if (parent && parent->start != to[i].start)
            return NULL;
        parent = &to[i];
    }
    return parent ? parent->name : NULL;
}

void pb_split_name(struct pb_module *m, struct pb_symbol_query *v, size_t n, struct pb_arena *a)
{
    struct pb_fde fde = {.end = 0};
    const char *name = NULL;
    int parts = 0;

    for (size_t i = 0; m->has_eh && i < n && parts < PARTS_MAX; i++) {
        if (v[i].name)
            continue;
        if (v[i].vaddr < fde.start || v[i].vaddr >= fde.end) {
            const char *parent = NULL;

            if (!pb_eh_find(&m->eh, v[i].vaddr, &fde)) {
                fde.start = fde.end = 0;
                continue;
            }
            if (is_split_part(&fde)) {
                parent = parent_of(m, &fde);
                parts++;
            }
            name = parent ? pb_arena_printf(a, "%.*s.cold", PB_SYMBOL_NAME_MAX, parent) : NULL;
        }
        v[i].name = name;
        v[i].start = name ? fde.start : 0;
    }
}
