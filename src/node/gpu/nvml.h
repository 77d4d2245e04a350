/*
 * nvml.h - NVIDIA's management library, loaded when it is there.
 *
 * Owns: the library and the list of GPUs, which never change while it is open.
 * Threads: one. Any call may keep waiting when a driver hangs.
 * Fails: when there is no library, no driver or no GPU; single questions may go unanswered.
 * Not here: rows (gpu_*.c). No CUDA: nothing is put on the GPU.
 *
 * The types are as the library's interface has them; what we call is in nvml.def.
 */
#ifndef PB_NODE_GPU_NVML_H
#define PB_NODE_GPU_NVML_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { PB_GPUS_MAX = 64, PB_NVML_TEXT = 96 };

enum {
    PB_NVML_TOO_SMALL = 7, /* the caller's array */
    PB_NVML_SENSOR_GPU = 0,
    PB_NVML_CLOCK_SM = 1,
    PB_NVML_CLOCK_MEMORY = 2,
    PB_NVML_PCIE_TX = 0,
    PB_NVML_PCIE_RX = 1,
    PB_NVML_EVENT_XID = 8,
};

/* Fields of nvmlDeviceGetFieldValues. */
enum {
    PB_NVML_FIELD_MEMORY_C = 82,
    PB_NVML_FIELD_NVLINK_TX_KIB = 138,
    PB_NVML_FIELD_NVLINK_RX_KIB = 139,
    PB_NVML_FIELD_PCIE_TX_BYTES = 197,
    PB_NVML_FIELD_PCIE_RX_BYTES = 198,
};
#define PB_NVML_ALL_LINKS UINT32_MAX

/* Metrics of the performance counters that need no profiler (Hopper and newer). */
enum {
    PB_NVML_GPM_SM_ACTIVE = 2,
    PB_NVML_GPM_SM_OCCUPANCY = 3,
    PB_NVML_GPM_TENSOR = 5,
    PB_NVML_GPM_DRAM = 10,
    PB_NVML_GPM_PCIE_TX = 20, /* MiB/s, as the next three */
    PB_NVML_GPM_PCIE_RX = 21,
    PB_NVML_GPM_NVLINK_RX = 60,
    PB_NVML_GPM_NVLINK_TX = 61,
};

struct pb_nvml_gpu;
struct pb_nvml_events;
struct pb_nvml_gpm_sample;

struct pb_nvml_memory {
    unsigned long long total, free, used; /* bytes; used has what the driver keeps for itself */
};

struct pb_nvml_memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

struct pb_nvml_utilization {
    unsigned gpu, memory; /* percent */
};

struct pb_nvml_pci {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32];
};

struct pb_nvml_process {
    unsigned pid;
    unsigned long long used; /* bytes; all ones when unknown */
    unsigned gpu_instance, compute_instance;
};

struct pb_nvml_process_sample {
    unsigned pid;
    unsigned long long time_us;
    unsigned sm, memory, encoder, decoder; /* percent */
};

struct pb_nvml_field {
    unsigned id, scope;
    long long time_us, latency_us;
    int type; /* value: 0 double, 1 unsigned, 2 and 3 64 bits, 4 signed 64, 5 signed, 6 short */
    int error;
    union {
        double d;
        unsigned u;
        unsigned long long ull;
        long long ll;
        int i;
        unsigned short us;
    } value;
};

struct pb_nvml_event {
    struct pb_nvml_gpu *gpu;
    unsigned long long kind, data;
    unsigned gpu_instance, compute_instance;
};

struct pb_nvml_gpm_support {
    unsigned version, supported;
};

struct pb_nvml_gpm_metric {
    unsigned id;
    int error;
    double value;
    const char *names[3];
};

/* The library's own array is longer and grows; it looks at `n` of them only. */
struct pb_nvml_gpm {
    unsigned version, n;
    struct pb_nvml_gpm_sample *before, *now;
    struct pb_nvml_gpm_metric metrics[512];
};

_Static_assert(sizeof(struct pb_nvml_memory_v2) == 40, "NVML layout");
_Static_assert(sizeof(struct pb_nvml_pci) == 68, "NVML layout");
_Static_assert(sizeof(struct pb_nvml_process) == 24, "NVML layout");
_Static_assert(sizeof(struct pb_nvml_process_sample) == 32, "NVML layout");
_Static_assert(sizeof(struct pb_nvml_field) == 40, "NVML layout");
_Static_assert(sizeof(struct pb_nvml_event) == 32, "NVML layout");
_Static_assert(sizeof(struct pb_nvml_gpm_metric) == 40, "NVML layout");

struct pb_nvml_device {
    struct pb_nvml_gpu *gpu;
    char uuid[PB_NVML_TEXT], name[PB_NVML_TEXT];
};

struct pb_nvml {
    void *library;
    bool ready;
#define PB_NVML(name, symbol, args) int (*name) args;
#include "node/gpu/nvml.def"
#undef PB_NVML
    struct pb_nvml_device devices[PB_GPUS_MAX];
    unsigned ndevices;
};

int pb_nvml_open(struct pb_nvml *n, struct pb_err *err);
void pb_nvml_close(struct pb_nvml *n);

/* A call that may be missing: true when it was there and succeeded. */
#define PB_NVML_ASK(n, call, ...) ((n)->call && (n)->call(__VA_ARGS__) == 0)

/* Bytes; used without what the driver keeps for itself where it tells. */
bool pb_nvml_memory_of(struct pb_nvml *n, struct pb_nvml_gpu *g, uint64_t *ret_total,
                       uint64_t *ret_used);
/* A field's value as a number; false when the driver has none. */
bool pb_nvml_field_number(const struct pb_nvml_field *f, double *ret);

#endif
