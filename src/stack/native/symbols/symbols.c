/*
 * symbols.c - one pass over a symbol table for all wanted addresses.
 *
 * Half a million symbols are not worth sorting for sixty addresses. A coarse
 * bitmap over the wanted range turns nearly every symbol away at once.
 */
#include "stack/native/symbols/symbols.h"

#include <string.h>

#define BUCKETS 4096
#define UNDERSCORES_MAX 8
#define COMPARED_MAX 256

struct search {
    struct pb_symbol_query *v;
    size_t n, left;
    uint64_t min, max;
    unsigned shift; /* addresses per bucket, as a power of two */
    uint64_t bits[BUCKETS / 64];
};

static void fill_bitmap(struct search *s)
{
    s->min = s->v[0].vaddr;
    s->max = s->v[s->n - 1].vaddr;
    while ((s->max - s->min) >> s->shift >= BUCKETS)
        s->shift++;
    for (size_t i = 0; i < s->n; i++) {
        uint64_t b = (s->v[i].vaddr - s->min) >> s->shift;

        if (!s->v[i].name) {
            s->bits[b / 64] |= (uint64_t)1 << b % 64;
            s->left++;
        }
    }
}

/* Is any wanted address in a bucket that the symbol touches? */
static bool may_hold(const struct search *s, uint64_t value, uint64_t size)
{
    uint64_t a = (value - s->min) >> s->shift, b;

    if (a >= BUCKETS) /* behind the range, or in front of it: then it may still reach in */
        return value < s->min && s->min - value < size;
    b = (value - s->min + size - 1) >> s->shift;
    if (b >= BUCKETS)
        b = BUCKETS - 1;
    for (; a <= b; a++) {
        if (s->bits[a / 64] >> a % 64 & 1)
            return true;
    }
    return false;
}

/* Names of a hostile file may be as long as the file, each. */
static size_t length_of(const char *name)
{
    return strnlen(name, COMPARED_MAX);
}

static size_t leading_underscores(const char *name)
{
    size_t n = 0;

    while (name[n] == '_' && n < UNDERSCORES_MAX)
        n++;
    return n;
}

/* Of several names for the same code the innermost wins, then the plainest. */
static bool is_better(const struct pb_symbol_query *w, const struct pb_elf_sym *sym)
{
    size_t a, b;

    if (!w->name || sym->vaddr != w->start)
        return !w->name || sym->vaddr > w->start;
    if ((sym->type == STT_NOTYPE) != (w->type == STT_NOTYPE))
        return w->type == STT_NOTYPE;
    a = leading_underscores(sym->name);
    b = leading_underscores(w->name);
    return a != b ? a < b : length_of(sym->name) < length_of(w->name);
}

static void keep_if_better(struct search *s, const struct pb_elf_sym *sym)
{
    size_t lo = 0, hi = s->n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (s->v[mid].vaddr < sym->vaddr)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (; lo < s->n && s->v[lo].vaddr - sym->vaddr < sym->size; lo++) {
        struct pb_symbol_query *w = &s->v[lo];

        if (is_better(w, sym)) {
            w->name = sym->name;
            w->start = sym->vaddr;
            w->type = sym->type;
        }
    }
}

/* A symbol without a size names nothing: what follows it may be anything. */
static void consider_symbol(struct search *s, const struct pb_elf_symbols *t, size_t i)
{
    struct pb_elf_sym sym;

    if (pb_elf_symbol(t, i, &sym) && sym.name[0] != 0 &&
        (sym.type == STT_FUNC || sym.type == STT_GNU_IFUNC || sym.type == STT_NOTYPE))
        keep_if_better(s, &sym);
}

static void search(const struct pb_elf *elf, enum pb_elf_table table, struct pb_symbol_query *v,
                   size_t n)
{
    struct search s = {.v = v, .n = n};
    struct pb_elf_symbols t;
    Elf64_Sym sym;

    fill_bitmap(&s);
    if (s.left == 0 || !pb_elf_symbols(elf, table, &t))
        return;
    for (size_t i = 0; i < t.n; i++) {
        memcpy(&sym, t.syms + i * sizeof sym, sizeof sym);
        if (sym.st_size != 0 && may_hold(&s, sym.st_value, sym.st_size))
            consider_symbol(&s, &t, i);
    }
}

void pb_symbols_find(const struct pb_elf *elf, struct pb_symbol_query *v, size_t n)
{
    if (n == 0)
        return;
    search(elf, PB_ELF_SYMTAB, v, n);
    search(elf, PB_ELF_DYNSYM, v, n);
}
