#include <stdio.h>

#include "node/gpu/nvml.h"
#include "node/sample/procfile.h"
#include "node/sample/sampler.h"

#define COLUMNS(X)                                                                                \
    X(timestamp, TIME, "", "when the row was made")                                               \
    X(device, INT, "", "number of the GPU, as nvidia-smi has it")                                 \
    X(uuid, NAME, "", "identity of the GPU")                                                      \
    X(name, NAME, "", "product")                                                                  \
    X(driver, NAME, "", "version of the driver")                                                  \
    X(cuda, NAME, "", "newest CUDA that the driver serves")                                       \
    X(compute_capability, NAME, "", "9.0: Hopper")                                                \
    X(pci_bus_id, NAME, "", "where it sits")                                                      \
    X(memory_total_mb, REAL, "MB", "GPU memory")                                                  \
    X(power_limit_w, REAL, "W", "power that it may draw")                                         \
    X(sm_clock_max_mhz, INT, "MHz", "fastest clock")                                              \
    X(mem_clock_max_mhz, INT, "MHz", "fastest memory clock")                                      \
    X(pcie_gen, INT, "", "generation of the link now; an idle GPU lowers it")                     \
    X(pcie_gen_max, INT, "", "generation that it could have")                                     \
    X(pcie_width, INT, "", "lanes now")                                                           \
    X(pcie_width_max, INT, "", "lanes that it could have")                                        \
    X(mig, BOOL, "", "split into instances")                                                      \
    X(ecc_corrected, INT, "", "memory errors corrected, over its life")                           \
    X(ecc_uncorrected, INT, "", "memory errors not corrected, over its life")                     \
    X(remapped_rows, INT, "", "rows of memory replaced after errors")                             \
    X(remap_pending, BOOL, "", "a row waits for a reset to be replaced")                          \
    X(remap_failed, BOOL, "", "a row could not be replaced")                                      \
    PB_SAMPLE_OF_MACHINE(X)

PB_TABLE_COLUMNS(COLUMNS);

static int start(void *state, struct pb_err *err);
static void tick(void *state, const struct pb_sample_tick *t, struct pb_ring *ring);
static void stop(void *state);

const struct pb_sampler pb_sampler_gpu_device = {
    .ring = {PB_TABLE_SPEC("gpu.device",
                           "the GPUs of the machine: what they are, about once a minute"),
             .rows = 1024,
             .flags = PB_RING_SHARED},
    .every_s = 60,
    .lane = PB_LANE_DEVICES,
    .state_size = sizeof(struct pb_nvml),
    .start = start,
    .tick = tick,
    .stop = stop,
};

static int start(void *state, struct pb_err *err)
{
    return pb_nvml_open(state, err);
}

static void stop(void *state)
{
    pb_nvml_close(state);
}

static void add_names(struct pb_nvml *n, struct pb_nvml_gpu *g, union pb_cell *row,
                      struct pb_ring *ring)
{
    struct pb_nvml_pci pci = {0};
    char text[PB_NVML_TEXT] = "";
    int major, minor;

    if (PB_NVML_ASK(n, driver, text, sizeof text))
        row[AT_driver].name = pb_sample_name(ring, text);
    if (PB_NVML_ASK(n, cuda, &major)) {
        snprintf(text, sizeof text, "%d.%d", major / 1000, major % 1000 / 10);
        row[AT_cuda].name = pb_sample_name(ring, text);
    }
    if (PB_NVML_ASK(n, capability, g, &major, &minor)) {
        snprintf(text, sizeof text, "%d.%d", major, minor);
        row[AT_compute_capability].name = pb_sample_name(ring, text);
    }
    if (PB_NVML_ASK(n, pci, g, &pci)) {
        pci.bus_id[sizeof pci.bus_id - 1] = '\0';
        row[AT_pci_bus_id].name = pb_sample_name(ring, pci.bus_id);
    }
}

static void add_limits(struct pb_nvml *n, struct pb_nvml_gpu *g, union pb_cell *row)
{
    uint64_t total, used;
    unsigned v;

    if (pb_nvml_memory_of(n, g, &total, &used))
        row[AT_memory_total_mb].d = (double)total / PB_SAMPLE_MB;
    if (PB_NVML_ASK(n, power_limit, g, &v))
        row[AT_power_limit_w].d = v / 1000.0;
    if (PB_NVML_ASK(n, max_clock, g, PB_NVML_CLOCK_SM, &v))
        row[AT_sm_clock_max_mhz].i = v;
    if (PB_NVML_ASK(n, max_clock, g, PB_NVML_CLOCK_MEMORY, &v))
        row[AT_mem_clock_max_mhz].i = v;
    if (PB_NVML_ASK(n, pcie_gen, g, &v))
        row[AT_pcie_gen].i = v;
    if (PB_NVML_ASK(n, pcie_max_gen, g, &v))
        row[AT_pcie_gen_max].i = v;
    if (PB_NVML_ASK(n, pcie_width, g, &v))
        row[AT_pcie_width].i = v;
    if (PB_NVML_ASK(n, pcie_max_width, g, &v))
        row[AT_pcie_width_max].i = v;
}

static void add_health(struct pb_nvml *n, struct pb_nvml_gpu *g, union pb_cell *row)
{
    unsigned corrected, uncorrected, pending, failed;
    unsigned long long errors;

    if (PB_NVML_ASK(n, mig, g, &corrected, &pending))
        row[AT_mig].b = corrected != 0;
    if (PB_NVML_ASK(n, ecc, g, 0, 1, &errors))
        row[AT_ecc_corrected].i = (int64_t)errors;
    if (PB_NVML_ASK(n, ecc, g, 1, 1, &errors))
        row[AT_ecc_uncorrected].i = (int64_t)errors;
    if (PB_NVML_ASK(n, remapped, g, &corrected, &uncorrected, &pending, &failed)) {
        row[AT_remapped_rows].i = (int64_t)corrected + (int64_t)uncorrected;
        row[AT_remap_pending].b = pending != 0;
        row[AT_remap_failed].b = failed != 0;
    }
}

static void tick(void *state, const struct pb_sample_tick *t, struct pb_ring *ring)
{
    struct pb_nvml *n = state;
    union pb_cell row[NCOLUMNS];

    for (unsigned i = 0; i < n->ndevices; i++) {
        struct pb_nvml_gpu *g = n->devices[i].gpu;

        pb_sample_row(row, &pb_sampler_gpu_device, t);
        row[AT_device].i = i;
        row[AT_uuid].name = pb_sample_name(ring, n->devices[i].uuid);
        row[AT_name].name = pb_sample_name(ring, n->devices[i].name);
        add_names(n, g, row, ring);
        add_limits(n, g, row);
        add_health(n, g, row);
        pb_ring_append(ring, row);
    }
}
