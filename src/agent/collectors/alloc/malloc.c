#include "agent/collectors/alloc/malloc.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/arch/symver.h"
#include "agent/collectors/native/imports.h"

#define SLOTS 64 /* counters, so that threads rarely share one; a power of two */
#define LINE 64  /* bytes of a cache line */
#define FAR (INT64_MAX / 2)

/* Bytes left until the next sample. Threads that share one may lose a few bytes, not more. */
struct slot {
    _Atomic int64_t left;
} __attribute__((aligned(LINE)));

/* What the functions below need at every call; they get no argument of ours. */
static struct {
    void *(*get)(size_t size);
    void *(*get_zeroed)(size_t n, size_t size);
    void *(*resize)(void *old, size_t size);
    void (*release)(void *block);
    int (*get_aligned)(void **ret, size_t alignment, size_t size);
    void *(*aligned)(size_t alignment, size_t size);
    void *(*memory_aligned)(size_t alignment, size_t size);
    struct pb_live *live;
    const struct pb_walker *walker;
    _Atomic bool on;
    struct slot slots[SLOTS];
} real;

static inline struct slot *own_slot(void)
{
    return &real.slots[((uintptr_t)__builtin_thread_pointer() >> 12) * 0x9e3779b1u >> 16 &
                       (SLOTS - 1)];
}

static void renew(struct slot *s)
{
    atomic_store_explicit(&s->left, real.on ? pb_live_distance(real.live) : FAR,
                          memory_order_relaxed);
}

static __attribute__((noinline)) void sample(struct slot *s, void *block, size_t size)
{
    int kept = errno;

    renew(s);
    if (block && real.on)
        pb_live_add(real.live, real.walker, block, size);
    errno = kept;
}

/* Counts a block that was given out, and keeps it where a sample is due. */
static inline void *count(void *block, size_t size)
{
    struct slot *s = own_slot();
    int64_t left = atomic_load_explicit(&s->left, memory_order_relaxed) - (int64_t)size;

    atomic_store_explicit(&s->left, left, memory_order_relaxed);
    if (__builtin_expect(left < 0, 0))
        sample(s, block, size);
    return block;
}

static inline void forget(void *block)
{
    if (__builtin_expect(pb_live_may_have(real.live, block), 0))
        pb_live_remove(real.live, block);
}

static void *our_malloc(size_t size)
{
    return count(real.get(size), size);
}

static void *our_calloc(size_t n, size_t size)
{
    void *block = real.get_zeroed(n, size);

    return block ? count(block, n * size) : NULL;
}

/* Before: another thread may get its address. If there is no memory, a sample is lost. */
static void *our_realloc(void *old, size_t size)
{
    if (old)
        forget(old);
    return count(real.resize(old, size), size);
}

static void our_free(void *block)
{
    if (block)
        forget(block);
    real.release(block);
}

static int our_posix_memalign(void **ret, size_t alignment, size_t size)
{
    int rc = real.get_aligned(ret, alignment, size);

    if (rc == 0)
        count(*ret, size);
    return rc;
}

static void *our_aligned_alloc(size_t alignment, size_t size)
{
    return count(real.aligned(alignment, size), size);
}

static void *our_memalign(size_t alignment, size_t size)
{
    return count(real.memory_aligned(alignment, size), size);
}

enum { MALLOC, CALLOC, REALLOC, FREE, POSIX_MEMALIGN, ALIGNED_ALLOC, MEMALIGN, NSWAPS };

/* Filled once, at the first installation. */
static struct {
    struct pb_import_swap swaps[NSWAPS];
    struct pb_imports imports;
} table = {
    .swaps = {
        [MALLOC] = {"malloc", NULL, NULL, (void *)our_malloc},
        [CALLOC] = {"calloc", NULL, NULL, (void *)our_calloc},
        [REALLOC] = {"realloc", NULL, NULL, (void *)our_realloc},
        [FREE] = {"free", NULL, NULL, (void *)our_free},
        [POSIX_MEMALIGN] = {"posix_memalign", NULL, NULL, (void *)our_posix_memalign},
        [ALIGNED_ALLOC] = {"aligned_alloc", NULL, NULL, (void *)our_aligned_alloc},
        [MEMALIGN] = {"memalign", NULL, NULL, (void *)our_memalign},
    },
};

static bool find_originals(void)
{
    for (int i = 0; i < NSWAPS; i++) {
        struct pb_import_swap *swap = &table.swaps[i];

        swap->original = dlsym(RTLD_DEFAULT, swap->symbol);
        swap->target = pb_imports_target(swap->original, swap->symbol);
    }
    real.get = (void *(*)(size_t))table.swaps[MALLOC].target;
    real.get_zeroed = (void *(*)(size_t, size_t))table.swaps[CALLOC].target;
    real.resize = (void *(*)(void *, size_t))table.swaps[REALLOC].target;
    real.release = (void (*)(void *))table.swaps[FREE].target;
    real.get_aligned = (int (*)(void **, size_t, size_t))table.swaps[POSIX_MEMALIGN].target;
    real.aligned = (void *(*)(size_t, size_t))table.swaps[ALIGNED_ALLOC].target;
    real.memory_aligned = (void *(*)(size_t, size_t))table.swaps[MEMALIGN].target;
    return real.get && real.get_zeroed && real.resize && real.release;
}

int pb_malloc_install(const struct pb_py *py, struct pb_live *l, const struct pb_walker *w,
                      struct pb_err *err)
{
    real.live = l;
    real.walker = w;
    if (!real.get) {
        if (!find_originals())
            return pb_err_set(err, PB_FAIL, "this C library has no malloc that could be found");
        for (int i = 0; i < SLOTS; i++)
            real.slots[i].left = FAR;
        table.imports = (struct pb_imports){
            .swaps = table.swaps,
            .nswaps = NSWAPS,
            .spared = {(void *)our_malloc, (void *)getpid, table.swaps[MALLOC].target,
                       dlsym(RTLD_DEFAULT, "__tls_get_addr"), (void *)py->PyMem_RawMalloc},
        };
    }
    if (!pb_imports_install(&table.imports))
        return pb_err_set(err, PB_FAIL, "no library calls malloc in a way that can be counted");
    return 0;
}

void pb_malloc_follow(void)
{
    if (real.on && pb_imports_are_stale(&table.imports))
        pb_imports_install(&table.imports);
}

void pb_malloc_remove(void)
{
    pb_malloc_switch(false);
    if (real.get)
        pb_imports_restore(&table.imports);
}

void pb_malloc_restart(void)
{
    for (int i = 0; i < SLOTS; i++)
        renew(&real.slots[i]);
}

void pb_malloc_switch(bool on)
{
    real.on = on;
    for (int i = 0; i < SLOTS && !on; i++)
        atomic_store_explicit(&real.slots[i].left, FAR, memory_order_relaxed);
}
