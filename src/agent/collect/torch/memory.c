/* Memory of the process: what CUDA's allocator or malloc has given out, or what is resident. */
#include <fcntl.h>
#include <unistd.h>

#include "agent/collect/cuda.h"
#include "agent/collect/torch/torch.h"
#include "base/clock.h"

#define MB (1024.0 * 1024.0)
#define SMOOTH 0.1
/* Between looks at the end of a step: a look costs some microseconds. */
#define LOOK_NS 20000000u
#define LOOK_CUDA_NS 250000000u
#define RARELY 4000 /* times what it costs, at least */

static double given_mb(const struct pb_torch *t)
{
    return pb_heap_info_bytes(t->heap) / MB;
}

void pb_torch_memory_enter(struct pb_torch *t)
{
    uint64_t ns;

    t->heap = pb_heap_info_find(&ns);
    t->weigh_cost_ns = t->heap ? (double)ns : 0;
}

static double resident_mb(int fd)
{
    char text[96], *p = text;
    uint64_t pages = 0;
    ssize_t n = fd >= 0 ? pread(fd, text, sizeof text - 1, 0) : 0;

    text[n > 0 ? n : 0] = '\0';
    while (*p && *p != ' ')
        p++;
    for (p += *p == ' '; *p >= '0' && *p <= '9'; p++)
        pages = pages * 10 + (uint64_t)(*p - '0');
    return pages ? (double)pages * (double)sysconf(_SC_PAGESIZE) / MB : pb_null_real();
}

static int open_statm(void)
{
    return open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
}

/* What one look costs. A thread that lost its processor meanwhile makes it seem long, once. */
static void take_cost(struct pb_torch *t, uint64_t took)
{
    double most = 3 * t->weigh_cost_ns, ns = (double)took;

    if (t->weigh_cost_ns > 0 && ns > most)
        ns = most;
    t->weigh_cost_ns += (t->weigh_cost_ns > 0 ? SMOOTH : 1.0) * (ns - t->weigh_cost_ns);
}

/* The descriptor is kept for one step only: the program may close what it does not know. */
double pb_torch_memory_now(struct pb_torch *t)
{
    uint64_t began = pb_clock_ns();
    struct pb_cuda_memory m;
    double v;

    if (t->cuda.found && pb_cuda_memory(&t->self->py, &m)) {
        v = m.allocated / MB;
    } else if (t->heap) {
        v = given_mb(t);
    } else {
        if (t->statm < 0)
            t->statm = open_statm();
        v = resident_mb(t->statm);
    }
    take_cost(t, pb_clock_ns() - began);
    return v;
}

void pb_torch_weighing_ends(struct pb_torch *t)
{
    t->weighing = false;
    if (t->statm >= 0)
        close(t->statm);
    t->statm = -1;
}

void pb_torch_memory_look(struct pb_torch *t, uint64_t now)
{
    const struct pb_py *py = &t->self->py;
    struct pb_cuda_memory m;
    uint64_t began, rest;
    int fd;

    if (now < t->memory_due_ns)
        return;
    /* Ready is a thread that works on the GPU; its memory is known to all of them. */
    pb_cuda_ready(&t->cuda, py, now);
    if (t->cuda.found && pb_cuda_memory(py, &m)) {
        t->memory_due_ns = now + LOOK_CUDA_NS;
        t->memory_mb = m.allocated / MB;
        t->memory_peak_mb = m.most / MB;
        t->cached_mb = m.reserved / MB;
        return;
    }
    began = pb_clock_ns();
    fd = t->heap ? -1 : open_statm();
    t->memory_mb = t->heap ? given_mb(t) : resident_mb(fd);
    t->cached_mb = pb_null_real();
    if (!(t->memory_peak_mb >= t->memory_mb))
        t->memory_peak_mb = t->memory_mb;
    if (fd >= 0)
        close(fd);
    take_cost(t, pb_clock_ns() - began);
    rest = (uint64_t)(RARELY * t->weigh_cost_ns);
    t->memory_due_ns = now + (rest > LOOK_NS ? rest : LOOK_NS);
}
