/* What is in tensors, as rows tell it. */
#include <fcntl.h>
#include <unistd.h>

#include "agent/collect/heap.h"
#include "agent/collect/torch/torch.h"
#include "base/clock.h"

/* Between looks at the end of a step. Asking CUDA's allocator takes some microseconds. */
#define LOOK_NS 20000000u
#define LOOK_CUDA_NS 250000000u

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

double pb_torch_memory_before(void)
{
    uint64_t ns;
    pb_heap_info_fn *heap = pb_heap_info_find(&ns);

    return heap ? pb_heap_info_bytes(heap) : resident();
}

double pb_torch_mb(int64_t bytes)
{
    return bytes == PB_ALLOC_UNKNOWN ? pb_null_real() : (double)bytes / PB_TORCH_MB;
}

double pb_torch_memory_peak(const struct pb_torch *t)
{
    const struct pb_alloc_count *c = &t->alloc.counts[t->alloc.device];
    double ours;

    if (c->base == PB_ALLOC_UNKNOWN)
        return t->alloc.device == PB_ALLOC_CUDA ? t->memory_peak_mb : pb_null_real();
    ours = (double)(c->base + c->peak) / PB_TORCH_MB;
    return ours > t->memory_peak_mb ? ours : t->memory_peak_mb;
}

double pb_torch_memory_cached(const struct pb_torch *t)
{
    return t->alloc.device == PB_ALLOC_CUDA ? (double)t->alloc.held_sum / PB_TORCH_MB
                                            : pb_null_real();
}

void pb_torch_memory_look(struct pb_torch *t, uint64_t now)
{
    if (now < t->memory_due_ns)
        return;
    /* Ready is a thread that works on the GPU; its memory is known to all of them. */
    pb_cuda_ready(&t->cuda, &t->self->py, now);
    pb_alloc_look(t, now);
    t->memory_due_ns = now + (t->alloc.device == PB_ALLOC_CUDA ? LOOK_CUDA_NS : LOOK_NS);
    if (t->alloc.why != t->memory_said) {
        t->memory_said = t->alloc.why;
        pb_torch_say(t);
    }
}
