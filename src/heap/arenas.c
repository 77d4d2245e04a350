/*
 * arenas.c - every block of pymalloc.
 *
 * pymalloc cuts arenas into pools and a pool into blocks of one size. The array of arenas is part
 * of the interpreter from 3.12 on; before it is a static variable, which a stripped binary does not
 * name: then the data of the interpreter's file is searched for a pointer to such an array.
 */
#include <stdlib.h>

#include "heap/internal.h"
#include "host/text/alloc.h"
#include "stack/python/locate.h"

#define POOL_HEAD 48
#define BLOCK_MAX 512
#define ARENAS_MAX (1u << 22)
#define ENTRIES_AT_ONCE 512
#define INTERPS_MAX 4096
#define DATA_MAX (64u << 20) /* bytes of a data segment that are searched */
#define PROOF 3              /* arenas in a row that prove an array */

/* struct arena_object, the same in every version. */
struct arena {
    uint64_t address; /* 0: an entry without an arena */
    uint64_t pool_address; /* where the next pool will be cut off */
    uint32_t nfreepools, ntotalpools;
    uint64_t freepools, next, previous;
};

_Static_assert(sizeof(struct arena) == 48, "as CPython has it");

static bool is_arena(const struct pb_py_layout *py, const struct arena *a)
{
    uint64_t size = (uint64_t)py->arena_size;
    uint32_t pools = (uint32_t)(py->arena_size / py->pool_size);

    return a->address && a->address % 4096 == 0 && a->pool_address >= a->address &&
           a->pool_address <= a->address + size && a->nfreepools <= a->ntotalpools &&
           (a->ntotalpools == pools || a->ntotalpools == pools - 1);
}

struct pool {
    uint32_t count, size, used; /* blocks given out; bytes of one; bytes of the pool in use */
    uint64_t freeblock;
};

static bool read_pool(const struct pb_py_layout *py, const uint8_t *p, struct pool *ret)
{
    uint32_t next, last;

    memcpy(&ret->count, p, 4);
    memcpy(&ret->freeblock, p + 8, 8);
    memcpy(&next, p + 40, 4);
    memcpy(&last, p + 44, 4);
    if (!ret->count || last >= (uint32_t)py->pool_size)
        return false;
    ret->size = (uint32_t)py->pool_size - last;
    ret->used = next < last + ret->size ? next : last + ret->size;
    return ret->size >= 8 && ret->size <= BLOCK_MAX && ret->size % 8 == 0 &&
           ret->used > POOL_HEAD && ret->used <= (uint32_t)py->pool_size;
}

/* Sets the bit of each block that was given back; they are linked by their first word. */
static void mark_free(const struct pool *k, const uint8_t *p, uint64_t addr, uint64_t *bits)
{
    uint32_t n = (k->used - POOL_HEAD) / k->size;

    memset(bits, 0, (n / 64 + 1) * sizeof *bits);
    for (uint64_t at = k->freeblock; n && at > addr && at - addr < k->used; n--) {
        uint64_t i = (at - addr - POOL_HEAD) / k->size;

        if (at - addr < POOL_HEAD || (at - addr - POOL_HEAD) % k->size)
            return;
        bits[i / 64] |= UINT64_C(1) << i % 64;
        at = pb_heap_word(p, (int)(at - addr));
    }
}

static void walk_pool(struct pb_heap_look *h, uint64_t addr)
{
    const uint8_t *p = pb_copy_at(&h->copy, addr, (size_t)h->py->pool_size);
    uint64_t bits[(16384 - POOL_HEAD) / 8 / 64 + 2];
    struct pool k;

    if (!p || !read_pool(h->py, p, &k))
        return;
    mark_free(&k, p, addr, bits);
    for (uint32_t i = 0, at = POOL_HEAD; at + k.size <= k.used; i++, at += k.size)
        if (!(bits[i / 64] >> i % 64 & 1))
            pb_heap_block(h, p + at, addr + at, k.size);
}

static uint64_t first_pool(const struct pb_py_layout *py, const struct arena *a)
{
    uint64_t size = (uint64_t)py->pool_size;

    return (a->address + size - 1) & ~(size - 1);
}

static void walk_arena(struct pb_heap_look *h, const struct arena *a)
{
    pb_copy_trim(&h->copy);
    if (!pb_heap_spend(h, a->pool_address - a->address))
        return;
    pb_copy_load(&h->copy, a->address, a->pool_address - a->address);
    for (uint64_t at = first_pool(h->py, a); at < a->pool_address; at += (uint64_t)h->py->pool_size)
        walk_pool(h, at);
}

/* All arenas on record; the array is read straight from the target, since it may have moved. */
struct list {
    struct arena *v;
    size_t n, cap;
};

static void add_arena(struct list *l, const struct arena *a)
{
    if (l->n == l->cap) {
        l->cap = l->cap ? l->cap * 2 : 256;
        l->v = pb_alloc_resize(l->v, l->cap * sizeof *l->v);
    }
    l->v[l->n++] = *a;
}

/* Reads an array; without a known length as far as its entries make sense. */
static void read_array(struct pb_heap_look *h, uint64_t array, uint32_t n, struct list *l)
{
    struct arena entries[ENTRIES_AT_ONCE];
    uint64_t at = array;
    uint32_t left = n && n <= ARENAS_MAX ? n : ARENAS_MAX;

    while (left) {
        uint32_t part = left < ENTRIES_AT_ONCE ? left : ENTRIES_AT_ONCE;
        size_t got = pb_mem_get_start(h->copy.source, at, entries, part * sizeof *entries);

        got /= sizeof *entries;
        for (size_t i = 0; i < got; i++) {
            if (is_arena(h->py, &entries[i]))
                add_arena(l, &entries[i]);
            else if (!n && (entries[i].address || entries[i].ntotalpools > 1024))
                return;
        }
        if (got < part)
            return;
        at += part * sizeof *entries;
        left -= part;
    }
}

/* From 3.12 on each interpreter has an allocator, its own or that of the main one. */
static void read_interpreters(struct pb_heap_look *h, struct list *l)
{
    const struct pb_py_layout *py = h->py;
    struct pb_mem *mem = h->copy.source;
    uint64_t interp = 0, state, array, seen[16] = {0};
    uint32_t n;
    size_t nseen = 0;

    pb_mem_u64(mem, h->loc->interp_head, &interp);
    for (int i = 0; pb_py_is_ptr(interp) && i < INTERPS_MAX; i++) {
        state = interp + (uint64_t)py->interp_obmalloc;
        if ((!py->obmalloc_is_pointer || pb_mem_u64(mem, state, &state)) &&
            pb_mem_u64(mem, state + (uint64_t)py->obmalloc_arenas, &array) &&
            pb_mem_u32(mem, state + (uint64_t)py->obmalloc_arenas + 8, &n) && pb_py_is_ptr(array)) {
            bool known = false;

            for (size_t k = 0; k < nseen; k++)
                known = known || seen[k] == array;
            if (!known && n)
                read_array(h, array, n, l);
            if (!known && nseen < sizeof seen / sizeof *seen)
                seen[nseen++] = array;
        }
        if (!pb_mem_u64(mem, interp + (uint64_t)py->interp_next, &interp))
            return;
    }
}

/* Does an array of arenas begin there? */
static bool is_array(struct pb_heap_look *h, uint64_t addr)
{
    struct arena first[PROOF];
    const struct pb_map *map = pb_maps_find(h->copy.maps, addr);
    int arenas = 0;

    if (!map || !map->write || !pb_mem_get(h->copy.source, addr, first, sizeof first))
        return false;
    for (int i = 0; i < PROOF; i++) {
        bool is_unused = !first[i].address && first[i].ntotalpools <= 1024;

        if (!is_arena(h->py, &first[i]) && !is_unused)
            return false;
        arenas += !is_unused;
    }
    return arenas > 0;
}

static uint64_t search_data(struct pb_heap_look *h, uint64_t addr, uint64_t len)
{
    uint64_t *data, found = 0;
    size_t n;

    if (len > DATA_MAX)
        return 0;
    data = pb_alloc_resize(NULL, len);
    n = pb_mem_get_start(h->copy.source, addr, data, len) / 8;
    for (size_t i = 0; i < n && !found; i++)
        if (pb_py_is_ptr(data[i]) && is_array(h, data[i]))
            found = data[i];
    free(data);
    return found;
}

/* To 3.11: by symbol, else by a look at the data of the interpreter's file. */
static const char *read_static(struct pb_heap_look *h, struct list *l)
{
    struct pb_elf elf;
    struct pb_elf_sym sym;
    uint64_t array = 0;
    const char *how = "arenas by symbol";

    if (pb_py_location_open(h->loc, h->copy.maps, h->copy.source, &elf) < 0)
        return NULL;
    if (pb_elf_find_symbol(&elf, "arenas", &sym))
        pb_mem_u64(h->copy.source, h->loc->bias + sym.vaddr, &array);
    if (!array || !is_array(h, array)) {
        array = 0;
        how = "arenas by a search of the data";
        for (size_t i = 0; i < elf.nph && !array; i++)
            if (elf.ph[i].p_type == PT_LOAD && elf.ph[i].p_flags & PF_W)
                array = search_data(h, (h->loc->bias + elf.ph[i].p_vaddr + 7) & ~UINT64_C(7),
                                    elf.ph[i].p_memsz);
    }
    pb_elf_close(&elf);
    if (array)
        read_array(h, array, 0, l);
    return array ? how : NULL;
}

static int compare_arenas(const void *x, const void *y)
{
    const struct arena *a = x, *b = y;

    return (a->address > b->address) - (a->address < b->address);
}

int pb_heap_arenas(struct pb_heap_look *h, struct pb_err *err)
{
    struct list l = {0};

    (void)err;
    if (h->py->arena_size == PB_NONE || h->py->pool_size == PB_NONE)
        return 0;
    if (h->py->interp_obmalloc != PB_NONE) {
        read_interpreters(h, &l);
        h->ret->how = "arenas of the interpreter";
    } else {
        h->ret->how = read_static(h, &l);
    }
    if (l.n)
        qsort(l.v, l.n, sizeof *l.v, compare_arenas);
    /* All ranges are known before the first block is looked at: words are sorted by them. */
    for (size_t i = 0; i < l.n; i++)
        if (i == 0 || l.v[i].address != l.v[i - 1].address)
            pb_heap_add_range(h, l.v[i].address, l.v[i].address + (uint64_t)h->py->arena_size);
    for (size_t i = 0; i < l.n; i++) {
        if (h->o->progress && i % 64 == 0)
            h->o->progress(h->o->arg, (double)i / (double)l.n);
        if (i == 0 || l.v[i].address != l.v[i - 1].address)
            walk_arena(h, &l.v[i]);
    }
    if (!l.n)
        h->ret->how = NULL;
    free(l.v);
    return 0;
}
