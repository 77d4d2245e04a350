/*
 * As much of torch's CUDA allocator as the agent counts: every block is reported to torch's
 * profiler, through the library's own table of imports. Built as libc10_cuda.so.
 */
#include <stdint.h>
#include <stddef.h>

struct device {
    int8_t type, index;
};

void report(void *block, int64_t bytes, size_t allocated, size_t held, struct device d)
    __asm__("_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");

static int64_t allocated = 100 << 20, peak = 100 << 20, held = 128 << 20;
static int silent;

/* Less than zero: that many are given back. */
void fake_allocate(int64_t bytes);
void fake_allocate(int64_t bytes)
{
    static const struct device cuda = {1, 0};

    allocated += bytes;
    if (allocated > peak)
        peak = allocated;
    if (allocated > held)
        held = allocated;
    if (!silent)
        report(&allocated, bytes, (size_t)allocated, (size_t)held, cuda);
}

/* From then on nothing is reported, as with an allocator of another kind. */
void fake_silent(int on);
void fake_silent(int on)
{
    silent = on;
}

int64_t fake_allocated(void);
int64_t fake_allocated(void)
{
    return allocated;
}

int64_t fake_peak(void);
int64_t fake_peak(void)
{
    return peak;
}

int64_t fake_held(void);
int64_t fake_held(void)
{
    return held;
}
