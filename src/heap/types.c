/* types.c - which words lead to a type, and what objects of that type look like. */
#include <stdlib.h>

#include "heap/internal.h"
#include "host/text/alloc.h"

#define ADDRESS_MIN 0x10000 /* nothing is mapped below */
#define FIRST_KINDS 4096
#define BASES_MAX 24
#define NOT_TYPES 16384 /* a power of two */
#define KINDS_MAX (1u << 18) /* more types than any program has */

/* Bits of tp_flags that object.h does not need. */
#define TP_MANAGED_WEAKREF (1u << 3) /* 3.12 and later */
#define TP_HAVE_GC (1u << 14)

static size_t hash(uint64_t addr)
{
    return (size_t)((addr >> 3) * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

static struct pb_heap_kind **slot_of(const struct pb_heap_look *h, uint64_t addr)
{
    size_t i = hash(addr) & (h->kinds_cap - 1);

    while (h->kinds[i] && h->kinds[i]->addr != addr)
        i = (i + 1) & (h->kinds_cap - 1);
    return &h->kinds[i];
}

static void grow(struct pb_heap_look *h)
{
    struct pb_heap_kind **old = h->kinds;
    size_t n = h->kinds_cap;

    h->kinds_cap = n ? n * 2 : FIRST_KINDS;
    h->kinds = pb_alloc_resize(NULL, h->kinds_cap * sizeof(struct pb_heap_kind *));
    memset(h->kinds, 0, h->kinds_cap * sizeof(struct pb_heap_kind *));
    for (size_t i = 0; i < n; i++)
        if (old[i])
            *slot_of(h, old[i]->addr) = old[i];
    free(old);
    if (!h->not_types) {
        h->not_types = pb_alloc_resize(NULL, NOT_TYPES * sizeof *h->not_types);
        memset(h->not_types, 0, NOT_TYPES * sizeof *h->not_types);
    }
}

void pb_heap_kinds_finish(struct pb_heap_look *h)
{
    free(h->kinds);
    free(h->not_types);
}

/* A class is made as its first base of C is. */
static bool is_or_extends(struct pb_heap_look *h, const struct pb_py_type *t, const char *name)
{
    for (int i = 0; t && i < BASES_MAX; i++) {
        if (!(t->flags & PB_TP_HEAPTYPE) || !pb_py_is_ptr(t->base))
            return strcmp(t->name, name) == 0;
        if (strcmp(t->name, name) == 0)
            return true;
        t = pb_py_type_at(&h->src, t->base);
    }
    return false;
}

static enum pb_heap_rule rule_of(struct pb_heap_look *h, const struct pb_py_type *t)
{
    const struct pb_py_layout *py = h->py;

    switch (t->kind) {
    case PB_PY_INT:
    case PB_PY_BOOL:
        return PB_HEAP_INT;
    case PB_PY_STR:
        return PB_HEAP_STR;
    case PB_PY_LIST:
        return PB_HEAP_LIST;
    case PB_PY_DICT:
        return is_or_extends(h, t, "collections.OrderedDict") ? PB_HEAP_ORDERED_DICT : PB_HEAP_DICT;
    case PB_PY_SET:
    case PB_PY_FROZENSET:
        return PB_HEAP_SET;
    case PB_PY_BYTEARRAY:
        return PB_HEAP_BYTEARRAY;
    case PB_PY_TYPE:
        return PB_HEAP_TYPE;
    case PB_PY_NDARRAY:
        return PB_HEAP_ARRAY;
    case PB_PY_GENERATOR:
    case PB_PY_COROUTINE:
    case PB_PY_ASYNC_GENERATOR:
        return py->gen_frame == PB_NONE ? PB_HEAP_PLAIN : PB_HEAP_FRAMED;
    default:
        return is_or_extends(h, t, "collections.deque") ? PB_HEAP_DEQUE : PB_HEAP_PLAIN;
    }
}

/* What a type keeps in front of its objects. */
static unsigned prefix_of(const struct pb_py_layout *py, const struct pb_py_type *t)
{
    unsigned prefix = t->flags & TP_HAVE_GC ? (unsigned)py->gc_head : 0;
    uint64_t managed = PB_TP_MANAGED_DICT;

    if (py->instance == PB_INSTANCE_DICTOFFSET)
        return prefix;
    if (py->instance != PB_INSTANCE_VALUES_311)
        managed |= TP_MANAGED_WEAKREF;
    return t->flags & managed ? prefix + 16 : prefix;
}

/* Does the object there say that it is a type? A quick test before all of it is read. */
static bool may_be_type(struct pb_heap_look *h, uint64_t addr)
{
    uint64_t meta, flags;

    return pb_copy_u64(&h->copy, addr + (uint64_t)h->py->ob_type, &meta) && pb_py_is_ptr(meta) &&
           pb_copy_u64(&h->copy, meta + (uint64_t)h->py->type_flags, &flags) &&
           (flags & (PB_TP_TYPE | PB_TP_READY)) == (PB_TP_TYPE | PB_TP_READY);
}

static struct pb_heap_kind *read_kind(struct pb_heap_look *h, uint64_t addr)
{
    const struct pb_py_type *t = NULL;
    struct pb_heap_kind *k;

    h->src.reads = PB_PY_READS_MAX;
    if (may_be_type(h, addr))
        t = pb_py_type_at(&h->src, addr);
    if (!t)
        return NULL;
    k = PB_NEW(&h->types, struct pb_heap_kind);
    *k = (struct pb_heap_kind){
        .addr = addr,
        .type = t,
        .rule = rule_of(h, t),
        .prefix = prefix_of(h->py, t),
        .gc = (t->flags & TP_HAVE_GC) != 0,
        .basicsize = (uint64_t)t->basicsize,
        .itemsize = (uint64_t)t->itemsize,
    };
    return k;
}

struct pb_heap_kind *pb_heap_kind_at(struct pb_heap_look *h, uint64_t addr)
{
    struct pb_heap_kind **slot;

    if (!pb_py_is_ptr(addr))
        return NULL;
    if (h->nkinds * 2 >= h->kinds_cap)
        grow(h);
    slot = slot_of(h, addr);
    if (*slot || h->nkinds >= KINDS_MAX || h->not_types[hash(addr) & (NOT_TYPES - 1)] == addr)
        return *slot;
    *slot = read_kind(h, addr);
    if (*slot)
        h->nkinds++;
    else
        h->not_types[hash(addr) & (NOT_TYPES - 1)] = addr;
    return *slot;
}

/*
 * A count of references that a living object can have. With a GIL it is the low half of the first
 * word; above it stand, if anything, flags in the uppermost quarter, which an address never has
 * without the quarter below. Without a GIL it is in two parts.
 */
static bool is_alive(const struct pb_py_layout *py, const uint8_t *p)
{
    uint64_t first = pb_heap_word(p, 0);
    uint32_t local;

    if (!py->free_threaded)
        return (uint32_t)first != 0 && (first >> 32 & 0xffff) == 0;
    memcpy(&local, p + 12, sizeof local);
    return local != 0 || pb_heap_word(p, 16) >> 2 != 0;
}

/*
 * Where a program lies low, and its heap behind it, pointers are as small as counts: an array of
 * them whose second leads to a type is no object. A count that high is rare, and hardly ever an
 * address that is mapped.
 */
static bool is_address(struct pb_heap_look *h, uint64_t count)
{
    return !h->py->free_threaded && count >= ADDRESS_MIN && count % 8 == 0 &&
           pb_maps_find(h->copy.maps, count);
}

bool pb_heap_is_object(struct pb_heap_look *h, const uint8_t *p, size_t have,
                       struct pb_heap_kind **ret)
{
    struct pb_heap_kind *k;

    if (have < (size_t)h->py->ob_head || !is_alive(h->py, p))
        return false;
    k = pb_heap_kind_at(h, pb_heap_word(p, h->py->ob_type));
    /* A str is mostly shorter than its struct, and an int may be. */
    if (!k || (k->basicsize > have && k->rule != PB_HEAP_STR && k->rule != PB_HEAP_INT) ||
        is_address(h, pb_heap_word(p, 0)))
        return false;
    *ret = k;
    return true;
}
