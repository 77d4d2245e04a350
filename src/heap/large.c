/* large.c - objects that the allocator of small ones does not hold. */
#include <stdlib.h>

#include "heap/internal.h"
#include "host/text/alloc.h"
#include "stack/python/locate.h"

#define HEAD 96           /* bytes of an object that are looked at first */
#define INTERPS_MAX 4096
#define LISTS 3
#define DEQUE_BLOCK 528
#define DEQUE_ITEMS 64
#define BUFFER_MAX (UINT64_C(1) << 40)

void pb_heap_add_range(struct pb_heap_look *h, uint64_t start, uint64_t end)
{
    if (h->nsmall && h->small[h->nsmall - 1].end == start) {
        h->small[h->nsmall - 1].end = end;
    } else {
        if (h->nsmall == h->small_cap) {
            h->small_cap = h->small_cap ? h->small_cap * 2 : 256;
            h->small = pb_alloc_resize(h->small, h->small_cap * sizeof *h->small);
        }
        h->small[h->nsmall++] = (struct pb_heap_range){start, end, h->ret->allocator_bytes};
    }
    h->ret->allocator_bytes += end - start;
    h->small_lo = h->nsmall == 1 ? h->small[0].start : h->small_lo;
    h->small_hi = end;
}

bool pb_heap_is_small(struct pb_heap_look *h, uint64_t addr)
{
    size_t lo = 0, hi = h->nsmall;

    if (addr < h->small_lo || addr >= h->small_hi)
        return false;
    if (addr - h->small_last.start < h->small_last.end - h->small_last.start)
        return true;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (addr < h->small[mid].start)
            hi = mid;
        else if (addr >= h->small[mid].end)
            lo = mid + 1;
        else {
            h->small_last = h->small[mid];
            return true;
        }
    }
    return false;
}

/* Memory from malloc or mmap. What follows a mapped file is its zero-filled data. */
static bool is_allocated(const struct pb_heap_look *h, uint64_t addr)
{
    const struct pb_map *m = pb_maps_find(h->copy.maps, addr);

    if (!m || !m->write || m->shared)
        return false;
    if (m->path[0] == '[')
        return strcmp(m->path, "[heap]") == 0 || strncmp(m->path, "[anon", 5) == 0;
    return !m->path[0] && (m == h->copy.maps->v || m[-1].end != m->start || m[-1].path[0] != '/');
}

static void enqueue(struct pb_heap_look *h, uint64_t addr)
{
    if (h->nqueue == h->queue_cap) {
        h->queue_cap = h->queue_cap ? h->queue_cap * 2 : 4096;
        h->queue = pb_alloc_resize(h->queue, h->queue_cap * sizeof *h->queue);
    }
    h->queue[h->nqueue++] = addr;
}

/* A word that may be the address of an object outside. */
static void consider(struct pb_heap_look *h, uint64_t addr)
{
    if (h->large.n < h->large_max && !pb_heap_is_small(h, addr) && is_allocated(h, addr) &&
        pb_heap_set_add(&h->large, addr))
        enqueue(h, addr);
}

void pb_heap_follow(struct pb_heap_look *h, const uint8_t *p, size_t size)
{
    /* malloc gives out multiples of 16; the collector's head may move the object by 8. */
    uint64_t odd = h->py->gc_head % 16 ? 7 : 15;

    if (h->py->free_threaded)
        return; /* mimalloc holds the large ones, too */
    for (size_t i = 0; i + 8 <= size; i += 8) {
        uint64_t w = pb_heap_word(p, (int)i);

        if (w & odd || w < 4096 || w >> 47)
            continue;
        consider(h, w);
    }
}

/* The words of a buffer, wherever it lies; those of small blocks are met there. */
static void follow_buffer(struct pb_heap_look *h, uint64_t addr, uint64_t len)
{
    if (!pb_py_is_ptr(addr) || len > BUFFER_MAX || pb_heap_is_small(h, addr))
        return;
    while (len) {
        uint64_t part = PB_COPY_CHUNK - (addr & (PB_COPY_CHUNK - 1));
        const uint8_t *p;

        part = part < len ? part : len;
        p = pb_heap_spend(h, part) ? pb_copy_at(&h->copy, addr, (size_t)part) : NULL;
        if (!p)
            return;
        pb_heap_follow(h, p, (size_t)part);
        addr += part;
        len -= part;
    }
}

static void follow_deque(struct pb_heap_look *h, const struct pb_heap_object *o)
{
    uint64_t at = pb_heap_word(o->p, h->py->ob_head + 8);
    uint64_t end = pb_heap_word(o->p, h->py->ob_head + 16);
    uint64_t blocks = pb_heap_items(h, o) / DEQUE_ITEMS + 2;

    for (; pb_py_is_ptr(at) && blocks && pb_heap_spend(h, 1); blocks--) {
        follow_buffer(h, at, DEQUE_BLOCK);
        if (at == end || !pb_copy_u64(&h->copy, at + DEQUE_BLOCK - 8, &at))
            return;
    }
}

/* What an object keeps outside of itself. */
static void follow_outside(struct pb_heap_look *h, const struct pb_heap_object *o)
{
    const struct pb_py_layout *py = h->py;
    uint64_t n;

    if (o->have < 64 && o->kind->rule != PB_HEAP_LIST && o->kind->rule != PB_HEAP_DICT)
        return;
    switch (o->kind->rule) {
    case PB_HEAP_LIST:
        n = pb_heap_word(o->p, py->ob_size);
        follow_buffer(h, pb_heap_word(o->p, py->list_items), n < BUFFER_MAX / 8 ? n * 8 : 0);
        break;
    case PB_HEAP_DICT:
    case PB_HEAP_ORDERED_DICT:
        n = pb_heap_size(h, o);
        follow_buffer(h, pb_heap_word(o->p, py->dict_keys), n > 64 ? n - 64 : 0);
        break;
    case PB_HEAP_SET:
        n = pb_heap_word(o->p, py->set_mask) + 1;
        follow_buffer(h, pb_heap_word(o->p, py->set_table), n < BUFFER_MAX / 16 ? n * 16 : 0);
        break;
    case PB_HEAP_DEQUE:
        follow_deque(h, o);
        break;
    default:
        break;
    }
}

/* Nothing but numbers and characters inside. */
static bool is_leaf(const struct pb_heap_kind *k)
{
    return k->rule == PB_HEAP_STR || k->rule == PB_HEAP_INT || k->rule == PB_HEAP_BYTEARRAY ||
           k->type->kind == PB_PY_FLOAT || k->type->kind == PB_PY_BYTES ||
           k->type->kind == PB_PY_COMPLEX;
}

/* Words of memory that are no object may look like the head of a tuple; its end tells. */
static bool has_last_item(struct pb_heap_look *h, const struct pb_heap_candidate *c)
{
    uint64_t item;

    if (c->kind->rule != PB_HEAP_PLAIN)
        return true;
    return pb_copy_u64(&h->copy, c->addr + (uint64_t)h->py->tuple_items + (c->items - 1) * 8,
                       &item) &&
           pb_py_is_ptr(item);
}

/* Keeps the largest containers, in order. */
static void note_container(struct pb_heap_look *h, const struct pb_heap_object *o, uint64_t bytes)
{
    struct pb_heap_candidate c = {o->addr, 0, bytes, o->kind};
    size_t at;

    if (h->ntop == h->o->containers && (!h->ntop || bytes <= h->top[h->ntop - 1].bytes))
        return;
    c.items = pb_heap_items(h, o);
    if (!c.items || !has_last_item(h, &c))
        return;
    at = h->ntop < h->o->containers ? h->ntop++ : h->ntop - 1;
    for (; at && h->top[at - 1].bytes < bytes; at--)
        h->top[at] = h->top[at - 1];
    h->top[at] = c;
}

void pb_heap_count(struct pb_heap_look *h, const struct pb_heap_object *o)
{
    uint64_t size = pb_heap_size(h, o);

    if (!size) {
        h->ret->skipped++;
        return;
    }
    o->kind->count++;
    o->kind->bytes += size;
    note_container(h, o, size);
    if (!h->py->free_threaded)
        follow_outside(h, o);
}

/*
 * With PYTHONMALLOC=debug, and in debug builds, two words stand in front of a block's contents: its
 * size, and a letter with seven equal bytes behind it.
 */
static bool is_guarded(const uint8_t *p, size_t size)
{
    uint64_t guard = size >= 48 ? pb_heap_word(p, 8) >> 8 : 0;

    return guard == UINT64_C(0xfdfdfdfdfdfdfd) || guard == UINT64_C(0xfbfbfbfbfbfbfb);
}

/* An object with all of its items inside is no larger than its block. */
static bool fits(struct pb_heap_look *h, const struct pb_heap_object *o, size_t size)
{
    return o->kind->rule != PB_HEAP_PLAIN || !o->kind->itemsize || pb_heap_size(h, o) <= size;
}

void pb_heap_block(struct pb_heap_look *h, const uint8_t *p, uint64_t addr, size_t size)
{
    unsigned gc = (unsigned)h->py->gc_head;
    const unsigned prefixes[] = {0, gc, gc + 16};
    struct pb_heap_object o = {0};

    if (is_guarded(p, size)) {
        p += 16;
        addr += 16;
        size -= 24;
    }
    for (int i = 0; i < 3; i++) {
        unsigned prefix = prefixes[i];

        if ((i && prefix == prefixes[i - 1]) || size < prefix ||
            !pb_heap_is_object(h, p + prefix, size - prefix, &o.kind) || o.kind->prefix != prefix)
            continue;
        o.addr = addr + prefix;
        o.p = p + prefix;
        o.have = size - prefix;
        if (!fits(h, &o, size))
            break;
        pb_heap_count(h, &o);
        if (is_leaf(o.kind))
            return;
        break;
    }
    pb_heap_follow(h, p, size);
}

/* Counts an object outside, if it is one, and looks through its words. */
static void look_at(struct pb_heap_look *h, uint64_t addr)
{
    struct pb_heap_object o = {.addr = addr, .have = HEAD};
    uint8_t head[HEAD];
    uint64_t size;

    o.p = pb_copy_at(&h->copy, addr, HEAD);
    if (!o.p) {
        /* Over the border of two pieces, or at the end of the memory. */
        size_t to_page = 4096 - (addr & 4095);

        o.have = pb_copy_read(&h->copy, addr, head, HEAD) ? HEAD : to_page < HEAD ? to_page : HEAD;
        if (!pb_copy_read(&h->copy, addr, head, o.have))
            return;
        o.p = head;
    }
    if (o.have < (size_t)h->py->ob_head || !pb_heap_is_object(h, o.p, SIZE_MAX, &o.kind))
        return;
    size = pb_heap_size(h, &o);
    pb_heap_count(h, &o);
    if (size && !is_leaf(o.kind) && o.kind->rule != PB_HEAP_LIST && o.kind->rule != PB_HEAP_DICT &&
        o.kind->rule != PB_HEAP_ORDERED_DICT)
        follow_buffer(h, addr, size);
}

void pb_heap_drain(struct pb_heap_look *h)
{
    while (h->nqueue && pb_heap_spend(h, HEAD)) {
        pb_copy_trim(&h->copy);
        look_at(h, h->queue[--h->nqueue]);
    }
}

/*
 * One list of the collector: its head and its objects' heads are linked in a circle. Copied while
 * it changes, it may lead into another circle: that comes back to a mark which is set anew at each
 * power of two.
 */
static void walk_list(struct pb_heap_look *h, uint64_t head)
{
    uint64_t at = 0, mark = 0, n = 0, next_mark = 1;

    if (!pb_copy_u64(&h->copy, head, &at))
        return;
    while ((at &= ~UINT64_C(7)) != head && at != mark) {
        uint64_t addr = at + (uint64_t)h->py->gc_head;

        if (++n == next_mark) {
            mark = at;
            next_mark *= 2;
        }
        if (!pb_py_is_ptr(at) || !pb_heap_spend(h, 16) || !pb_copy_u64(&h->copy, at, &at)) {
            h->ret->skipped++;
            return;
        }
        consider(h, addr);
    }
}

static void walk_lists(struct pb_heap_look *h, uint64_t first, uint64_t permanent)
{
    for (int i = 0; i < LISTS; i++)
        walk_list(h, first + (uint64_t)(i * h->py->gc_list_size));
    if (permanent)
        walk_list(h, permanent);
}

void pb_heap_gc_lists(struct pb_heap_look *h)
{
    const struct pb_py_layout *py = h->py;
    uint64_t interp = 0, first;
    struct pb_elf elf;
    struct pb_elf_sym sym;

    if (py->free_threaded || py->gc_list_size == PB_NONE)
        return;
    if (h->loc->runtime && py->runtime_gc_lists != PB_NONE) {
        walk_lists(h, h->loc->runtime + (uint64_t)py->runtime_gc_lists,
                   h->loc->runtime + (uint64_t)py->runtime_gc_permanent);
        return;
    }
    if (py->interp_gc_lists == PB_NONE) {
        if (pb_py_location_open(h->loc, h->copy.maps, h->copy.source, &elf) < 0)
            return;
        if (pb_elf_find_symbol(&elf, "_PyGC_generation0", &sym) &&
            pb_copy_u64(&h->copy, h->loc->bias + sym.vaddr, &first))
            walk_lists(h, first, 0);
        pb_elf_close(&elf);
        return;
    }
    pb_copy_u64(&h->copy, h->loc->interp_head, &interp);
    for (int i = 0; pb_py_is_ptr(interp) && i < INTERPS_MAX; i++) {
        walk_lists(h, interp + (uint64_t)py->interp_gc_lists,
                   interp + (uint64_t)py->interp_gc_permanent);
        if (!pb_copy_u64(&h->copy, interp + (uint64_t)py->interp_next, &interp))
            return;
    }
}
