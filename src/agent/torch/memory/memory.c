#include "agent/torch/memory/memory.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <unistd.h>

#include "agent/arch/symver.h"
#include "agent/collectors/native/cuda_memory.h"
#include "agent/collectors/native/heap.h"
#include "agent/torch/torch.h"

/* Time between comparisons at the end of a step. Asking CUDA's allocator takes microseconds. */
#define CHECK_NS 20000000u
#define CHECK_CUDA_NS 250000000u
#define C10 "libc10.so"
#define C10_CUDA "libc10_cuda.so"
#define C10_HIP "libc10_hip.so"
#define ALLOCATE "_ZN3c109alloc_cpuEm"
#define RELEASE "_ZN3c108free_cpuEPv"
#define REPORT "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"
/* Comparisons in a row that may fail. */
#define MISFITS_MAX 3
/* c10::DeviceType */
#define DEVICE_CUDA 1
#define DEVICE_HIP 6
/* Time between searches for a library that is not loaded yet. */
#define SEARCH_NS UINT64_C(1000000000)

/* c10::Device */
struct device {
    int8_t type, index;
};

/* The state once more: the functions below get no argument for it. */
static struct pb_torch *here;

static void count(struct pb_torch *t, enum pb_torch_device d, int64_t bytes)
{
    struct pb_torch_thread *th = t->threads.has_key ? pthread_getspecific(t->threads.key) : NULL;
    struct pb_torch_memory_count *c = &t->memory.counts[d];
    int64_t now = atomic_fetch_add_explicit(&c->now, bytes, memory_order_relaxed) + bytes;

    if (now > atomic_load_explicit(&c->peak, memory_order_relaxed))
        atomic_store_explicit(&c->peak, now, memory_order_relaxed);
    if (th)
        th->bytes[d] += bytes;
}

static void *on_allocate(size_t bytes)
{
    struct pb_torch *t = here;
    void *(*original)(size_t) = (void *(*)(size_t))t->memory.allocate.original;
    void *block = original(bytes);

    if (block)
        count(t, PB_TORCH_CPU, (int64_t)t->memory.usable(block));
    return block;
}

static void on_release(void *block)
{
    struct pb_torch *t = here;
    void (*original)(void *) = (void (*)(void *))t->memory.release.original;

    if (block)
        count(t, PB_TORCH_CPU, -(int64_t)t->memory.usable(block));
    original(block);
}

/* Called with the device's allocator locked. */
static void on_report(void *block, int64_t bytes, size_t allocated, size_t held, struct device d)
{
    struct pb_torch *t = here;
    struct pb_torch_memory *m = &t->memory;
    void (*original)(void *, int64_t, size_t, size_t, struct device) =
        (void (*)(void *, int64_t, size_t, size_t, struct device))m->report.original;

    if ((d.type == DEVICE_CUDA || d.type == DEVICE_HIP) && d.index >= 0 &&
        d.index < PB_TORCH_GPUS) {
        int64_t before = atomic_exchange(&m->held[d.index], (int64_t)held);

        count(t, PB_TORCH_CUDA, bytes);
        atomic_store_explicit(&m->reported, true, memory_order_relaxed);
        if (before)
            atomic_fetch_add(&m->held_sum, (int64_t)held - before);
    }
    original(block, bytes, allocated, held, d);
}

/* Blocks are malloc's, and the same library tells their sizes. */
static const char *find_cpu(struct pb_torch_memory *m)
{
    void *align = dlsym(RTLD_DEFAULT, "posix_memalign");
    void *usable = dlsym(RTLD_DEFAULT, "malloc_usable_size");
    Dl_info one, other;

    if (!pb_import_exists(C10, "posix_memalign"))
        return "memory: torch has an allocator of its own";
    if (!align || !usable || !dladdr(align, &one) || !dladdr(usable, &other) ||
        one.dli_fbase != other.dli_fbase)
        return "memory: malloc does not tell the size of a block";
    m->usable = (uint64_t (*)(void *))usable;
    if (!pb_import_find(&m->allocate, C10, ALLOCATE, C10) ||
        !pb_import_find(&m->release, C10, RELEASE, C10))
        return "memory: torch's allocator cannot be counted";
    return NULL;
}

static bool install(struct pb_import *i, void *ours)
{
    return pb_import_is_installed(i) || pb_import_install(i, ours);
}

/* Resident bytes, by /proc. */
static double resident(void)
{
    char text[96], *p = text;
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    uint64_t pages = 0;

    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    while (*p && *p != ' ')
        p++;
    for (p += *p == ' '; *p >= '0' && *p <= '9'; p++)
        pages = pages * 10 + (uint64_t)(*p - '0');
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

/* Bytes that the process had before counting began: malloc's, or else what is resident. */
static double baseline(void)
{
    uint64_t ns;
    pb_heap_info_fn *heap = pb_heap_info_find(&ns);

    return heap ? pb_heap_info_bytes(heap) : resident();
}

/* Begins the count; again where the loader has undone it. */
static void enter_cpu(struct pb_torch *t)
{
    struct pb_torch_memory *m = &t->memory;
    struct pb_torch_memory_count *c = &m->counts[PB_TORCH_CPU];
    bool counted = pb_import_is_installed(&m->allocate) && pb_import_is_installed(&m->release) &&
                   c->base != PB_TORCH_UNKNOWN;

    if (counted) /* as in a forked child */
        return;
    c->base = PB_TORCH_UNKNOWN;
    if (!m->searched)
        m->cpu_why = find_cpu(m);
    m->searched = true;
    if (m->cpu_why)
        return;
    if (!install(&m->release, (void *)on_release) || !install(&m->allocate, (void *)on_allocate)) {
        pb_import_restore(&m->release);
        m->cpu_why = "memory: torch's table of imports cannot be written";
        return;
    }
    c->now = c->peak = 0;
    c->base = (int64_t)baseline();
}

static void enter_cuda(struct pb_torch_memory *m, uint64_t now)
{
    if (!m->report.slot) {
        if (now < m->search_ns)
            return;
        m->search_ns = now + SEARCH_NS;
        if (!pb_import_find(&m->report, C10_CUDA, REPORT, C10) &&
            !pb_import_find(&m->report, C10_HIP, REPORT, C10))
            return;
    }
    if (!pb_import_is_installed(&m->report))
        pb_import_install(&m->report, (void *)on_report);
}

void pb_torch_memory_enter(struct pb_torch *t, uint64_t now)
{
    struct pb_torch_memory *m = &t->memory;

    here = t;
    m->device = PB_TORCH_CPU;
    m->counts[PB_TORCH_CUDA].base = PB_TORCH_UNKNOWN;
    m->misfits = m->silent = 0;
    m->distrusted = false;
    m->reported = false;
    enter_cpu(t);
    enter_cuda(m, now);
    m->why = m->cpu_why;
}

/* The total that torch tells, and our count at the same moment: nothing moved meanwhile. */
static void compare(struct pb_torch_memory *m, int64_t before, int64_t total)
{
    struct pb_torch_memory_count *c = &m->counts[PB_TORCH_CUDA];
    int64_t base;

    if (c->now != before)
        return;
    base = total - before;
    if (c->base == PB_TORCH_UNKNOWN && !m->misfits) {
        c->base = base;
        return;
    }
    if (c->base == base) {
        m->misfits = 0;
        return;
    }
    c->base = base;
    if (++m->misfits >= MISFITS_MAX)
        m->distrusted = true;
}

static void set_held(struct pb_torch_memory *m, int64_t sum)
{
    int seen = 0, last = 0;

    for (int i = 0; i < PB_TORCH_GPUS; i++)
        if (m->held[i]) {
            seen++;
            last = i;
        }
    m->held_sum = sum;
    /* The cache may have been emptied since, which is not reported. */
    if (seen == 1)
        m->held[last] = sum;
}

/* Compares our count with CUDA's own statistics, once it is in use. */
static void check(struct pb_torch *t, uint64_t now)
{
    struct pb_torch_memory *m = &t->memory;
    struct pb_torch_memory_count *c = &m->counts[PB_TORCH_CUDA];
    int64_t before;
    struct pb_cuda_memory stats;

    enter_cpu(t);
    enter_cuda(m, now);
    if (!t->cuda.found && !m->report.slot)
        return;
    before = c->now;
    if (!pb_cuda_memory(&t->self->py, &stats))
        return;
    m->device = PB_TORCH_CUDA;
    m->why = NULL;
    m->silent = m->reported ? 0 : m->silent + 1;
    /* Another backend, cudaMallocAsync for one, has the statistics and makes no report. */
    if (!pb_import_is_installed(&m->report) || m->silent >= MISFITS_MAX)
        m->why = "memory: CUDA's allocator does not report to us";
    else if (!m->distrusted)
        compare(m, before, (int64_t)stats.allocated);
    if (m->distrusted)
        m->why = "memory: what CUDA's allocator reports does not fit its statistics";
    if (m->why)
        c->base = PB_TORCH_UNKNOWN;
    c->peak = c->now;
    t->memory.peak_mb = stats.peak / PB_TORCH_MB;
    set_held(m, (int64_t)stats.reserved);
}

void pb_torch_memory_leave(struct pb_torch *t)
{
    struct pb_torch_memory *m = &t->memory;

    pb_import_restore(&m->allocate);
    pb_import_restore(&m->release);
    pb_import_restore(&m->report);
    for (int i = 0; i < PB_TORCH_DEVICES; i++)
        m->counts[i].base = PB_TORCH_UNKNOWN;
}

double pb_torch_mb(int64_t bytes)
{
    return bytes == PB_TORCH_UNKNOWN ? pb_null_real() : (double)bytes / PB_TORCH_MB;
}

double pb_torch_memory_peak(const struct pb_torch *t)
{
    const struct pb_torch_memory_count *c = &t->memory.counts[t->memory.device];
    double ours;

    if (c->base == PB_TORCH_UNKNOWN)
        return t->memory.device == PB_TORCH_CUDA ? t->memory.peak_mb : pb_null_real();
    ours = (double)(c->base + c->peak) / PB_TORCH_MB;
    return ours > t->memory.peak_mb ? ours : t->memory.peak_mb;
}

double pb_torch_memory_cached(const struct pb_torch *t)
{
    return t->memory.device == PB_TORCH_CUDA ? (double)t->memory.held_sum / PB_TORCH_MB
                                            : pb_null_real();
}

void pb_torch_memory_poll(struct pb_torch *t, uint64_t now)
{
    if (now < t->memory.check_ns)
        return;
    /* Only a thread that works on the GPU can make it ready. */
    pb_cuda_ready(&t->cuda, &t->self->py, now);
    check(t, now);
    t->memory.check_ns = now + (t->memory.device == PB_TORCH_CUDA ? CHECK_CUDA_NS : CHECK_NS);
    if (t->memory.why != t->memory.reported_why) {
        t->memory.reported_why = t->memory.why;
        pb_torch_report_state(t);
    }
}
