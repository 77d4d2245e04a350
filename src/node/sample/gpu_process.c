#include <string.h>

#include "node/gpu/nvml.h"
#include "node/sample/procfile.h"
#include "node/sample/sampler.h"

#define COLUMNS(X)                                                                                \
    X(timestamp, TIME, "", "when the row was made")                                               \
    X(device, INT, "", "number of the GPU, as nvidia-smi has it")                                 \
    X(uuid, NAME, "", "identity of the GPU")                                                      \
    X(memory_used_mb, REAL, "MB", "GPU memory of the process")                                    \
    X(sm_util, REAL, "%", "time in which the process's kernels ran, where the driver tells")      \
    X(mem_util, REAL, "%", "time in which the process used the GPU's memory")                     \
    PB_SAMPLE_OF_PROCESS(X)

PB_TABLE_COLUMNS(COLUMNS);

enum { PROCESSES_MAX = 512, SAMPLES_MAX = 1024 };

struct state {
    struct pb_nvml nvml;
    struct pb_nvml_process found[PROCESSES_MAX];
    struct pb_nvml_process_sample samples[SAMPLES_MAX];
    unsigned nsamples;
    unsigned long long seen_us[PB_GPUS_MAX];
};

static int start(void *state, struct pb_err *err);
static void tick(void *state, const struct pb_sample_tick *t, struct pb_ring *ring);
static void stop(void *state);

const struct pb_sampler pb_sampler_gpu_process = {
    .ring = {PB_TABLE_SPEC("gpu.process",
                           "processes that use a GPU and how much of its memory, once an interval"),
             .rows = 8192,
             .flags = PB_RING_SHARED},
    .every_s = 1,
    .lane = PB_LANE_DEVICES,
    .state_size = sizeof(struct state),
    .start = start,
    .tick = tick,
    .stop = stop,
};

static int start(void *state, struct pb_err *err)
{
    struct state *s = state;

    return pb_nvml_open(&s->nvml, err);
}

static void stop(void *state)
{
    struct state *s = state;

    pb_nvml_close(&s->nvml);
}

/* The driver keeps some seconds of samples; those since the last look count. */
static void read_samples(struct state *s, unsigned device)
{
    struct pb_nvml *n = &s->nvml;
    unsigned long long newest = s->seen_us[device];

    s->nsamples = SAMPLES_MAX;
    if (!PB_NVML_ASK(n, process_samples, n->devices[device].gpu, s->samples, &s->nsamples,
                     s->seen_us[device]))
        s->nsamples = 0;
    if (s->nsamples > SAMPLES_MAX)
        s->nsamples = SAMPLES_MAX;
    for (unsigned i = 0; i < s->nsamples; i++)
        newest = s->samples[i].time_us > newest ? s->samples[i].time_us : newest;
    s->seen_us[device] = newest;
}

static void add_utilization(const struct state *s, unsigned pid, union pb_cell *row)
{
    double sm = 0, memory = 0;
    unsigned n = 0;

    for (unsigned i = 0; i < s->nsamples; i++) {
        /* A percentage above 100 is the driver's way to say that it does not know. */
        if (s->samples[i].pid != pid || s->samples[i].sm > 100 || s->samples[i].memory > 100)
            continue;
        sm += s->samples[i].sm;
        memory += s->samples[i].memory;
        n++;
    }
    if (!n)
        return;
    row[AT_sm_util].d = sm / n;
    row[AT_mem_util].d = memory / n;
}

static int64_t rank_of(const struct pb_sample_tick *t, unsigned pid)
{
    for (size_t i = 0; i < t->nprocesses; i++) {
        if (t->processes[i].pid == (pid_t)pid)
            return pb_sample_rank(&t->processes[i]);
    }
    return PB_NULL_INT;
}

static bool is_repeated(const struct state *s, unsigned n, unsigned pid)
{
    for (unsigned i = 0; i < n; i++) {
        if (s->found[i].pid == pid)
            return true;
    }
    return false;
}

/* Compute and graphics lists: a process may stand in both. */
static unsigned find_processes(struct state *s, struct pb_nvml_gpu *g)
{
    struct pb_nvml *n = &s->nvml;
    unsigned compute = PROCESSES_MAX, graphics, kept;

    if (!PB_NVML_ASK(n, compute, g, &compute, s->found) || compute > PROCESSES_MAX)
        compute = 0;
    graphics = PROCESSES_MAX - compute;
    if (!graphics || !PB_NVML_ASK(n, graphics, g, &graphics, s->found + compute) ||
        graphics > PROCESSES_MAX - compute)
        graphics = 0;
    kept = compute;
    for (unsigned i = compute; i < compute + graphics; i++) {
        if (!is_repeated(s, kept, s->found[i].pid))
            s->found[kept++] = s->found[i];
    }
    return kept;
}

static void tick(void *state, const struct pb_sample_tick *t, struct pb_ring *ring)
{
    struct state *s = state;
    struct pb_nvml *n = &s->nvml;
    union pb_cell row[NCOLUMNS];

    for (unsigned i = 0; i < n->ndevices; i++) {
        unsigned found = find_processes(s, n->devices[i].gpu);

        if (found)
            read_samples(s, i);
        for (unsigned k = 0; k < found; k++) {
            pb_sample_row(row, &pb_sampler_gpu_process, t);
            row[AT_device].i = i;
            row[AT_uuid].name = pb_sample_name(ring, n->devices[i].uuid);
            if (s->found[k].used != UINT64_MAX)
                row[AT_memory_used_mb].d = (double)s->found[k].used / PB_SAMPLE_MB;
            add_utilization(s, s->found[k].pid, row);
            row[AT_pid].i = s->found[k].pid;
            row[AT_rank].i = rank_of(t, s->found[k].pid);
            pb_ring_append(ring, row);
        }
    }
}
