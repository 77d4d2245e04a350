/*
 * live.h - sampled blocks that are not freed yet, and the stacks that allocated them.
 *
 * Owns: its tables, mapped when sampling is first turned on and kept for ever.
 * Threads: any; `lock` is held for copies only. pb_live_may_have takes no lock.
 * Fails: never; a stack that finds no room is counted under "(other stacks)", a block that finds
 * none makes samples rarer.
 * Not here: who is sampled (hooks.h), rows (alloc.c).
 *
 * When the table of blocks gets full, the distance between samples doubles, and each block stays
 * with the chance that it would have been hit with the new distance: estimates stay unbiased.
 */
#ifndef PB_AGENT_COLLECTORS_ALLOC_LIVE_H
#define PB_AGENT_COLLECTORS_ALLOC_LIVE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/collectors/alloc/walk.h"

enum {
    PB_LIVE_BLOCKS = 1 << 16, /* a power of two */
    PB_LIVE_FILTER = 1 << 16,
    PB_LIVE_SITES = 1 << 12,
    PB_LIVE_FRAMES = 1 << 16,
    PB_LIVE_NAMES = 1 << 14,
    PB_LIVE_TEXT = 1 << 20,
    PB_LIVE_DEPTH = 64, /* frames of a stack, the innermost ones */
};

struct pb_live_block {
    uintptr_t address; /* 0: none */
    uint64_t size;
    uint32_t site;
    float chance; /* probability with which the block was sampled */
};

struct pb_live_frame {
    uint32_t func, file; /* offsets in pb_live.text; 0: not known */
    int32_t line;
};

/* One stack. Bytes are estimates. */
struct pb_live_site {
    uint64_t key; /* hash of the frames as they lie in memory; 0: none */
    uint64_t id;  /* hash of their names */
    uint32_t first, nframes;
    uint32_t same_as; /* the site that counts for this one, with the same names; 0: itself */
    double live_bytes, live_variance, live_blocks, alloc_bytes, alloc_blocks;
    uint64_t samples;       /* count of samples that live_bytes is estimated from */
    bool stale;             /* changed since its last row */
    bool moving;            /* changed since the last review of all sites */
    double written_bytes;   /* live_bytes of its last row */
    uint64_t written_ns, frames_ns; /* when its last row and its frames were written; 0: never */
};

struct pb_live {
    pthread_mutex_t lock; /* guards all but the filter */
    uint64_t random;
    double every; /* bytes between two samples, on average */
    struct pb_live_block *blocks, *spare;
    struct pb_live_site *sites; /* the first one stands for stacks that found no room */
    struct pb_live_frame *frames;
    uint32_t *names; /* hash table of offsets in `text`; 0: free */
    char *text;
    _Atomic uint8_t *filter; /* count of blocks by hash of their address; 255 is final */
    uint32_t nblocks, nframes, ntext;
};

/* Maps the tables, unless they are there. False: no memory. */
bool pb_live_prepare(struct pb_live *l);
/* Forgets everything; in a forked child, too. Async-signal-safe. */
void pb_live_clear(struct pb_live *l);

/* Bytes to the next sample. */
int64_t pb_live_distance(struct pb_live *l);
void pb_live_add(struct pb_live *l, const struct pb_walker *w, void *block, uint64_t size);
/* A block is freed. */
void pb_live_remove(struct pb_live *l, void *block);

static inline uint32_t pb_live_hash(const void *block)
{
    return (uint32_t)(((uintptr_t)block >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 48);
}

/* False: this block was not sampled. */
static inline bool pb_live_may_have(const struct pb_live *l, const void *block)
{
    return atomic_load_explicit(&l->filter[pb_live_hash(block)], memory_order_relaxed) != 0;
}

#endif
