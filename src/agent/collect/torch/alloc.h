/*
 * alloc.h - bytes that torch's allocators have given out, counted at their own entries.
 *
 * Owns: two counts, and the functions put where torch calls its allocators.
 * Threads: the counts change in any thread, with or without the GIL; the rest has the GIL.
 * Fails: a count is not known, and why says so in words.
 * Not here: rows; what the process holds beside tensors (memory.c of the collector above).
 *
 * On the CPU torch's allocator is a pair of functions in libc10.so, which calls them through its
 * own table of imports: each call is counted by what malloc says of the block, so that blocks from
 * before are counted out when they go. CUDA's allocator reports each block to torch's profiler,
 * whether that runs or not, and that report is what is counted; torch's statistics are asked now
 * and then, and when the count does not follow them, it is not believed.
 */
#ifndef PB_AGENT_COLLECT_TORCH_ALLOC_H
#define PB_AGENT_COLLECT_TORCH_ALLOC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/collect/import.h"

enum pb_alloc_device { PB_ALLOC_CPU, PB_ALLOC_CUDA, PB_ALLOC_KINDS };

#define PB_ALLOC_GPUS 16
#define PB_ALLOC_UNKNOWN INT64_MIN

/* Changes since counting began, and what there was before it. */
struct pb_alloc_count {
    _Atomic int64_t now, peak; /* bytes since then; the peak since it was last asked for */
    _Atomic int64_t base;      /* PB_ALLOC_UNKNOWN: rows are without */
};

struct pb_alloc {
    struct pb_alloc_count counts[PB_ALLOC_KINDS];
    _Atomic uint32_t device; /* whose bytes the rows tell of */
    const char *why;         /* they are not known; NULL: they are */
    const char *cpu_why;     /* the same, of the CPU's */
    bool looked_for;

    struct pb_import allocate, release, report;
    uint64_t (*usable)(void *); /* bytes of a block of malloc's */

    /* CUDA: what the allocator holds, by device and in all. */
    _Atomic int64_t held[PB_ALLOC_GPUS], held_sum;
    uint64_t again_ns; /* not before, for looking for the library */
    _Atomic bool reported; /* it has reported a block since the count began */
    int silent;      /* looks in a row before its first report */
    int misfits;     /* looks in a row at which the count had not followed the statistics */
    bool disbelieved;
};

struct pb_torch;

void pb_alloc_enter(struct pb_torch *t, uint64_t now);
/* At the end of a step, now and then: compares with CUDA's own statistics, once it is in use. */
void pb_alloc_look(struct pb_torch *t, uint64_t now);
void pb_alloc_leave(struct pb_torch *t);

/* Bytes in tensors now, or PB_ALLOC_UNKNOWN. Any thread. */
static inline int64_t pb_alloc_bytes(const struct pb_alloc *a)
{
    const struct pb_alloc_count *c = &a->counts[a->device];
    int64_t base = atomic_load_explicit(&c->base, memory_order_relaxed);

    return base == PB_ALLOC_UNKNOWN ? base
                                    : base + atomic_load_explicit(&c->now, memory_order_relaxed);
}

#endif
