/*
 * values.h - single numbers that torch has computed, read without waiting for a GPU.
 *
 * Owns: types, methods and attribute names of torch that every step needs, kept for ever.
 * Threads: GIL held.
 * Fails: a value stays unknown.
 * Not here: how a value comes from a GPU (native/cuda.h), what it is for (loss.h, norm.h).
 */
#ifndef PB_AGENT_TORCH_VALUES_H
#define PB_AGENT_TORCH_VALUES_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/collectors/native/cuda.h"

struct pb_torch;

struct pb_torch_values {
    struct _object *dtypes[PB_CUDA_KINDS]; /* torch.float32 and so on, by enum pb_cuda_kind */
    struct _object *float_type;            /* Python's float */
    struct _object *grad_enabled;          /* torch.is_grad_enabled */
    struct _object *numel, *data_ptr;      /* methods of torch.Tensor */
    struct _object *name_dtype, *name_is_cpu, *name_training, *name_param_groups, *name_lr,
        *name_accumulate_grad; /* interned attribute names */
};

void pb_torch_values_enter(struct pb_torch *t);
/* Reads a tensor of one element, or a number; it may be on its way afterwards. */
void pb_torch_value_read(struct pb_torch *t, struct pb_cuda_value *v, struct _object *tensor);
/* Number of elements of a tensor, or -1. */
int64_t pb_torch_numel(const struct pb_torch *t, struct _object *tensor);
/* Exactly Python's float: has no attributes to ask for. */
bool pb_torch_is_float(const struct pb_torch *t, struct _object *object);
/* Whether a module is in training mode and gradients are on. */
bool pb_torch_is_training(struct pb_torch *t, struct _object *module);

#endif
