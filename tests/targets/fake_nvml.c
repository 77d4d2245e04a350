/*
 * A stand-in for libnvidia-ml.so.1: two GPUs with made-up numbers. GPU 0 tells everything; GPU 1
 * is an older one that answers "not supported" to most questions. FAKE_NVML_PID is the process
 * that is said to use GPU 0; FAKE_NVML=none has no GPU, =broken no driver.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NOT_SUPPORTED = 3, NO_DRIVER = 9, TIMED_OUT = 10, GPU_BYTES = 16 };

struct gpu {
    int index;
};

static struct gpu gpus[2] = {{0}, {1}};
static unsigned long long asked; /* grows with each question for a counter */

static int is(const char *what)
{
    const char *mode = getenv("FAKE_NVML");

    return mode && strcmp(mode, what) == 0;
}

int nvmlInit_v2(void) { return is("broken") ? NO_DRIVER : 0; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int e) { return e == NO_DRIVER ? "Driver Not Loaded" : "Odd"; }

int nvmlDeviceGetCount_v2(unsigned *n)
{
    *n = is("none") ? 0 : 2;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned i, struct gpu **ret)
{
    *ret = &gpus[i];
    return 0;
}

static int text(char *buf, unsigned cap, const char *s)
{
    snprintf(buf, cap, "%s", s);
    return 0;
}

int nvmlSystemGetDriverVersion(char *buf, unsigned cap) { return text(buf, cap, "570.1"); }

int nvmlSystemGetCudaDriverVersion_v2(int *v)
{
    *v = 12080;
    return 0;
}

int nvmlDeviceGetName(struct gpu *g, char *buf, unsigned cap)
{
    return text(buf, cap, g->index ? "Fake V100" : "Fake H200");
}

int nvmlDeviceGetUUID(struct gpu *g, char *buf, unsigned cap)
{
    return text(buf, cap, g->index ? "GPU-b" : "GPU-a");
}

int nvmlDeviceGetMemoryInfo(struct gpu *g, unsigned long long *v)
{
    v[0] = (16ull + 125ull * !g->index) << 30;
    v[1] = v[0] - (2ull << 30);
    v[2] = 2ull << 30;
    return 0;
}

struct memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

int nvmlDeviceGetMemoryInfo_v2(struct gpu *g, struct memory_v2 *m)
{
    if (g->index || m->version != 0x02000028)
        return NOT_SUPPORTED;
    m->total = 141ull << 30;
    m->used = 1ull << 30;
    m->reserved = 1ull << 30;
    m->free = 139ull << 30;
    return 0;
}

int nvmlDeviceGetUtilizationRates(struct gpu *g, unsigned v[2])
{
    v[0] = g->index ? 5 : 87;
    v[1] = g->index ? 1 : 42;
    return 0;
}

#define ONLY_NEW(name, number)                                                                    \
    int name(struct gpu *g, unsigned *v)                                                          \
    {                                                                                             \
        *v = number;                                                                              \
        return g->index ? NOT_SUPPORTED : 0;                                                      \
    }

ONLY_NEW(nvmlDeviceGetPowerUsage, 312500)
ONLY_NEW(nvmlDeviceGetEnforcedPowerLimit, 700000)
ONLY_NEW(nvmlDeviceGetCurrPcieLinkGeneration, 5)
ONLY_NEW(nvmlDeviceGetCurrPcieLinkWidth, 16)

int nvmlDeviceGetTemperature(struct gpu *g, int sensor, unsigned *v)
{
    *v = g->index ? 30 : 61;
    return sensor ? NOT_SUPPORTED : 0;
}

int nvmlDeviceGetClockInfo(struct gpu *g, int which, unsigned *v)
{
    *v = which == 1 ? 1980 : 3201;
    return g->index ? NOT_SUPPORTED : 0;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(struct gpu *g, unsigned long long *v)
{
    *v = g->index ? 0 : 0x44; /* power cap, hardware thermal */
    return 0;
}

int nvmlDeviceGetPcieThroughput(struct gpu *g, int way, unsigned *v)
{
    (void)g;
    *v = way ? 2048 : 1024;
    return 0;
}

int nvmlDeviceGetTotalEccErrors(struct gpu *g, int uncorrected, int ever, unsigned long long *v)
{
    *v = uncorrected ? 0 : ever ? 9 : 3;
    return g->index ? NOT_SUPPORTED : 0;
}

struct process {
    unsigned pid;
    unsigned long long used;
    unsigned instance[2];
};

int nvmlDeviceGetComputeRunningProcesses_v3(struct gpu *g, unsigned *n, struct process *ret)
{
    const char *pid = getenv("FAKE_NVML_PID");

    if (g->index || !pid) {
        *n = 0;
        return 0;
    }
    if (*n < 1)
        return 7;
    *n = 1;
    ret[0] = (struct process){.pid = (unsigned)atoi(pid), .used = 768ull << 20};
    return 0;
}

struct field {
    unsigned id, scope;
    long long time, latency;
    int type, error;
    unsigned long long value;
};

int nvmlDeviceGetFieldValues(struct gpu *g, int n, struct field *f)
{
    for (int i = 0; i < n; i++) {
        f[i].type = 3;
        f[i].error = g->index || f[i].id == 82 ? NOT_SUPPORTED : 0;
        f[i].value = asked += 1 << 20;
    }
    return 0;
}

int nvmlEventSetCreate(void **ret)
{
    *ret = &asked;
    return 0;
}

int nvmlEventSetFree(void *set) { return set != &asked; }
int nvmlDeviceRegisterEvents(struct gpu *g, unsigned long long kinds, void *set)
{
    return !g || kinds != 8 || set != &asked;
}

struct event {
    struct gpu *gpu;
    unsigned long long kind, data;
    unsigned instance[2];
};

/* One error on GPU 0, and then no more. */
int nvmlEventSetWait_v2(void *set, struct event *e, unsigned timeout)
{
    static int told;

    if (set != &asked || timeout || told++)
        return TIMED_OUT;
    *e = (struct event){.gpu = &gpus[0], .kind = 8, .data = 79};
    return 0;
}

int nvmlGpmQueryDeviceSupport(struct gpu *g, unsigned v[2])
{
    v[1] = v[0] == 1 && g->index == 0;
    return 0;
}

int nvmlGpmSampleAlloc(void **ret)
{
    *ret = malloc(GPU_BYTES);
    return !*ret;
}

int nvmlGpmSampleFree(void *sample)
{
    free(sample);
    return 0;
}

int nvmlGpmSampleGet(struct gpu *g, void *sample)
{
    memset(sample, 1 + g->index, GPU_BYTES);
    return 0;
}

struct metric {
    unsigned id;
    int error;
    double value;
    const char *names[3];
};

struct metrics {
    unsigned version, n;
    char *samples[2];
    struct metric v[];
};

int nvmlGpmMetricsGet(struct metrics *m)
{
    if (m->version != 1 || m->samples[0][0] != 1 || m->samples[1][0] != 1)
        return 2;
    for (unsigned i = 0; i < m->n; i++) {
        m->v[i].error = m->v[i].id >= 60 ? NOT_SUPPORTED : 0;
        m->v[i].value = m->v[i].id + 0.5;
    }
    return 0;
}
