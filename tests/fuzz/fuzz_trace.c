/* Any bytes as a trace: the reader ends, and its sums are of what it has counted. */
#include <stdint.h>
#include <string.h>

#include "cli/profile/profile_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t pb_fuzz_seed(int index, uint8_t *buf, size_t cap);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pb_trace *t = pb_trace_create(size & 1);
    size_t half = size / 2, events, n;
    const struct pb_trace_op *ops;
    int64_t calls = 0;

    pb_trace_add(t, (const char *)data, half);
    pb_trace_add(t, (const char *)data + half, size - half);
    events = pb_trace_events(t);
    ops = pb_trace_ops(t, &n);
    for (size_t i = 0; i < n; i++)
        calls += ops[i].calls;
    if (calls != (int64_t)events)
        __builtin_trap();
    pb_trace_destroy(t);
    return 0;
}

size_t pb_fuzz_seed(int index, uint8_t *buf, size_t cap)
{
    static const char *const seeds[] = {
        "{\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\",\"ts\":1,\"dur\":9,"
        "\"tid\":1,\"args\":{\"External id\":1,\"Input Dims\":[[1,2]]}},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":2,\"dur\":3,\"tid\":2,"
        "\"args\":{\"External id\":1}}]}",
        "{\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"\\u00e9{\",\"ts\":5e3,"
        "\"dur\":0.5},{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"b\",\"ts\":5e3,\"dur\":1e9}]}",
    };
    size_t n;

    if (index < 0 || (size_t)index >= sizeof seeds / sizeof seeds[0])
        return 0;
    n = strlen(seeds[index]);
    if (n > cap)
        return 0;
    memcpy(buf, seeds[index], n);
    return n;
}
