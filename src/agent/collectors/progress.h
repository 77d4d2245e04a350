/*
 * progress.h - tells whoever looks from outside where this process is: step, phase, module.
 *
 * Owns: the file `progress` of this process (store/progress.h), and which thread has which entry.
 * Threads: an entry belongs to its thread, which stores into it without a lock. Names need the
 * GIL; the rest as said at each function.
 * Fails: never for the caller. Without a file the same stores go to private memory.
 * Not here: who knows where the process is (torch/, comm/).
 *
 * The memory stays at one address for as long as the process lives, since any thread may be about
 * to store into it: the file is mapped over private pages, and private pages over the file.
 */
#ifndef PB_AGENT_COLLECTORS_PROGRESS_H
#define PB_AGENT_COLLECTORS_PROGRESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "store/progress.h"

struct pb_self;

enum { PB_PROGRESS_INDEX = 1 << 13 }; /* a power of two, more than the names that fit */

struct pb_progress_state {
    struct pb_progress_page *page; /* PB_PROGRESS_SIZE bytes; NULL before the first start */
    bool is_file;
    pthread_key_t key; /* entry of a thread */
    bool has_key;
    _Atomic int32_t tids[PB_PROGRESS_THREADS]; /* owner of each entry; 0: free */
    struct pb_progress_thread spare;           /* for threads that find no free entry */
    uint32_t index[PB_PROGRESS_INDEX];         /* names by hash; 0: free */
};

/* A phase that another one has interrupted. */
struct pb_progress_before {
    uint32_t phase;
    uint64_t phase_ns;
};

/* Agent's thread, at each start: gets the memory. False when there is none. */
bool pb_progress_prepare(struct pb_self *self);
/* Takes collect.lock: makes the file if there is none, with the entries of living threads. */
void pb_progress_publish(struct pb_self *self);
/* Called with collect.lock held: private memory again. keep: the file stays for readers. */
void pb_progress_retire(struct pb_self *self, bool keep);
/* In a forked child, async-signal-safe: the file is the parent's. */
void pb_progress_forked(struct pb_self *self);

/* The entry of the calling thread, the same one until it ends. Never NULL after a start. */
struct pb_progress_thread *pb_progress_thread(struct pb_self *self);
/* GIL held: number of a name in the file; 0 when there is no room. */
uint32_t pb_progress_name(struct pb_self *self, const char *s, size_t len);

static inline struct pb_progress_before pb_progress_begin(struct pb_progress_thread *p,
                                                          enum pb_progress_phase phase,
                                                          uint64_t now_ns)
{
    struct pb_progress_before before = {
        atomic_load_explicit(&p->phase, memory_order_relaxed),
        atomic_load_explicit(&p->phase_ns, memory_order_relaxed)};

    atomic_store_explicit(&p->phase_ns, now_ns, memory_order_relaxed);
    atomic_store_explicit(&p->phase, phase, memory_order_relaxed);
    return before;
}

static inline void pb_progress_end(struct pb_progress_thread *p,
                                   const struct pb_progress_before *before)
{
    atomic_store_explicit(&p->phase, before->phase, memory_order_relaxed);
    atomic_store_explicit(&p->phase_ns, before->phase_ns, memory_order_relaxed);
}

/* Sets the innermost module, and returns the one before it, to be set again at the end. */
static inline uint32_t pb_progress_module(struct pb_progress_thread *p, uint32_t name)
{
    uint32_t before = atomic_load_explicit(&p->module, memory_order_relaxed);

    atomic_store_explicit(&p->module, name, memory_order_relaxed);
    return before;
}

#endif
