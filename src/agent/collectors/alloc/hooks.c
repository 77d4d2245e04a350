#include "agent/collectors/alloc/hooks.h"

#include <stdatomic.h>

#include "agent/arch/symver.h"

#define SMALL 512  /* pymalloc serves up to this size itself */
#define SLOTS 64   /* counters, so that threads without a GIL do not share one; a power of two */
#define LINE 64    /* bytes of a cache line */
#define FAR (INT64_MAX / 2)

/* Bytes left until the next sample. Threads that share one may lose a few bytes, not more. */
struct slot {
    _Atomic int64_t left;
    _Atomic uintptr_t owner; /* thread that has asked the raw allocator for a sample */
    uint64_t size;           /* bytes that it wanted; the owner's */
} __attribute__((aligned(LINE)));

/*
 * What hooks need at every call. They get no argument of ours, as the context pointer stays the
 * allocator's, and three dependent loads by way of pb_self() would be most of their cost.
 */
static struct {
    struct pb_py_allocator old[PB_PY_DOMAINS];
    struct pb_live *live;
    const struct pb_walker *walker;
    uintptr_t mask;     /* bits of the slots that are in use */
    bool nested;        /* large blocks of the others pass the raw allocator */
    _Atomic bool known; /* `old` is filled */
    _Atomic bool on;
    _Atomic unsigned seen; /* trial: calls of the raw hooks */
    _Atomic bool trial;
    struct slot slots[SLOTS];
} hooks;

static inline uintptr_t self_of(void)
{
    return (uintptr_t)__builtin_thread_pointer();
}

static inline struct slot *slot_of(uintptr_t self)
{
    return &hooks.slots[(self >> 12) * 0x9e3779b1u >> 16 & hooks.mask];
}

/* True: a sample is due. */
static inline bool count(struct slot *s, size_t size)
{
    int64_t left = atomic_load_explicit(&s->left, memory_order_relaxed) - (int64_t)size;

    atomic_store_explicit(&s->left, left, memory_order_relaxed);
    return __builtin_expect(left < 0, 0);
}

static void renew(struct slot *s)
{
    int64_t left = hooks.on ? pb_live_distance(hooks.live) : FAR;

    atomic_store_explicit(&s->left, left, memory_order_relaxed);
}

/* Keeps a sample, if the time for one has come for this thread. */
static __attribute__((noinline)) void sample(struct slot *s, void *block, size_t size)
{
    uintptr_t owner = atomic_load_explicit(&s->owner, memory_order_relaxed);

    if (owner && owner != self_of())
        return; /* somebody else's, who is about to take it */
    if (owner) {
        size = s->size;
        atomic_store_explicit(&s->owner, 0, memory_order_relaxed);
    }
    renew(s);
    if (block && hooks.on)
        pb_live_add(hooks.live, hooks.walker, block, size);
}

static inline void forget(void *block)
{
    if (__builtin_expect(pb_live_may_have(hooks.live, block), 0))
        pb_live_remove(hooks.live, block);
}

static void *raw_malloc(void *ctx, size_t size)
{
    struct slot *s = slot_of(self_of());
    bool due = count(s, size);
    void *block = hooks.old[PB_PY_RAW].get(ctx, size);

    if (due)
        sample(s, block, size);
    if (__builtin_expect(hooks.trial, 0))
        hooks.seen++;
    return block;
}

static void *raw_calloc(void *ctx, size_t n, size_t size)
{
    struct slot *s = slot_of(self_of());
    bool due = count(s, n * size);
    void *block = hooks.old[PB_PY_RAW].get_zeroed(ctx, n, size);

    if (due)
        sample(s, block, n * size);
    return block;
}

static void *raw_realloc(void *ctx, void *old, size_t size)
{
    struct slot *s = slot_of(self_of());
    bool due = count(s, size);
    void *block;

    /* Before: another thread may get its address. If there is no memory, a sample is lost. */
    if (old)
        forget(old);
    block = hooks.old[PB_PY_RAW].resize(ctx, old, size);
    if (due)
        sample(s, block, size);
    return block;
}

static void raw_free(void *ctx, void *block)
{
    forget(block);
    if (__builtin_expect(hooks.trial, 0))
        hooks.seen++;
    hooks.old[PB_PY_RAW].release(ctx, block);
}

/* The next block of this thread that the raw allocator gives out is a sample of so many bytes. */
static bool ask(struct slot *s, size_t size)
{
    uintptr_t none = 0;

    if (!hooks.on || !atomic_compare_exchange_strong(&s->owner, &none, self_of())) {
        if (!hooks.on)
            renew(s);
        return false;
    }
    s->size = size;
    return true;
}

/* It did not pass there after all. */
static void unask(struct slot *s)
{
    if (atomic_load_explicit(&s->owner, memory_order_relaxed) == self_of()) {
        atomic_store_explicit(&s->owner, 0, memory_order_relaxed);
        renew(s);
    }
}

static __attribute__((noinline)) void *sampled(int domain, void *ctx, struct slot *s, void *old,
                                               size_t size, bool zeroed)
{
    const struct pb_py_allocator *a = &hooks.old[domain];
    bool asked = hooks.nested && ask(s, size);
    size_t wanted = asked ? SMALL + 1 : size;
    void *block = old      ? a->resize(ctx, old, wanted)
                  : zeroed ? a->get_zeroed(ctx, 1, wanted)
                           : a->get(ctx, wanted);

    if (asked)
        unask(s);
    else if (!hooks.nested)
        sample(s, block, size);
    return block;
}

/*
 * In the usual case, pymalloc with a GIL, there is one counter, and blocks that the raw allocator
 * will see are counted there: `lean`, known to the compiler.
 */
static inline struct slot *find_slot(bool lean)
{
    return lean ? &hooks.slots[0] : slot_of(self_of());
}

static inline bool is_counted(size_t size, bool lean)
{
    return size <= SMALL || (!lean && !hooks.nested);
}

static inline __attribute__((always_inline)) void *any_malloc(int domain, bool lean, void *ctx,
                                                              size_t size)
{
    struct slot *s = find_slot(lean);

    if (is_counted(size, lean) && count(s, size))
        return sampled(domain, ctx, s, NULL, size, false);
    return hooks.old[domain].get(ctx, size);
}

static inline __attribute__((always_inline)) void *any_calloc(int domain, bool lean, void *ctx,
                                                              size_t n, size_t size)
{
    struct slot *s = find_slot(lean);
    size_t bytes;

    if (!__builtin_mul_overflow(n, size, &bytes) && is_counted(bytes, lean) && count(s, bytes))
        return sampled(domain, ctx, s, NULL, bytes, true);
    return hooks.old[domain].get_zeroed(ctx, n, size);
}

static inline __attribute__((always_inline)) void *any_realloc(int domain, bool lean, void *ctx,
                                                               void *old, size_t size)
{
    struct slot *s = find_slot(lean);

    if (!lean && old && !hooks.nested)
        forget(old);
    if (is_counted(size, lean) && count(s, size))
        return sampled(domain, ctx, s, old, size, false);
    return hooks.old[domain].resize(ctx, old, size);
}

#define DOMAIN(name, number, lean)                                                                 \
    static void *name##_malloc(void *ctx, size_t size)                                             \
    {                                                                                              \
        return any_malloc(number, lean, ctx, size);                                                \
    }                                                                                              \
    static void *name##_calloc(void *ctx, size_t n, size_t size)                                   \
    {                                                                                              \
        return any_calloc(number, lean, ctx, n, size);                                             \
    }                                                                                              \
    static void *name##_realloc(void *ctx, void *old, size_t size)                                 \
    {                                                                                              \
        return any_realloc(number, lean, ctx, old, size);                                          \
    }

#define FREE(name, number)                                                                         \
    static void name##_free(void *ctx, void *block)                                                \
    {                                                                                              \
        forget(block);                                                                             \
        hooks.old[number].release(ctx, block);                                                     \
    }

DOMAIN(mem, PB_PY_MEM, false)
DOMAIN(obj, PB_PY_OBJ, false)
DOMAIN(lean_mem, PB_PY_MEM, true)
DOMAIN(lean_obj, PB_PY_OBJ, true)
FREE(mem, PB_PY_MEM)
FREE(obj, PB_PY_OBJ)

static const struct pb_py_allocator ours[PB_PY_DOMAINS] = {
    [PB_PY_RAW] = {NULL, raw_malloc, raw_calloc, raw_realloc, raw_free},
    [PB_PY_MEM] = {NULL, mem_malloc, mem_calloc, mem_realloc, mem_free},
    [PB_PY_OBJ] = {NULL, obj_malloc, obj_calloc, obj_realloc, obj_free},
};
static const struct pb_py_allocator ours_lean[PB_PY_DOMAINS] = {
    [PB_PY_RAW] = {NULL, raw_malloc, raw_calloc, raw_realloc, raw_free},
    [PB_PY_MEM] = {NULL, lean_mem_malloc, lean_mem_calloc, lean_mem_realloc, NULL},
    [PB_PY_OBJ] = {NULL, lean_obj_malloc, lean_obj_calloc, lean_obj_realloc, NULL},
};

static void put(const struct pb_py *py, int domain)
{
    struct pb_py_allocator a = hooks.nested && !hooks.mask ? ours_lean[domain] : ours[domain];

    a.ctx = hooks.old[domain].ctx;
    if (domain != PB_PY_RAW && hooks.nested)
        a.release = hooks.old[domain].release;
    py->PyMem_SetAllocator(domain, &a);
}

/* Whether the raw hooks see a large block of another allocator come and go. */
static bool try_object(const struct pb_py *py, size_t size)
{
    void *block;

    hooks.seen = 0;
    hooks.trial = true;
    block = py->PyObject_Malloc(size);
    py->PyObject_Free(block);
    hooks.trial = false;
    return block && hooks.seen >= 2;
}

bool pb_hooks_are_called(const struct pb_py *py)
{
    void *block;

    hooks.seen = 0;
    hooks.trial = true;
    block = py->PyMem_RawMalloc(1);
    py->PyMem_RawFree(block);
    hooks.trial = false;
    return hooks.seen >= 2;
}

int pb_hooks_install(const struct pb_py *py, struct pb_live *l, const struct pb_walker *w,
                     struct pb_err *err)
{
    if (!py->PyMem_GetAllocator || !py->PyMem_SetAllocator || !py->PyMem_RawMalloc ||
        !py->PyMem_RawFree || !py->PyObject_Malloc)
        return pb_err_set(err, PB_FAIL, "this Python has no hooks for its allocators");
    hooks.live = l;
    hooks.walker = w;
    hooks.mask = py->free_threaded ? SLOTS - 1 : 0;
    /* They may still be behind another tool's: then that is as good. */
    if (hooks.known && pb_hooks_are_called(py))
        return 0;
    for (int i = 0; i < PB_PY_DOMAINS; i++)
        py->PyMem_GetAllocator(i, &hooks.old[i]);
    for (int i = 0; i < SLOTS; i++)
        hooks.slots[i].left = FAR;
    hooks.known = true;
    put(py, PB_PY_RAW);
    if (!pb_hooks_are_called(py))
        return pb_err_set(err, PB_FAIL, "the raw allocator took no hook");
    hooks.nested = try_object(py, SMALL + 1);
    put(py, PB_PY_MEM);
    put(py, PB_PY_OBJ);
    return 0;
}

void pb_hooks_remove(const struct pb_py *py)
{
    struct pb_py_allocator now;

    pb_hooks_switch(false);
    for (int i = PB_PY_DOMAINS - 1; hooks.known && i >= 0; i--) {
        py->PyMem_GetAllocator(i, &now);
        if (now.get == ours[i].get || now.get == ours_lean[i].get)
            py->PyMem_SetAllocator(i, &hooks.old[i]);
    }
}

void pb_hooks_restart(void)
{
    for (uintptr_t i = 0; i <= hooks.mask; i++)
        atomic_store_explicit(&hooks.slots[i].owner, 0, memory_order_relaxed);
    for (uintptr_t i = 0; i <= hooks.mask; i++)
        renew(&hooks.slots[i]);
}

void pb_hooks_switch(bool on)
{
    hooks.on = on;
    for (int i = 0; i < SLOTS && !on; i++) {
        atomic_store_explicit(&hooks.slots[i].left, FAR, memory_order_relaxed);
        atomic_store_explicit(&hooks.slots[i].owner, 0, memory_order_relaxed);
    }
}
