/*
 * copy.h - the memory of a target, copied in pieces of 64 KB when first asked for.
 *
 * Owns: the copies, until pb_copy_finish.
 * Threads: one.
 * Fails: what cannot be read has no address here (NULL).
 * Not here: what lies in that memory.
 *
 * A heap is looked at word by word, millions of times; a system call for each would take minutes.
 * Addresses into the copy stay good until pb_copy_trim, which is called between pieces of work
 * and forgets everything once more than the limit was copied.
 */
#ifndef PB_HEAP_COPY_H
#define PB_HEAP_COPY_H

#include "host/text/arena.h"
#include "host/process/maps.h"
#include "host/process/mem.h"

#define PB_COPY_SHIFT 16
#define PB_COPY_CHUNK ((uint64_t)1 << PB_COPY_SHIFT)

struct pb_copy_chunk {
    uint64_t number; /* address >> PB_COPY_SHIFT; 0: an empty slot */
    uint8_t *bytes;
    uint32_t valid; /* bit i: page i of it could be read */
};

struct pb_copy {
    struct pb_mem mem; /* source for readers that want a struct pb_mem */
    struct pb_mem *source;
    const struct pb_maps *maps;
    struct pb_copy_chunk *slots;
    size_t cap, used; /* cap is a power of two */
    const struct pb_copy_chunk *last;
    uint8_t **slabs;
    size_t nslabs, slab_used; /* chunks taken of the last slab */
    uint64_t limit;           /* bytes copied before pb_copy_trim begins anew */
    uint64_t total;           /* bytes read of the target so far */
};

/* source and maps are borrowed. */
void pb_copy_init(struct pb_copy *c, struct pb_mem *source, const struct pb_maps *maps,
                  uint64_t limit);
void pb_copy_finish(struct pb_copy *c);
void pb_copy_trim(struct pb_copy *c);
/* Copies a whole range with few, large reads. */
void pb_copy_load(struct pb_copy *c, uint64_t addr, uint64_t len);
/* Copies the chunk, if it is not there yet. NULL: no memory of the target. */
const struct pb_copy_chunk *pb_copy_find(struct pb_copy *c, uint64_t addr);
/* Any number of bytes, over the borders of chunks. */
bool pb_copy_read(struct pb_copy *c, uint64_t addr, void *buf, size_t len);

/* Bytes inside of one chunk; NULL where they cannot be read or reach over its end. */
static inline const uint8_t *pb_copy_at(struct pb_copy *c, uint64_t addr, size_t len)
{
    uint64_t at = addr & (PB_COPY_CHUNK - 1);
    const struct pb_copy_chunk *k = c->last;

    if (!k || k->number != addr >> PB_COPY_SHIFT) {
        k = pb_copy_find(c, addr);
        if (!k)
            return NULL;
        c->last = k;
    }
    if (len > PB_COPY_CHUNK - at)
        return NULL;
    if (k->valid != 0xffff) {
        for (uint64_t page = at >> 12; page <= (at + len - 1) >> 12; page++)
            if (!(k->valid >> page & 1))
                return NULL;
    }
    return k->bytes + at;
}

static inline bool pb_copy_u64(struct pb_copy *c, uint64_t addr, uint64_t *ret)
{
    const uint8_t *p = pb_copy_at(c, addr, 8);

    if (!p)
        return pb_copy_read(c, addr, ret, 8);
    memcpy(ret, p, 8);
    return true;
}

#endif
