/* symbolize.c - names, modules and lines for the frames of many stacks at once. */
#include <stdlib.h>

#include "host/text/alloc.h"
#include "stack/native/symbols/dwarf_line.h"
#include "stack/native/internal.h"
#include "stack/native/symbols/split.h"
#include "stack/native/symbols/symbols.h"

#define NAME_MAX_SHOWN 160

struct ref {
    struct pb_module *m;
    uint64_t vaddr;
    struct pb_native_frame *f;
};

static int compare_refs(const void *a, const void *b)
{
    const struct ref *x = a, *y = b;

    if (x->m != y->m)
        return (uintptr_t)x->m < (uintptr_t)y->m ? -1 : 1;
    return x->vaddr < y->vaddr ? -1 : x->vaddr > y->vaddr;
}

/* Sets what the address alone tells; true when the module can say more. */
static bool locate(struct pb_native *n, struct pb_native_stack *s, size_t i, struct ref *ret)
{
    struct pb_native_frame *f = &s->v[i];
    uint64_t pc = f->is_signal || pb_native_is_exact(s->v, i) ? f->pc : f->pc - 1;
    struct pb_module *m = pb_modules_find(&n->modules, pc);

    if (!m)
        return false;
    f->module = m->map->path;
    if (!m->is_open) {
        f->offset = f->pc - m->map->start + m->map->offset;
        return false;
    }
    f->offset = f->pc - m->bias - m->elf.base_vaddr;
    *ret = (struct ref){m, pc - m->bias, f};
    return true;
}

static size_t collect(struct pb_native *n, struct pb_native_stack *stacks, size_t nstacks,
                      struct ref **ret)
{
    size_t total = 0, k = 0;

    for (size_t i = 0; i < nstacks; i++)
        total += stacks[i].n;
    *ret = pb_alloc_resize(NULL, (total + 1) * sizeof **ret);
    for (size_t i = 0; i < nstacks; i++) {
        for (size_t j = 0; j < stacks[i].n; j++)
            k += locate(n, &stacks[i], j, &(*ret)[k]);
    }
    qsort(*ret, k, sizeof **ret, compare_refs);
    return k;
}

/* Gives the frames what was found of their addresses; both lists have the same order. */
static void assign(struct ref *refs, size_t n, const struct pb_symbol_query *wants, size_t nwants,
                   const char *path, struct pb_arena *a)
{
    const struct pb_symbol_query *w = wants;
    const char *func = NULL, *symbol = NULL, *raw = NULL, *file = NULL, *raw_file = NULL;

    for (size_t i = 0; i < n; i++) {
        struct pb_native_frame *f = refs[i].f;

        while (w < wants + nwants - 1 && w->vaddr != refs[i].vaddr)
            w++;
        f->module = path;
        if (w->name && w->name != raw) {
            raw = w->name;
            symbol = pb_arena_strndup(a, raw, PB_SYMBOL_NAME_MAX);
            func = pb_demangle(a, symbol, NAME_MAX_SHOWN); /* of the copy: the file may change */
        }
        if (w->file && w->file != raw_file) {
            raw_file = w->file;
            file = pb_arena_strdup(a, raw_file);
        }
        f->func = w->name ? func : NULL;
        f->symbol = w->name ? symbol : NULL;
        f->func_start = w->name ? w->start + refs[i].m->bias : 0;
        f->file = w->file ? file : NULL;
        f->lineno = w->file ? w->lineno : 0;
    }
}

static void symbolize_module(struct ref *refs, size_t n, bool lines, struct pb_arena *a)
{
    struct pb_module *m = refs[0].m;
    struct pb_symbol_query *wants = pb_alloc_resize(NULL, n * sizeof *wants);
    size_t k = 0;

    for (size_t i = 0; i < n; i++) {
        if (k == 0 || wants[k - 1].vaddr != refs[i].vaddr)
            wants[k++] = (struct pb_symbol_query){.vaddr = refs[i].vaddr};
    }
    pb_symbols_find(&m->elf, wants, k);
    pb_split_name(m, wants, k, a);
    if (lines)
        pb_dwarf_lines(&m->elf, wants, k, a);
    assign(refs, n, wants, k, pb_arena_strdup(a, m->map->path), a);
    free(wants);
}

void pb_native_symbolize(struct pb_native *n, struct pb_native_stack *stacks, size_t nstacks,
                         bool lines, struct pb_arena *a)
{
    struct ref *refs;
    size_t total = collect(n, stacks, nstacks, &refs);

    for (size_t i = 0, j; i < total; i = j) {
        for (j = i + 1; j < total && refs[j].m == refs[i].m; j++)
            continue;
        symbolize_module(refs + i, j - i, lines, a);
    }
    free(refs);
}

bool pb_native_is_in(const struct pb_native_frame *f, const char *function)
{
    size_t len = strlen(function);

    /* The compiler splits cold parts off: name.cold, name.lto_priv.0.cold. */
    return f->symbol && strncmp(f->symbol, function, len) == 0 &&
           (f->symbol[len] == 0 || f->symbol[len] == '.');
}
