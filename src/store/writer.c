#define _GNU_SOURCE /* mremap */
#include "store/writer.h"

#include <string.h>
#include <sys/mman.h>

#include "store/ring.h"
#include "store/text.h"

/* Pieces of heap that may cross its end before a text is given up; one in a row is usual. */
enum { HEAP_TRIES = 4 };

static bool is_live(const struct pb_ring *r)
{
    return atomic_load_explicit(&r->live, memory_order_relaxed) != 0;
}

static void count(_Atomic uint64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/*
 * The slot of row n, if it is free: never used, or whole with a lower row. Mostly that is row
 * n - capacity, so this is tried without looking; but that row may itself have been dropped. A word
 * never goes back. Acquire: our cells come behind those of the writer that had the slot before.
 */
static bool claim(_Atomic uint64_t *word, uint64_t n, uint64_t capacity)
{
    uint64_t old = n < capacity ? 0 : PB_SEQ_DONE(n - capacity);

    if (atomic_compare_exchange_strong_explicit(word, &old, PB_SEQ_BUSY(n), memory_order_acquire,
                                                memory_order_relaxed))
        return true;
    if ((old != 0 && (old & 1) == 0) || old >= PB_SEQ_BUSY(n))
        return false;
    return atomic_compare_exchange_strong_explicit(word, &old, PB_SEQ_BUSY(n), memory_order_acquire,
                                                   memory_order_relaxed);
}

/*
 * An entry of the dictionary or the heap: length, bytes, and the hash when all is there. Words are
 * stored whole, and what is behind the text in the last one is zero.
 */
static void put_text(unsigned char *at, uint32_t seed, const char *s, size_t len)
{
    _Atomic uint64_t *head = (_Atomic uint64_t *)(void *)at, *to = head + 1;
    struct pb_ring_text entry = {0, (uint32_t)len};
    uint64_t word;

    memcpy(&word, &entry, sizeof word);
    atomic_store_explicit(head, word, memory_order_relaxed);
    entry.hash = pb_text_hash(seed, s, len);
    for (; len > 0; s += sizeof word) {
        size_t n = len < sizeof word ? len : sizeof word;

        word = 0;
        memcpy(&word, s, n);
        atomic_store_explicit(to++, word, memory_order_relaxed);
        len -= n;
    }
    memcpy(&word, &entry, sizeof word);
    atomic_store_explicit(head, word, memory_order_release);
}

/*
 * A text into the heap. Space is given out by one addition; a piece that would cross the end of
 * the circle is left empty. A slow writer may be overtaken by a whole circle, and then both write
 * to the same bytes: the hash, which has the position in it, tells the reader.
 */
static uint64_t put_heap(struct pb_ring *r, const char *s, size_t len)
{
    uint64_t space;

    if (!s || len == SIZE_MAX || !r->heap_size)
        return PB_NULL_TEXT;
    len = pb_text_cut(s, len, r->heap_size / 4);
    space = pb_text_space(len);
    for (int i = 0; i < HEAP_TRIES; i++) {
        uint64_t at = atomic_fetch_add_explicit(&r->head->heap_next, space, memory_order_relaxed);
        uint64_t in = at & (r->heap_size - 1) & ~UINT64_C(7);

        if (in + space > r->heap_size)
            continue;
        /* Who sees a byte of ours also sees that heap_next moved on, and that its own is gone. */
        pb_fence_release();
        put_text(r->heap + in, pb_text_seed(at), s, len);
        return at + 1;
    }
    return PB_NULL_TEXT;
}

static const union pb_cell *cell_of(const struct pb_ring_lane *lane, const union pb_cell *cells)
{
    return (const void *)((const char *)cells + lane->cell);
}

/* The rarer kinds. Apart, since append is faster when it needs few registers. */
static __attribute__((noinline)) void put_rest(struct pb_ring *r, const struct pb_ring_lane *lane,
                                               uint64_t slot, const union pb_cell *cells)
{
    const struct pb_ring_lane *bools = lane + r->nbools, *texts = bools + r->ntexts;

    for (; lane < bools; lane++) {
        uint8_t b = cell_of(lane, cells)->b;

        atomic_store_explicit((_Atomic uint8_t *)lane->at + slot, b == PB_NULL_BOOL ? b : b != 0,
                              memory_order_relaxed);
    }
    for (; lane < texts; lane++) {
        const union pb_cell *cell = cell_of(lane, cells);

        atomic_store_explicit((_Atomic uint64_t *)lane->at + slot,
                              put_heap(r, cell->text.s, cell->text.len), memory_order_relaxed);
    }
}

/* Single stores, each to its own column; relaxed ones cost what plain ones do. */
static inline void put_cells(struct pb_ring *r, uint64_t slot, const union pb_cell *cells)
{
    const struct pb_ring_lane *lane = r->lanes, *wide = lane + r->n8, *names = wide + r->nnames;

    for (; lane < wide; lane++)
        atomic_store_explicit((_Atomic uint64_t *)lane->at + slot,
                              (uint64_t)cell_of(lane, cells)->i, memory_order_relaxed);
    for (; lane < names; lane++)
        atomic_store_explicit((_Atomic uint32_t *)lane->at + slot, cell_of(lane, cells)->name,
                              memory_order_relaxed);
    if (r->nbools + r->ntexts)
        put_rest(r, lane, slot, cells);
}

void pb_ring_append(struct pb_ring *r, const union pb_cell *cells)
{
    _Atomic uint64_t *word;
    uint64_t n;

    if (!is_live(r))
        return;
    n = atomic_fetch_add_explicit(&r->head->next, 1, memory_order_relaxed);
    word = &r->sequence[n & r->mask];
    if (!claim(word, n, r->mask + 1)) {
        count(&r->head->dropped);
        return;
    }
    /*
     * A reader that copied one of our cells must not find the old row's DONE when it looks again:
     * BUSY has to be seen before the cells. Release on the claim itself would not do: it orders
     * what came before it, not what follows.
     */
    pb_fence_release();
    put_cells(r, n & r->mask, cells);
    atomic_store_explicit(word, PB_SEQ_DONE(n), memory_order_release);
}

/* For the index only; eight bytes at a step, since callers give the same names again and again. */
static uint32_t index_hash(const char *s, size_t len)
{
    uint64_t h = UINT64_C(0x9e3779b97f4a7c15) ^ len, word;

    for (; len >= sizeof word; s += sizeof word, len -= sizeof word) {
        memcpy(&word, s, sizeof word);
        h = (h ^ word) * UINT64_C(0xd6e8feb86659fd93);
        h ^= h >> 32;
    }
    word = 0;
    memcpy(&word, s, len);
    h = (h ^ word) * UINT64_C(0xd6e8feb86659fd93);
    h ^= h >> 29;
    return (uint32_t)((h * UINT64_C(0x9e3779b97f4a7c15)) >> 32);
}

static bool is_entry(const struct pb_ring *r, uint32_t name, const char *s, size_t len)
{
    uint64_t at = ((uint64_t)name - 1) * 8;
    const struct pb_ring_text *entry = (const void *)(r->dict + at);

    return at + pb_text_space(len) <= r->dict_size && entry->len == len &&
           memcmp(entry->bytes, s, len) == 0;
}

/*
 * The number of a name. If it has none yet: the one that is offered becomes it, unless another
 * thread was faster; PB_NULL_NAME offers nothing. Acquire: behind a number stands a whole entry.
 */
static uint32_t find_or_add_name(struct pb_ring *r, uint32_t hash, const char *s, size_t len,
                                 uint32_t offer)
{
    uint64_t i = hash & r->index_mask, mine = (uint64_t)hash << 32 | offer;

    /* There are free places always, unless somebody has tampered with dict_used. */
    for (uint64_t n = 0; n <= r->index_mask; n++, i = (i + 1) & r->index_mask) {
        uint64_t seen = atomic_load_explicit(&r->index[i], memory_order_acquire);

        if (seen == 0 && (offer == PB_NULL_NAME || atomic_compare_exchange_strong_explicit(
                                                       &r->index[i], &seen, mine,
                                                       memory_order_acq_rel, memory_order_acquire)))
            return offer;
        if (seen >> 32 == hash && is_entry(r, (uint32_t)seen, s, len))
            return (uint32_t)seen;
    }
    return PB_NULL_NAME;
}

/*
 * Puts a name into the dictionary. No lock, since the one who held it could be the very thread that
 * we have interrupted as its signal handler. Two threads that bring the same new name at the same
 * instant both make an entry; only one of them gets into the index, the other is a little waste.
 */
static uint32_t insert(struct pb_ring *r, uint32_t hash, const char *s, size_t len)
{
    uint32_t space = (uint32_t)pb_text_space(len);
    uint32_t at = atomic_load_explicit(&r->head->dict_used, memory_order_relaxed);

    if (at > r->dict_size || space > r->dict_size - at)
        return PB_NULL_NAME; /* but a shorter one may still fit */
    at = atomic_fetch_add_explicit(&r->head->dict_used, space, memory_order_relaxed);
    if (at > r->dict_size || space > r->dict_size - at || at % 8 != 0)
        return PB_NULL_NAME;
    put_text(r->dict + at, PB_TEXT_HASH, s, len);
    return find_or_add_name(r, hash, s, len, at / 8 + 1);
}

uint32_t pb_ring_name(struct pb_ring *r, const char *s, size_t len)
{
    uint32_t hash, name = PB_NULL_NAME;

    if (!s || len == SIZE_MAX || !is_live(r))
        return PB_NULL_NAME;
    len = pb_text_cut(s, len, PB_RING_NAME_LONGEST);
    if (r->dict_size) {
        hash = index_hash(s, len);
        name = find_or_add_name(r, hash, s, len, PB_NULL_NAME);
        if (name == PB_NULL_NAME)
            name = insert(r, hash, s, len);
    }
    if (name == PB_NULL_NAME)
        count(&r->head->unnamed);
    return name;
}

const char *pb_ring_text(const struct pb_ring *r, uint32_t name, size_t *ret_len)
{
    uint64_t at = ((uint64_t)name - 1) * 8;
    const struct pb_ring_text *entry = (const void *)(r->dict + at);

    if (name == PB_NULL_NAME || !is_live(r) || at + sizeof *entry > r->dict_size)
        return NULL;
    *ret_len = entry->len;
    return at + pb_text_space(*ret_len) <= r->dict_size ? entry->bytes : NULL;
}

uint64_t pb_ring_rows(const struct pb_ring *r)
{
    const _Atomic uint64_t *rows = is_live(r) ? &r->head->next : &r->rows;

    return atomic_load_explicit(rows, memory_order_relaxed);
}

uint64_t pb_ring_bytes(const struct pb_ring *r)
{
    return r->file_size;
}

/*
 * Puts empty private pages in the place of the file: whoever is in the midst of an append goes on
 * into them unharmed, and the file's memory is free as soon as its name is gone. A row that was
 * not DONE stays BUSY in the file, and no reader takes it. The new pages are had first: a mapping
 * over the old one could fail with nothing left there. Plain system calls, async-safe.
 */
static void replace_by_private_pages(struct pb_ring *r)
{
    void *p = mmap(NULL, r->file_size, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (p != MAP_FAILED &&
        mremap(p, r->file_size, r->file_size, MREMAP_MAYMOVE | MREMAP_FIXED, r->head) == MAP_FAILED)
        munmap(p, r->file_size);
}

/* True for the one who ends it. */
static bool end(struct pb_ring *r)
{
    return r && atomic_exchange_explicit(&r->live, 0, memory_order_acq_rel) != 0;
}

void pb_ring_retire(struct pb_ring *r)
{
    if (!r || !is_live(r))
        return;
    atomic_store_explicit(&r->rows, pb_ring_rows(r), memory_order_relaxed);
    if (!end(r))
        return;
    atomic_store_explicit(&r->head->closed, 1, memory_order_release);
    replace_by_private_pages(r);
}

void pb_ring_abandon(struct pb_ring *r)
{
    if (end(r))
        replace_by_private_pages(r);
}

void pb_ring_close(struct pb_ring *r)
{
    if (!r)
        return;
    if (end(r)) /* else it was done, or is the parent's affair */
        atomic_store_explicit(&r->head->closed, 1, memory_order_release);
    munmap(r->head, r->file_size);
    munmap(r, r->own_size);
}
