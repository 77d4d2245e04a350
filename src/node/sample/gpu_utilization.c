#include <stdio.h>
#include <string.h>

#include "node/gpu/nvml.h"
#include "node/sample/procfile.h"
#include "node/sample/sampler.h"

#define COLUMNS(X)                                                                                \
    X(timestamp, TIME, "", "when the row was made")                                               \
    X(device, INT, "", "number of the GPU, as nvidia-smi has it")                                 \
    X(uuid, NAME, "", "identity of the GPU")                                                      \
    X(name, NAME, "", "product")                                                                  \
    X(gpu_util, REAL, "%", "time in which any kernel ran; says nothing about how much of the GPU")\
    X(mem_util, REAL, "%", "time in which the GPU's memory was read or written")                  \
    X(memory_used_mb, REAL, "MB", "GPU memory in use")                                            \
    X(memory_total_mb, REAL, "MB", "GPU memory")                                                  \
    X(power_w, REAL, "W", "power drawn")                                                          \
    X(power_limit_w, REAL, "W", "power that it may draw")                                         \
    X(temperature_c, REAL, "C", "temperature of the GPU")                                         \
    X(memory_c, REAL, "C", "temperature of the GPU's memory")                                     \
    X(sm_clock_mhz, INT, "MHz", "clock of the multiprocessors")                                   \
    X(mem_clock_mhz, INT, "MHz", "memory clock")                                                  \
    X(throttle, NAME, "", "why the clocks are not higher, a list; none when nothing holds them")  \
    X(pcie_rx_mb_s, REAL, "MB/s", "to the GPU over PCIe")                                         \
    X(pcie_tx_mb_s, REAL, "MB/s", "from the GPU over PCIe")                                       \
    X(nvlink_rx_mb_s, REAL, "MB/s", "to the GPU over all its NVLinks")                            \
    X(nvlink_tx_mb_s, REAL, "MB/s", "from the GPU over all its NVLinks")                          \
    X(sm_active_pct, REAL, "%", "multiprocessors that had work (Hopper and newer)")               \
    X(sm_occupancy_pct, REAL, "%", "warps that were resident, of the most there could be")        \
    X(tensor_pct, REAL, "%", "time in which tensor cores worked")                                 \
    X(dram_pct, REAL, "%", "memory bandwidth used, of the most there could be")                   \
    X(ecc_corrected, INT, "", "memory errors corrected since the driver was loaded")              \
    X(ecc_uncorrected, INT, "", "memory errors not corrected since the driver was loaded")        \
    X(xid, INT, "", "last critical error that the driver reported while the node looked on")      \
    PB_SAMPLE_OF_MACHINE(X)

PB_TABLE_COLUMNS(COLUMNS);

enum { PCIE_RX, PCIE_TX, NVLINK_RX, NVLINK_TX, MEMORY_C, NFIELDS };

static const struct {
    unsigned id, column;
    double unit; /* a counter's unit; 0: the value itself */
} fields[NFIELDS] = {
    [PCIE_RX] = {PB_NVML_FIELD_PCIE_RX_BYTES, AT_pcie_rx_mb_s, PB_SAMPLE_MB},
    [PCIE_TX] = {PB_NVML_FIELD_PCIE_TX_BYTES, AT_pcie_tx_mb_s, PB_SAMPLE_MB},
    [NVLINK_RX] = {PB_NVML_FIELD_NVLINK_RX_KIB, AT_nvlink_rx_mb_s, 1024},
    [NVLINK_TX] = {PB_NVML_FIELD_NVLINK_TX_KIB, AT_nvlink_tx_mb_s, 1024},
    [MEMORY_C] = {PB_NVML_FIELD_MEMORY_C, AT_memory_c, 0},
};

static const struct {
    unsigned id, column;
} metrics[] = {
    {PB_NVML_GPM_SM_ACTIVE, AT_sm_active_pct}, {PB_NVML_GPM_SM_OCCUPANCY, AT_sm_occupancy_pct},
    {PB_NVML_GPM_TENSOR, AT_tensor_pct},       {PB_NVML_GPM_DRAM, AT_dram_pct},
    {PB_NVML_GPM_PCIE_RX, AT_pcie_rx_mb_s},    {PB_NVML_GPM_PCIE_TX, AT_pcie_tx_mb_s},
    {PB_NVML_GPM_NVLINK_RX, AT_nvlink_rx_mb_s}, {PB_NVML_GPM_NVLINK_TX, AT_nvlink_tx_mb_s},
};

enum { NMETRICS = sizeof metrics / sizeof *metrics };

struct gpu {
    double counters[NFIELDS];
    bool counted[NFIELDS];
    int64_t xid;
    struct pb_nvml_gpm_sample *before, *now; /* NULL where there are no such counters */
    bool sampled; /* `before` holds something */
};

struct state {
    struct pb_nvml nvml;
    struct pb_nvml_events *events;
    struct gpu gpus[PB_GPUS_MAX];
    struct pb_nvml_gpm gpm;
};

static int start(void *state, struct pb_err *err);
static void tick(void *state, const struct pb_sample_tick *t, struct pb_ring *ring);
static void stop(void *state);

const struct pb_sampler pb_sampler_gpu_utilization = {
    .ring = {PB_TABLE_SPEC("gpu.utilization",
                           "use, memory, power, clocks and traffic of each GPU, once an interval"),
             .rows = 8192,
             .flags = PB_RING_SHARED},
    .every_s = 1,
    .lane = PB_LANE_DEVICES,
    .state_size = sizeof(struct state),
    .start = start,
    .tick = tick,
    .stop = stop,
};

/* Counters without a profiler, and so without being in a profiler's way. */
static void start_gpm(struct pb_nvml *n, struct gpu *x, struct pb_nvml_gpu *g)
{
    struct pb_nvml_gpm_support support = {.version = 1};

    if (!PB_NVML_ASK(n, gpm_support, g, &support) || !support.supported || !n->gpm_free ||
        !n->gpm_take || !n->gpm_metrics || !PB_NVML_ASK(n, gpm_alloc, &x->before))
        return;
    if (!PB_NVML_ASK(n, gpm_alloc, &x->now)) {
        n->gpm_free(x->before);
        x->before = NULL;
    }
}

static int start(void *state, struct pb_err *err)
{
    struct state *s = state;
    struct pb_nvml *n = &s->nvml;

    if (pb_nvml_open(n, err) < 0)
        return -1;
    if (!PB_NVML_ASK(n, events_create, &s->events))
        s->events = NULL;
    for (unsigned i = 0; i < n->ndevices; i++) {
        s->gpus[i].xid = PB_NULL_INT;
        start_gpm(n, &s->gpus[i], n->devices[i].gpu);
        if (s->events && n->events_add)
            n->events_add(n->devices[i].gpu, PB_NVML_EVENT_XID, s->events);
    }
    return 0;
}

static void stop(void *state)
{
    struct state *s = state;
    struct pb_nvml *n = &s->nvml;

    for (unsigned i = 0; i < n->ndevices; i++) {
        if (!s->gpus[i].now)
            continue;
        n->gpm_free(s->gpus[i].before);
        n->gpm_free(s->gpus[i].now);
    }
    if (s->events && n->events_free)
        n->events_free(s->events);
    pb_nvml_close(n);
}

static void read_events(struct state *s)
{
    struct pb_nvml *n = &s->nvml;
    struct pb_nvml_event e;

    /* Bounded, since errors may come in floods. */
    for (int i = 0; s->events && i < 64; i++) {
        if (!PB_NVML_ASK(n, events_wait, s->events, &e, 0))
            return;
        for (unsigned k = 0; k < n->ndevices; k++) {
            if (n->devices[k].gpu == e.gpu && e.kind & PB_NVML_EVENT_XID)
                s->gpus[k].xid = (int64_t)e.data;
        }
    }
}

static void add_throttle(struct pb_nvml *n, struct pb_nvml_gpu *g, union pb_cell *row,
                         struct pb_ring *ring)
{
    static const char *const names[] = {
        "idle",       "application clocks", "power cap",   "hardware slowdown", "sync boost",
        "thermal",    "hardware thermal",   "power brake", "display clock",     "board limit",
        "reliability",
    };
    unsigned long long reasons;
    char text[256] = "";
    size_t len = 0;

    if (!PB_NVML_ASK(n, throttle, g, &reasons))
        return;
    for (size_t i = 0; i < sizeof names / sizeof *names && len < sizeof text; i++) {
        if (reasons >> i & 1)
            len += (size_t)snprintf(text + len, sizeof text - len, "%s%s", len ? ", " : "",
                                    names[i]);
    }
    if (len)
        row[AT_throttle].name = pb_sample_name(ring, text);
}

static void add_state(struct pb_nvml *n, struct pb_nvml_gpu *g, union pb_cell *row)
{
    struct pb_nvml_utilization use;
    uint64_t total, used;
    unsigned long long errors;
    unsigned v;

    if (PB_NVML_ASK(n, utilization, g, &use)) {
        row[AT_gpu_util].d = use.gpu;
        row[AT_mem_util].d = use.memory;
    }
    if (pb_nvml_memory_of(n, g, &total, &used)) {
        row[AT_memory_total_mb].d = (double)total / PB_SAMPLE_MB;
        row[AT_memory_used_mb].d = (double)used / PB_SAMPLE_MB;
    }
    if (PB_NVML_ASK(n, power, g, &v))
        row[AT_power_w].d = v / 1000.0;
    if (PB_NVML_ASK(n, power_limit, g, &v))
        row[AT_power_limit_w].d = v / 1000.0;
    if (PB_NVML_ASK(n, temperature, g, PB_NVML_SENSOR_GPU, &v))
        row[AT_temperature_c].d = v;
    if (PB_NVML_ASK(n, clock, g, PB_NVML_CLOCK_SM, &v))
        row[AT_sm_clock_mhz].i = v;
    if (PB_NVML_ASK(n, clock, g, PB_NVML_CLOCK_MEMORY, &v))
        row[AT_mem_clock_mhz].i = v;
    if (PB_NVML_ASK(n, ecc, g, 0, 0, &errors))
        row[AT_ecc_corrected].i = (int64_t)errors;
    if (PB_NVML_ASK(n, ecc, g, 1, 0, &errors))
        row[AT_ecc_uncorrected].i = (int64_t)errors;
}

static void add_fields(struct pb_nvml *n, struct gpu *x, struct pb_nvml_gpu *g,
                       union pb_cell *row, double seconds)
{
    struct pb_nvml_field asked[NFIELDS];

    memset(asked, 0, sizeof asked);
    for (int i = 0; i < NFIELDS; i++) {
        asked[i].id = fields[i].id;
        asked[i].scope = i == NVLINK_RX || i == NVLINK_TX ? PB_NVML_ALL_LINKS : 0;
    }
    if (!PB_NVML_ASK(n, fields, g, NFIELDS, asked))
        return;
    for (int i = 0; i < NFIELDS; i++) {
        double v;

        if (!pb_nvml_field_number(&asked[i], &v))
            continue;
        if (fields[i].unit <= 0)
            row[fields[i].column].d = v;
        else if (x->counted[i] && v >= x->counters[i] && seconds > 0)
            row[fields[i].column].d = (v - x->counters[i]) / fields[i].unit / seconds;
        x->counters[i] = v;
        x->counted[i] = true;
    }
}

/* What the counters tell replaces what the fields told: it covers the whole interval. */
static void add_gpm(struct state *s, struct gpu *x, struct pb_nvml_gpu *g, union pb_cell *row)
{
    struct pb_nvml *n = &s->nvml;
    struct pb_nvml_gpm_sample *old = x->before;

    if (!x->now || n->gpm_take(g, x->now) != 0)
        return;
    s->gpm.version = 1;
    s->gpm.n = NMETRICS;
    s->gpm.before = x->before;
    s->gpm.now = x->now;
    for (int i = 0; i < NMETRICS; i++)
        s->gpm.metrics[i] = (struct pb_nvml_gpm_metric){.id = metrics[i].id};
    if (x->sampled && n->gpm_metrics(&s->gpm) == 0) {
        for (int i = 0; i < NMETRICS; i++) {
            if (s->gpm.metrics[i].error == 0)
                row[metrics[i].column].d = s->gpm.metrics[i].value;
        }
    }
    x->before = x->now;
    x->now = old;
    x->sampled = true;
}

/* Where there are no counters: the driver watches for 20 ms at each question. */
static void add_pcie(struct pb_nvml *n, const struct gpu *x, struct pb_nvml_gpu *g,
                     union pb_cell *row)
{
    unsigned v;

    if (x->now || x->counted[PCIE_RX])
        return;
    if (PB_NVML_ASK(n, pcie, g, PB_NVML_PCIE_RX, &v))
        row[AT_pcie_rx_mb_s].d = v / 1024.0;
    if (PB_NVML_ASK(n, pcie, g, PB_NVML_PCIE_TX, &v))
        row[AT_pcie_tx_mb_s].d = v / 1024.0;
}

static void tick(void *state, const struct pb_sample_tick *t, struct pb_ring *ring)
{
    struct state *s = state;
    struct pb_nvml *n = &s->nvml;
    union pb_cell row[NCOLUMNS];

    read_events(s);
    for (unsigned i = 0; i < n->ndevices; i++) {
        struct pb_nvml_gpu *g = n->devices[i].gpu;

        pb_sample_row(row, &pb_sampler_gpu_utilization, t);
        row[AT_device].i = i;
        row[AT_uuid].name = pb_sample_name(ring, n->devices[i].uuid);
        row[AT_name].name = pb_sample_name(ring, n->devices[i].name);
        add_state(n, g, row);
        add_throttle(n, g, row, ring);
        add_fields(n, &s->gpus[i], g, row, t->seconds);
        add_gpm(s, &s->gpus[i], g, row);
        add_pcie(n, &s->gpus[i], g, row);
        row[AT_xid].i = s->gpus[i].xid;
        pb_ring_append(ring, row);
    }
}
