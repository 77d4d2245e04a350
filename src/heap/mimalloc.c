/*
 * mimalloc.c - every block of mimalloc, which builds without a GIL use for all objects.
 *
 * Memory comes in segments that begin at multiples of 32 MB. A segment opens with a table of its
 * slices of 64 KB; a page is a run of slices with blocks of one size. CPython marks pages by what
 * they are for: raw memory, objects, objects of the collector without and with slots in front.
 */
#include "heap/internal.h"

#define SEGMENT ((uint64_t)32 << 20)
#define SLICE ((uint64_t)64 << 10)
#define SLICES 512
#define PAGE_FLAGS 8 /* byte of a page: two flags, whether it is freed late, four bits of tag */
#define TAG_SHIFT 3
#define HUGE_BLOCK ((uint64_t)2 << 30) /* a block of at least this size fills its segment */
#define BLOCKS_MAX 65536

enum { TAG_MEMORY, TAG_OBJECT, TAG_GC, TAG_GC_PRE };

struct page {
    uint64_t start; /* address of its first block */
    uint64_t size;  /* bytes of a block */
    uint32_t capacity;
    unsigned tag;
    uint64_t lists[3]; /* lists of free blocks */
};

/* Small blocks do not begin at the page's beginning, to spread them over cache lines. */
static uint64_t first_block(uint64_t size)
{
    if (size < 8 || size > 512)
        return 0;
    return size <= 64 ? 3 * size : size;
}

static bool read_page(const struct pb_py_layout *py, const uint8_t *p, uint64_t start,
                      struct page *ret)
{
    uint32_t used, size;
    uint16_t capacity;

    memcpy(&used, p + py->mi_page_used, sizeof used);
    memcpy(&size, p + py->mi_page_block_size, sizeof size);
    memcpy(&capacity, p + py->mi_page_capacity, sizeof capacity);
    if (!size || !used || used > capacity)
        return false;
    *ret = (struct page){
        .start = start + first_block(size),
        .size = size,
        .capacity = capacity,
        .tag = p[PAGE_FLAGS] >> TAG_SHIFT & 15,
        .lists = {pb_heap_word(p, py->mi_page_free), pb_heap_word(p, py->mi_page_local_free),
                  pb_heap_word(p, py->mi_page_thread_free) & ~UINT64_C(3)},
    };
    return true;
}

static void mark_free(struct pb_heap_look *h, const struct page *k, uint64_t *bits)
{
    memset(bits, 0, (k->capacity / 64 + 1) * sizeof *bits);
    for (int i = 0; i < 3; i++) {
        uint64_t at = k->lists[i];

        for (uint32_t n = 0; n < k->capacity && at >= k->start; n++) {
            uint64_t block = (at - k->start) / k->size;

            if (block >= k->capacity || (at - k->start) % k->size)
                break;
            bits[block / 64] |= UINT64_C(1) << block % 64;
            if (!pb_copy_u64(&h->copy, at, &at))
                break;
        }
    }
}

/* A block may reach over the border of two copied pieces; what is needed of it is its head. */
static void look_at(struct pb_heap_look *h, uint64_t addr, uint64_t size)
{
    uint8_t head[512];
    size_t want = size < sizeof head ? (size_t)size : sizeof head;
    const uint8_t *p = pb_copy_at(&h->copy, addr, (size_t)size);

    if (p)
        pb_heap_block(h, p, addr, (size_t)size);
    else if (pb_copy_read(&h->copy, addr, head, want))
        pb_heap_block(h, head, addr, want);
}

static void walk_page(struct pb_heap_look *h, const struct page *k)
{
    uint64_t bits[BLOCKS_MAX / 64 + 1];

    if (k->tag == TAG_MEMORY || k->tag > TAG_GC_PRE)
        return;
    /* One large object is not read whole: its head tells how large it is. */
    if (!pb_heap_spend(h, k->size < 512 ? k->size * k->capacity : 512 * (uint64_t)k->capacity))
        return;
    if (k->size * k->capacity <= 4 * SLICE)
        pb_copy_load(&h->copy, k->start, k->size * k->capacity);
    mark_free(h, k, bits);
    for (uint32_t i = 0; i < k->capacity; i++)
        if (!(bits[i / 64] >> i % 64 & 1))
            look_at(h, k->start + i * k->size, k->size);
}

static bool read_segment(struct pb_heap_look *h, uint64_t addr, uint64_t *ret_entries,
                         uint64_t *ret_info)
{
    const struct pb_py_layout *py = h->py;
    struct pb_mem *mem = h->copy.source;
    uint64_t thread;

    return pb_mem_u64(mem, addr + (uint64_t)py->mi_segment_entries, ret_entries) &&
           pb_mem_u64(mem, addr + (uint64_t)py->mi_segment_info, ret_info) &&
           pb_mem_u64(mem, addr + (uint64_t)py->mi_segment_thread, &thread) && *ret_info >= 1 &&
           *ret_info <= 4 && *ret_entries > *ret_info && *ret_entries <= SLICES + 1;
}

static void walk_segment(struct pb_heap_look *h, uint64_t addr, bool only_range)
{
    uint64_t entries, i, size = (uint64_t)h->py->mi_page_size;
    uint32_t slices;

    if (!read_segment(h, addr, &entries, &i))
        return;
    if (only_range) {
        pb_heap_add_range(h, addr, addr + SEGMENT);
        return;
    }
    pb_copy_trim(&h->copy);
    for (; i < entries; i += slices ? slices : 1) {
        uint8_t p[256];
        struct page k;

        /* Straight from the target: its list of free blocks must be as old as the page's bytes. */
        if (size > sizeof p || !pb_mem_get(h->copy.source,
                                           addr + (uint64_t)h->py->mi_segment_pages + i * size, p,
                                           size))
            return;
        memcpy(&slices, p, sizeof slices);
        if (slices && read_page(h->py, p, addr + i * SLICE, &k) && k.size < HUGE_BLOCK)
            walk_page(h, &k);
    }
}

static void each_segment(struct pb_heap_look *h, bool only_range)
{
    for (size_t i = 0; i < h->copy.maps->n; i++) {
        const struct pb_map *m = &h->copy.maps->v[i];
        uint64_t at = (m->start + SEGMENT - 1) & ~(SEGMENT - 1);

        if (!m->read || !m->write || m->shared || m->path[0] == '/')
            continue;
        for (; at < m->end; at += SEGMENT)
            walk_segment(h, at, only_range);
        if (h->o->progress && !only_range)
            h->o->progress(h->o->arg, (double)i / (double)h->copy.maps->n);
    }
}

int pb_heap_segments(struct pb_heap_look *h, struct pb_err *err)
{
    if (h->py->mi_page_size == PB_NONE)
        return pb_err_set(err, PB_FAIL, "the allocator of this Python %d.%d is not known",
                          h->py->major, h->py->minor);
    each_segment(h, true);
    each_segment(h, false);
    h->ret->how = "segments of mimalloc";
    return 0;
}
