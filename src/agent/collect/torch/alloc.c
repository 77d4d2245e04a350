#include "agent/collect/torch/alloc.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>

#include "agent/arch/symver.h"
#include "agent/collect/cuda.h"
#include "agent/collect/torch/torch.h"

#define C10 "libc10.so"
#define C10_CUDA "libc10_cuda.so"
#define C10_HIP "libc10_hip.so"
#define ALLOCATE "_ZN3c109alloc_cpuEm"
#define RELEASE "_ZN3c108free_cpuEPv"
#define REPORT "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"
#define MISFITS_MAX 3
#define DEVICE_CUDA 1
#define DEVICE_HIP 6
#define AGAIN_NS UINT64_C(1000000000) /* a library that is not loaded yet is looked for so often */

/* c10::Device */
struct device {
    int8_t type, index;
};

/* The state once more: the functions below get no argument for it. */
static struct pb_torch *here;

static void count(struct pb_torch *t, enum pb_alloc_device d, int64_t bytes)
{
    struct pb_torch_thread *th = t->has_key ? pthread_getspecific(t->key) : NULL;
    struct pb_alloc_count *c = &t->alloc.counts[d];
    int64_t now = atomic_fetch_add_explicit(&c->now, bytes, memory_order_relaxed) + bytes;

    if (now > atomic_load_explicit(&c->peak, memory_order_relaxed))
        atomic_store_explicit(&c->peak, now, memory_order_relaxed);
    if (th)
        th->bytes[d] += bytes;
}

static void *on_allocate(size_t bytes)
{
    struct pb_torch *t = here;
    void *(*was)(size_t) = (void *(*)(size_t))t->alloc.allocate.was;
    void *block = was(bytes);

    if (block)
        count(t, PB_ALLOC_CPU, (int64_t)t->alloc.usable(block));
    return block;
}

static void on_release(void *block)
{
    struct pb_torch *t = here;
    void (*was)(void *) = (void (*)(void *))t->alloc.release.was;

    if (block)
        count(t, PB_ALLOC_CPU, -(int64_t)t->alloc.usable(block));
    was(block);
}

/* Called with the device's allocator locked. */
static void on_report(void *block, int64_t bytes, size_t allocated, size_t held, struct device d)
{
    struct pb_torch *t = here;
    struct pb_alloc *a = &t->alloc;
    void (*was)(void *, int64_t, size_t, size_t, struct device) =
        (void (*)(void *, int64_t, size_t, size_t, struct device))a->report.was;

    if ((d.type == DEVICE_CUDA || d.type == DEVICE_HIP) && d.index >= 0 &&
        d.index < PB_ALLOC_GPUS) {
        int64_t before = atomic_exchange(&a->held[d.index], (int64_t)held);

        count(t, PB_ALLOC_CUDA, bytes);
        atomic_store_explicit(&a->reported, true, memory_order_relaxed);
        if (before)
            atomic_fetch_add(&a->held_sum, (int64_t)held - before);
    }
    was(block, bytes, allocated, held, d);
}

/* Blocks are malloc's, and the same library tells their sizes. */
static const char *find_cpu(struct pb_alloc *a)
{
    void *align = dlsym(RTLD_DEFAULT, "posix_memalign");
    void *usable = dlsym(RTLD_DEFAULT, "malloc_usable_size");
    Dl_info one, other;

    if (!pb_import_exists(C10, "posix_memalign"))
        return "memory: torch has an allocator of its own";
    if (!align || !usable || !dladdr(align, &one) || !dladdr(usable, &other) ||
        one.dli_fbase != other.dli_fbase)
        return "memory: malloc does not tell the size of a block";
    a->usable = (uint64_t (*)(void *))usable;
    if (!pb_import_find(&a->allocate, C10, ALLOCATE, C10) ||
        !pb_import_find(&a->release, C10, RELEASE, C10))
        return "memory: torch's allocator cannot be counted";
    return NULL;
}

static bool put(struct pb_import *i, void *ours)
{
    return pb_import_is_in(i) || pb_import_put(i, ours);
}

/* The count begins here. A block that goes in between the two is nobody's. */
static void enter_cpu(struct pb_torch *t)
{
    struct pb_alloc *a = &t->alloc;
    struct pb_alloc_count *c = &a->counts[PB_ALLOC_CPU];
    bool counted = pb_import_is_in(&a->allocate) && pb_import_is_in(&a->release) &&
                   c->base != PB_ALLOC_UNKNOWN;

    if (counted) /* as in a forked child */
        return;
    c->base = PB_ALLOC_UNKNOWN;
    if (!a->looked_for)
        a->cpu_why = find_cpu(a);
    a->looked_for = true;
    if (a->cpu_why)
        return;
    if (!put(&a->release, (void *)on_release) || !put(&a->allocate, (void *)on_allocate)) {
        pb_import_take_back(&a->release);
        a->cpu_why = "memory: torch's table of imports is not to be written";
        return;
    }
    c->now = c->peak = 0;
    c->base = (int64_t)pb_torch_memory_before();
}

static void enter_cuda(struct pb_alloc *a, uint64_t now)
{
    if (!a->report.slot) {
        if (now < a->again_ns)
            return;
        a->again_ns = now + AGAIN_NS;
        if (!pb_import_find(&a->report, C10_CUDA, REPORT, C10) &&
            !pb_import_find(&a->report, C10_HIP, REPORT, C10))
            return;
    }
    if (!pb_import_is_in(&a->report))
        pb_import_put(&a->report, (void *)on_report);
}

void pb_alloc_enter(struct pb_torch *t, uint64_t now)
{
    struct pb_alloc *a = &t->alloc;

    here = t;
    a->device = PB_ALLOC_CPU;
    a->counts[PB_ALLOC_CUDA].base = PB_ALLOC_UNKNOWN;
    a->misfits = a->silent = 0;
    a->disbelieved = false;
    a->reported = false;
    enter_cpu(t);
    enter_cuda(a, now);
    a->why = a->cpu_why;
}

/* The total that torch tells, and our count at the same moment: nothing moved meanwhile. */
static void compare(struct pb_alloc *a, int64_t before, int64_t total)
{
    struct pb_alloc_count *c = &a->counts[PB_ALLOC_CUDA];
    int64_t base;

    if (c->now != before)
        return;
    base = total - before;
    if (c->base == PB_ALLOC_UNKNOWN && !a->misfits) {
        c->base = base;
        return;
    }
    if (c->base == base) {
        a->misfits = 0;
        return;
    }
    c->base = base;
    if (++a->misfits >= MISFITS_MAX)
        a->disbelieved = true;
}

static void take_held(struct pb_alloc *a, int64_t sum)
{
    int seen = 0, last = 0;

    for (int i = 0; i < PB_ALLOC_GPUS; i++)
        if (a->held[i]) {
            seen++;
            last = i;
        }
    a->held_sum = sum;
    /* The cache may have been emptied since, which is not reported. */
    if (seen == 1)
        a->held[last] = sum;
}

void pb_alloc_look(struct pb_torch *t, uint64_t now)
{
    struct pb_alloc *a = &t->alloc;
    struct pb_alloc_count *c = &a->counts[PB_ALLOC_CUDA];
    int64_t before;
    struct pb_cuda_memory m;

    enter_cpu(t); /* what the loader has undone */
    enter_cuda(a, now);
    if (!t->cuda.found && !a->report.slot)
        return;
    before = c->now;
    if (!pb_cuda_memory(&t->self->py, &m))
        return;
    a->device = PB_ALLOC_CUDA;
    a->why = NULL;
    a->silent = a->reported ? 0 : a->silent + 1;
    /* Another backend, cudaMallocAsync for one, has the statistics and makes no report. */
    if (!pb_import_is_in(&a->report) || a->silent >= MISFITS_MAX)
        a->why = "memory: CUDA's allocator does not report to us";
    else if (!a->disbelieved)
        compare(a, before, (int64_t)m.allocated);
    if (a->disbelieved)
        a->why = "memory: what CUDA's allocator reports does not fit its statistics";
    if (a->why)
        c->base = PB_ALLOC_UNKNOWN;
    c->peak = c->now;
    t->memory_peak_mb = m.most / PB_TORCH_MB;
    take_held(a, (int64_t)m.reserved);
}

void pb_alloc_leave(struct pb_torch *t)
{
    struct pb_alloc *a = &t->alloc;

    pb_import_take_back(&a->allocate);
    pb_import_take_back(&a->release);
    pb_import_take_back(&a->report);
    for (int i = 0; i < PB_ALLOC_KINDS; i++)
        a->counts[i].base = PB_ALLOC_UNKNOWN;
}
