#include "heap/copy.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "host/text/alloc.h"

#define PAGE ((uint64_t)4096)
#define PAGES (PB_COPY_CHUNK / PAGE)
#define ALL_PAGES 0xffffu
#define SLAB_CHUNKS 64
#define FIRST_SLOTS 1024
#define LOAD_MAX 64 /* chunks in one read */

static size_t read_copy(struct pb_mem *mem, const struct pb_mem_range *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!pb_copy_read(mem->arg, v[i].addr, v[i].buf, v[i].len))
            return i;
    return n;
}

void pb_copy_init(struct pb_copy *c, struct pb_mem *source, const struct pb_maps *maps,
                  uint64_t limit)
{
    memset(c, 0, sizeof *c);
    c->mem = (struct pb_mem){.read = read_copy, .pid = source->pid, .arg = c};
    c->source = source;
    c->maps = maps;
    c->limit = limit;
}

static void forget(struct pb_copy *c)
{
    for (size_t i = 0; i < c->nslabs; i++)
        munmap(c->slabs[i], SLAB_CHUNKS * PB_COPY_CHUNK);
    free(c->slabs);
    free(c->slots);
    c->slabs = NULL;
    c->slots = NULL;
    c->last = NULL;
    c->nslabs = c->slab_used = c->cap = c->used = 0;
}

void pb_copy_finish(struct pb_copy *c)
{
    forget(c);
}

void pb_copy_trim(struct pb_copy *c)
{
    /* Addresses without memory behind them are remembered as well. */
    if ((uint64_t)c->nslabs * SLAB_CHUNKS * PB_COPY_CHUNK + c->cap * sizeof *c->slots > c->limit)
        forget(c);
}

/* Memory for one chunk; NULL when there is none left. */
static uint8_t *new_bytes(struct pb_copy *c)
{
    if (!c->nslabs || c->slab_used == SLAB_CHUNKS) {
        size_t size = SLAB_CHUNKS * PB_COPY_CHUNK;
        uint8_t *slab;

        /* A target may lead from anywhere to anywhere before the next trim. */
        if (c->nslabs * size > 2 * c->limit)
            return NULL;
        slab = mmap(NULL, size, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (slab == MAP_FAILED)
            return NULL;
        madvise(slab, size, MADV_HUGEPAGE);
        c->slabs = pb_alloc_resize(c->slabs, (c->nslabs + 1) * sizeof *c->slabs);
        c->slabs[c->nslabs++] = slab;
        c->slab_used = 0;
    }
    return c->slabs[c->nslabs - 1] + c->slab_used++ * PB_COPY_CHUNK;
}

static struct pb_copy_chunk *slot_of(struct pb_copy *c, uint64_t number)
{
    size_t i = (size_t)(number * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (c->cap - 1);

    while (c->slots[i].number && c->slots[i].number != number)
        i = (i + 1) & (c->cap - 1);
    return &c->slots[i];
}

static void grow(struct pb_copy *c)
{
    struct pb_copy_chunk *old = c->slots;
    size_t n = c->cap;

    c->cap = n ? n * 2 : FIRST_SLOTS;
    c->slots = pb_alloc_resize(NULL, c->cap * sizeof *c->slots);
    memset(c->slots, 0, c->cap * sizeof *c->slots);
    for (size_t i = 0; i < n; i++)
        if (old[i].number)
            *slot_of(c, old[i].number) = old[i];
    free(old);
    c->last = NULL;
}

/* Could Python objects, or what they point to, lie there? Reading a device has side effects. */
static bool is_memory(const struct pb_map *m)
{
    return m->read && !m->shared && strncmp(m->path, "/dev/", 5) != 0 &&
           strcmp(m->path, "[vvar]") != 0;
}

/* The pages of a chunk that the target has, as bits. */
static uint32_t mapped_pages(const struct pb_copy *c, uint64_t start)
{
    uint64_t end = start + PB_COPY_CHUNK;
    size_t lo = 0, hi = c->maps->n;
    uint32_t bits = 0;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (c->maps->v[mid].end <= start)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (; lo < c->maps->n && c->maps->v[lo].start < end; lo++) {
        const struct pb_map *m = &c->maps->v[lo];
        uint64_t from = m->start > start ? m->start : start, to = m->end < end ? m->end : end;

        for (; is_memory(m) && from < to; from += PAGE)
            bits |= 1u << ((from - start) / PAGE);
    }
    return bits;
}

/* Reads those pages of a chunk that can be read. */
static void read_pages(struct pb_copy *c, struct pb_copy_chunk *k, uint32_t wanted)
{
    uint64_t start = k->number << PB_COPY_SHIFT;
    struct pb_mem_range ranges[PAGES];
    unsigned pages[PAGES];
    size_t n = 0, done = 0;

    for (unsigned i = 0; i < PAGES; i++) {
        if (!(wanted >> i & 1))
            continue;
        ranges[n] = (struct pb_mem_range){start + i * PAGE, k->bytes + i * PAGE, PAGE};
        pages[n++] = i;
    }
    while (done < n) {
        size_t got = c->source->read(c->source, ranges + done, n - done);

        for (size_t i = done; i < done + got; i++)
            k->valid |= 1u << pages[i];
        c->total += got * PAGE;
        done += got + 1;
    }
}

/* A slot for a chunk whose bytes are to be read; NULL when it is there, or nothing is to be had. */
static struct pb_copy_chunk *claim_slot(struct pb_copy *c, uint64_t number, uint32_t *ret_mapped)
{
    struct pb_copy_chunk *k;

    if (!number || number >> (48 - PB_COPY_SHIFT))
        return NULL;
    if (c->used * 2 >= c->cap)
        grow(c);
    k = slot_of(c, number);
    if (k->number)
        return NULL;
    *ret_mapped = mapped_pages(c, number << PB_COPY_SHIFT);
    *k = (struct pb_copy_chunk){.number = number};
    c->used++;
    if (!*ret_mapped)
        return NULL;
    k->bytes = new_bytes(c);
    return k->bytes ? k : NULL;
}

const struct pb_copy_chunk *pb_copy_find(struct pb_copy *c, uint64_t addr)
{
    uint64_t number = addr >> PB_COPY_SHIFT;
    struct pb_copy_chunk *k = c->cap ? slot_of(c, number) : NULL;
    uint32_t mapped;

    if (!k || !k->number) {
        k = claim_slot(c, number, &mapped);
        if (!k)
            return NULL;
        if (mapped == ALL_PAGES && pb_mem_get(c->source, number << PB_COPY_SHIFT, k->bytes,
                                              PB_COPY_CHUNK)) {
            k->valid = ALL_PAGES;
            c->total += PB_COPY_CHUNK;
        } else {
            read_pages(c, k, mapped);
        }
    }
    return k->valid ? k : NULL;
}

void pb_copy_load(struct pb_copy *c, uint64_t addr, uint64_t len)
{
    uint64_t number = addr >> PB_COPY_SHIFT, end = (addr + len - 1) >> PB_COPY_SHIFT;
    struct pb_mem_range ranges[LOAD_MAX];
    uint64_t numbers[LOAD_MAX];

    while (len && number <= end) {
        size_t n = 0, done = 0;

        for (; number <= end && n < LOAD_MAX; number++) {
            uint32_t mapped = 0;
            struct pb_copy_chunk *k = claim_slot(c, number, &mapped);

            if (k && mapped == ALL_PAGES) {
                ranges[n] = (struct pb_mem_range){number << PB_COPY_SHIFT, k->bytes, PB_COPY_CHUNK};
                numbers[n++] = number;
            } else if (k) {
                read_pages(c, k, mapped);
            }
        }
        while (done < n) {
            size_t got = c->source->read(c->source, ranges + done, n - done);

            for (size_t i = done; i < done + got; i++)
                slot_of(c, numbers[i])->valid = ALL_PAGES;
            c->total += got * PB_COPY_CHUNK;
            done += got;
            if (done < n)
                read_pages(c, slot_of(c, numbers[done++]), ALL_PAGES);
        }
    }
}

bool pb_copy_read(struct pb_copy *c, uint64_t addr, void *buf, size_t len)
{
    while (len) {
        size_t part = (size_t)(PB_COPY_CHUNK - (addr & (PB_COPY_CHUNK - 1)));
        const uint8_t *p;

        part = part < len ? part : len;
        p = pb_copy_at(c, addr, part);
        if (!p)
            return false;
        memcpy(buf, p, part);
        buf = (char *)buf + part;
        addr += part;
        len -= part;
    }
    return true;
}
