/*
 * memory.h - bytes that torch's allocators have given out, counted at their own entries.
 *
 * Owns: two counts, and the functions put where torch calls its allocators.
 * Threads: the counts change in any thread, with or without the GIL; the rest has the GIL.
 * Fails: a count is PB_TORCH_UNKNOWN, and `why` says so in words.
 * Not here: what the process holds beside tensors (collectors/memory.c).
 *
 * On the CPU torch's allocator is a pair of functions in libc10.so, which calls them through its
 * own table of imports: each call is counted by what malloc says of the block, so that blocks from
 * before are counted out when they go. CUDA's allocator reports each block to torch's profiler,
 * whether that runs or not, and that report is what is counted; torch's statistics are compared now
 * and then, and when the count does not follow them, it is not used.
 */
#ifndef PB_AGENT_TORCH_MEMORY_MEMORY_H
#define PB_AGENT_TORCH_MEMORY_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/collectors/native/import.h"

struct pb_torch;

enum pb_torch_device { PB_TORCH_CPU, PB_TORCH_CUDA, PB_TORCH_DEVICES };

#define PB_TORCH_GPUS 16
#define PB_TORCH_UNKNOWN INT64_MIN
#define PB_TORCH_MB (1024.0 * 1024.0)

struct pb_torch_memory_count {
    _Atomic int64_t now;  /* bytes since counting began */
    _Atomic int64_t peak; /* highest value of now since it was last read */
    _Atomic int64_t base; /* bytes before counting began; PB_TORCH_UNKNOWN: rows have NULL */
};

struct pb_torch_memory {
    struct pb_torch_memory_count counts[PB_TORCH_DEVICES];
    _Atomic uint32_t device; /* device whose bytes the rows tell; enum pb_torch_device */
    const char *why;         /* reason why bytes are not known; NULL: they are */
    const char *cpu_why;     /* reason why bytes of the CPU are not known; NULL: they are */
    bool searched;           /* for the CPU allocator's functions */

    struct pb_import allocate, release, report;
    uint64_t (*usable)(void *); /* size of a block of malloc's */

    _Atomic int64_t held[PB_TORCH_GPUS], held_sum; /* bytes that CUDA's allocator holds */
    uint64_t search_ns;    /* next search for CUDA's library */
    _Atomic bool reported; /* CUDA's allocator has reported a block since the count began */
    int silent;            /* comparisons in a row before its first report */
    int misfits;           /* comparisons in a row that did not fit */
    bool distrusted;       /* too many of them: the count is not used any more */

    double peak_mb;           /* CUDA's own peak at the last comparison */
    uint64_t check_ns;        /* next comparison */
    const char *reported_why; /* value of why that the status line has */
};

void pb_torch_memory_enter(struct pb_torch *t, uint64_t now);
/* At the end of a step, when it is due: compares with CUDA's own statistics. */
void pb_torch_memory_poll(struct pb_torch *t, uint64_t now);
void pb_torch_memory_leave(struct pb_torch *t);

/* MB, or the NULL of a REAL. */
double pb_torch_mb(int64_t bytes);
double pb_torch_memory_peak(const struct pb_torch *t);
double pb_torch_memory_cached(const struct pb_torch *t);

/* Any thread: bytes in tensors now, or PB_TORCH_UNKNOWN. */
static inline int64_t pb_torch_memory_bytes(const struct pb_torch_memory *m)
{
    const struct pb_torch_memory_count *c = &m->counts[m->device];
    int64_t base = atomic_load_explicit(&c->base, memory_order_relaxed);

    return base == PB_TORCH_UNKNOWN ? base
                                    : base + atomic_load_explicit(&c->now, memory_order_relaxed);
}

/* The change between two such values; PB_TORCH_UNKNOWN when one of them is. */
static inline int64_t pb_torch_delta(int64_t before, int64_t after)
{
    bool known = before != PB_TORCH_UNKNOWN && after != PB_TORCH_UNKNOWN;

    return known ? after - before : PB_TORCH_UNKNOWN;
}

#endif
