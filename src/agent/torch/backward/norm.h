/*
 * norm.h - the norm of the gradients and the scale of the loss, where the program computes them.
 *
 * Owns: the two values of the step under way.
 * Threads: GIL held, no exception pending.
 * Fails: a value stays unknown.
 * Not here: how the functions of torch are seen (builtins.h).
 */
#ifndef PB_AGENT_TORCH_BACKWARD_NORM_H
#define PB_AGENT_TORCH_BACKWARD_NORM_H

#include <stdbool.h>

#include "agent/collectors/native/cuda.h"

struct pb_torch;

struct pb_torch_norm {
    struct pb_cuda_value value;
    struct pb_cuda_value unscale; /* inverse of the loss's scale */
    struct _object *stacked;      /* borrowed, compared only: last result of torch.stack */
    struct _object *clip_globals, *fsdp_globals; /* globals of the modules that clip gradients */
};

/* False: this Python or torch does not let norms be seen. */
bool pb_torch_norm_enter(struct pb_torch *t);
/* About once a second: torch.distributed.fsdp may have been imported since. */
void pb_torch_norm_poll(struct pb_torch *t);
/* Drops both values, whether they have come or not. */
void pb_torch_norm_forget(struct pb_torch *t);

/* Functions of torch have returned: stack, a vector norm of that, clamp, unscale. */
void pb_torch_norm_after_stack(struct pb_torch *t, struct _object *result);
void pb_torch_norm_after_norm(struct pb_torch *t, struct _object *input, struct _object *result);
void pb_torch_norm_after_clamp(struct pb_torch *t);
void pb_torch_norm_after_unscale(struct pb_torch *t, struct _object *inverse);

#endif
