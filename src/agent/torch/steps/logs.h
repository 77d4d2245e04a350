/*
 * logs.h - rows of python.training_logs.
 *
 * Owns: the ring, and rows whose values are still on their way from a GPU.
 * Threads: GIL held.
 * Fails: a value that does not come within 30 seconds is NULL.
 * Not here: when a step ends (steps.h).
 */
#ifndef PB_AGENT_TORCH_STEPS_LOGS_H
#define PB_AGENT_TORCH_STEPS_LOGS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/collectors/native/cuda.h"
#include "agent/torch/steps/loss.h"
#include "agent/torch/steps/steps.h"
#include "schema/python_training_logs.h"
#include "store/writer.h"

struct pb_torch;

enum { PB_TORCH_WAITING_LOGS = 64 };

enum {
#define X(name, type, unit, doc) PB_TORCH_LOG_##name,
    PB_PYTHON_TRAINING_LOGS(X)
#undef X
        PB_TORCH_LOG_COLUMNS
};

/* A row whose values are on their way. */
struct pb_torch_waiting_log {
    union pb_cell row[PB_TORCH_LOG_COLUMNS];
    struct pb_torch_loss loss;
    struct pb_cuda_value norm, scale;
    bool scaled;  /* the loss was scaled before backward */
    bool inverse; /* scale is what the loss is to be multiplied with, not divided by */
    uint64_t ended_ns;
};

/*
 * The last step of an optimizer whose steps do not count. It gets a row if the loss that it was
 * made with is not the loss of a step that counts.
 */
struct pb_torch_other_step {
    bool pending;
    uint64_t ended_ns;
    struct _object *weak; /* the optimizer */
    union pb_cell row[PB_TORCH_LOG_COLUMNS];
};

/* A name of python.torch_trace in python.training_logs. */
struct pb_torch_renamed {
    uint32_t from, to;
};

struct pb_torch_logs {
    struct pb_ring *ring;  /* NULL before the first step */
    unsigned first, count; /* circle of waiting rows */
    struct pb_torch_other_step other;
    struct pb_torch_renamed renamed[2]; /* latest model and optimizer */
    uint32_t sources[PB_TORCH_SOURCES]; /* dictionary: names of enum pb_torch_source */
    struct pb_torch_waiting_log waiting[PB_TORCH_WAITING_LOGS];
};

/* The row of a step that ended then; optimizer NULL: the step in t->manual. */
void pb_torch_logs_write(struct pb_torch *t, struct _object *optimizer, uint64_t now);
/* A step of an optimizer whose steps do not count. */
void pb_torch_logs_other_step(struct pb_torch *t, struct _object *optimizer, uint64_t now);
/* Its loss is no other step's: writes its row. */
void pb_torch_logs_write_other(struct pb_torch *t);
/* Writes rows whose values have come; all: whether they have come or not. */
void pb_torch_logs_poll(struct pb_torch *t, bool all);
/* About once a second: rows that nothing follows. */
void pb_torch_logs_poll_other(struct pb_torch *t, uint64_t now);

#endif
