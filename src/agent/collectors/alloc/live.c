#include "agent/collectors/alloc/live.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/arch/symver.h"
#include "agent/collectors/alloc/chance.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/pages.h"

#define BLOCKS_MASK (PB_LIVE_BLOCKS - 1)
#define FULL (PB_LIVE_BLOCKS / 4 * 3)
#define SATURATED 255
/* For so many tries the lock is waited for; the later ones are a millisecond apart. */
#define LOCK_TRIES 120
#define LOCK_YIELDS 20

_Static_assert((int)PB_LIVE_FILTER == 1 << 16, "pb_live_hash gives 16 bits");

/* Every table once: X(field, how many). */
#define TABLES(X)                                                                                  \
    X(blocks, PB_LIVE_BLOCKS)                                                                      \
    X(spare, PB_LIVE_BLOCKS)                                                                       \
    X(sites, PB_LIVE_SITES)                                                                        \
    X(frames, PB_LIVE_FRAMES)                                                                      \
    X(names, PB_LIVE_NAMES)                                                                        \
    X(text, PB_LIVE_TEXT)                                                                          \
    X(filter, PB_LIVE_FILTER)

bool pb_live_prepare(struct pb_live *l)
{
    bool all = true;

#define X(field, n)                                                                                \
    if (!l->field)                                                                                 \
        all &= (l->field = pb_pages_get((n) * sizeof *l->field)) != NULL;
    TABLES(X)
#undef X
    if (all && !l->random) {
        l->random = pb_clock_ns() | 1;
        l->ntext = l->nframes = 1; /* 0 stands for none */
    }
    return all;
}

/* Private pages that are given back read as zeros, without being written to. */
void pb_live_clear(struct pb_live *l)
{
#define X(field, n)                                                                                \
    if (l->field)                                                                                  \
        madvise((void *)l->field, (n) * sizeof *l->field, MADV_DONTNEED);
    TABLES(X)
#undef X
    l->nblocks = 0;
    l->ntext = l->nframes = 1;
}

/*
 * A fork, or an allocation in a signal's handler, may find the lock with somebody who never runs
 * again: then a sample is lost, and the program goes on.
 */
static bool lock(struct pb_live *l)
{
    int kept = errno;
    bool good = false;

    for (int i = 0; i < LOCK_TRIES && !(good = pthread_mutex_trylock(&l->lock) == 0); i++) {
        if (i < LOCK_YIELDS)
            sched_yield();
        else
            usleep(1000);
    }
    errno = kept;
    return good;
}

int64_t pb_live_distance(struct pb_live *l)
{
    int64_t distance;

    if (!lock(l))
        return (int64_t)l->every;
    distance = pb_chance_distance(&l->random, l->every);
    pthread_mutex_unlock(&l->lock);
    return distance;
}

/* Where a text stands, written at first use; 0: no room. */
static uint32_t name_of(struct pb_live *l, const struct pb_walk_text *t)
{
    uint64_t hash = pb_hash_bytes(PB_HASH_SEED, t->text, t->len);

    for (uint32_t i = 0; i < PB_LIVE_NAMES; i++) {
        uint32_t *slot = &l->names[(hash + i) & (PB_LIVE_NAMES - 1)];

        if (*slot && strcmp(l->text + *slot, t->text) == 0)
            return *slot;
        if (*slot)
            continue;
        if (l->ntext + t->len + 1 > PB_LIVE_TEXT)
            return 0;
        memcpy(l->text + l->ntext, t->text, t->len + 1);
        *slot = l->ntext;
        l->ntext += (uint32_t)t->len + 1;
        return *slot;
    }
    return 0;
}

static uint64_t key_of(const struct pb_walk_frame *frames, size_t n)
{
    uint64_t key = pb_hash_step(PB_HASH_SEED, n);

    for (size_t i = 0; i < n; i++) {
        key = pb_hash_step(key, frames[i].code >> 4);
        key = pb_hash_step(key, frames[i].name >> 4);
        key = pb_hash_step(key, (uint64_t)frames[i].offset);
        key = pb_hash_step(key, (uint64_t)frames[i].first);
        key ^= key >> 29;
    }
    return key ? key : 1;
}

/* Reads the names of a stack that is met for the first time. */
static bool fill_site(struct pb_live *l, const struct pb_walker *w, struct pb_live_site *s,
                      const struct pb_walk_frame *frames, size_t n)
{
    uint64_t id = pb_hash_step(PB_HASH_SEED, n);
    struct pb_walk_text t;

    if (l->nframes + n > PB_LIVE_FRAMES)
        return false;
    s->first = l->nframes;
    s->nframes = (uint32_t)n;
    for (size_t i = 0; i < n; i++) {
        struct pb_live_frame *f = &l->frames[s->first + i];

        f->func = pb_walk_function(w, &frames[i], &t) ? name_of(l, &t) : 0;
        id = pb_hash_bytes(id, l->text + f->func, strlen(l->text + f->func));
        f->file = pb_walk_file(w, &frames[i], &t) ? name_of(l, &t) : 0;
        id = pb_hash_bytes(id, l->text + f->file, strlen(l->text + f->file));
        f->line = pb_walk_line(w, &frames[i]);
        id = pb_hash_step(id, (uint64_t)f->line);
        if (!f->func)
            return false;
    }
    l->nframes += (uint32_t)n;
    s->id = id >> 1; /* a BIGINT in SQL */
    return true;
}

/* Another site with the same names, met by other instructions of the same lines; or 0. */
static uint32_t find_same(const struct pb_live *l, const struct pb_live_site *s)
{
    for (uint32_t i = 1; i < PB_LIVE_SITES; i++)
        if (l->sites[i].key && l->sites[i].id == s->id && &l->sites[i] != s)
            return l->sites[i].same_as ? l->sites[i].same_as : i;
    return 0;
}

/* 0 when there is no room. Called with lock held. */
static uint32_t site_of(struct pb_live *l, const struct pb_walker *w)
{
    struct pb_walk_frame frames[PB_LIVE_DEPTH];
    bool more;
    size_t n = pb_walk(w, frames, PB_LIVE_DEPTH, &more);
    uint64_t key = key_of(frames, n);

    for (uint32_t i = 0; i < PB_LIVE_SITES / 2; i++) {
        uint32_t at = (uint32_t)(key + i) & (PB_LIVE_SITES - 1);
        struct pb_live_site *s = &l->sites[at];

        if (!at)
            continue;
        if (s->key == key)
            return s->same_as ? s->same_as : at;
        if (s->key)
            continue;
        if (!fill_site(l, w, s, frames, n))
            return 0;
        s->key = key;
        s->same_as = find_same(l, s);
        if (s->same_as)
            l->nframes -= s->nframes;
        return s->same_as ? s->same_as : at;
    }
    return 0;
}

/* sign: 1 a block comes, -1 it goes. */
static void count(struct pb_live *l, const struct pb_live_block *b, int sign)
{
    struct pb_live_site *s = &l->sites[b->site];
    double p = (double)b->chance, size = (double)b->size;

    s->live_bytes += sign * size / p;
    s->live_blocks += sign / p;
    s->live_variance += sign * size * size * (1 - p) / (p * p);
    s->samples += (uint64_t)(int64_t)sign;
    s->stale = s->moving = true;
    if (!s->samples) /* nothing is left of rounding either */
        s->live_bytes = s->live_blocks = s->live_variance = 0;
}

static void mark(struct pb_live *l, uintptr_t address, int sign)
{
    _Atomic uint8_t *f = &l->filter[pb_live_hash((void *)address)];
    uint8_t n = atomic_load_explicit(f, memory_order_relaxed);

    if (n != SATURATED)
        atomic_store_explicit(f, (uint8_t)(n + sign), memory_order_relaxed);
}

static void insert(struct pb_live_block *blocks, const struct pb_live_block *b)
{
    uint32_t at = pb_live_hash((void *)b->address) & BLOCKS_MASK;

    while (blocks[at].address)
        at = (at + 1) & BLOCKS_MASK;
    blocks[at] = *b;
}

/* Position of a block, or -1. */
static int64_t find(const struct pb_live *l, uintptr_t address)
{
    uint32_t at = pb_live_hash((void *)address) & BLOCKS_MASK;

    for (; l->blocks[at].address; at = (at + 1) & BLOCKS_MASK)
        if (l->blocks[at].address == address)
            return at;
    return -1;
}

/* Takes an entry out; those behind it that it had pushed on move up. */
static void erase(struct pb_live *l, uint32_t at)
{
    uint32_t gap = at;

    for (at = (at + 1) & BLOCKS_MASK; l->blocks[at].address; at = (at + 1) & BLOCKS_MASK) {
        uint32_t home = pb_live_hash((void *)l->blocks[at].address) & BLOCKS_MASK;

        if (((at - home) & BLOCKS_MASK) >= ((at - gap) & BLOCKS_MASK)) {
            l->blocks[gap] = l->blocks[at];
            gap = at;
        }
    }
    l->blocks[gap].address = 0;
    l->nblocks--;
}

static void drop(struct pb_live *l, uint32_t at)
{
    count(l, &l->blocks[at], -1);
    mark(l, l->blocks[at].address, -1);
    erase(l, at);
}

/* Samples get rarer by half, and those that there are with them. Called with lock held. */
static void thin(struct pb_live *l)
{
    struct pb_live_block *old = l->blocks;

    l->every *= 2;
    memset(l->spare, 0, PB_LIVE_BLOCKS * sizeof *l->spare);
    l->nblocks = 0;
    for (uint32_t i = 0; i < PB_LIVE_BLOCKS; i++) {
        struct pb_live_block b = old[i];

        if (!b.address)
            continue;
        count(l, &b, -1);
        b.chance = (float)pb_chance_of(b.size, l->every);
        if (pb_chance_uniform(&l->random) * (double)old[i].chance >= (double)b.chance) {
            mark(l, b.address, -1);
            continue;
        }
        count(l, &b, 1);
        insert(l->spare, &b);
        l->nblocks++;
    }
    l->blocks = l->spare;
    l->spare = old;
}

void pb_live_add(struct pb_live *l, const struct pb_walker *w, void *block, uint64_t size)
{
    struct pb_live_block b = {.address = (uintptr_t)block, .size = size};
    int64_t old;

    if (!lock(l))
        return;
    /* It was freed by somebody who is not seen. */
    if (pb_live_may_have(l, block) && (old = find(l, b.address)) >= 0)
        drop(l, (uint32_t)old);
    while (l->nblocks >= FULL)
        thin(l);
    b.site = site_of(l, w);
    b.chance = (float)pb_chance_of(size, l->every);
    insert(l->blocks, &b);
    l->nblocks++;
    mark(l, b.address, 1);
    count(l, &b, 1);
    l->sites[b.site].alloc_bytes += (double)size / (double)b.chance;
    l->sites[b.site].alloc_blocks += 1 / (double)b.chance;
    pthread_mutex_unlock(&l->lock);
}

void pb_live_remove(struct pb_live *l, void *block)
{
    int64_t at;

    if (!lock(l))
        return;
    if ((at = find(l, (uintptr_t)block)) >= 0)
        drop(l, (uint32_t)at);
    pthread_mutex_unlock(&l->lock);
}
