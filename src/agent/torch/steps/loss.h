/*
 * loss.h - what backward was called on.
 *
 * Owns: the sum of the losses of the step under way.
 * Threads: GIL held.
 * Fails: a loss that cannot be read makes the sum unknown, and the row has NULL.
 * Not here: reading one number (values.h), the row (logs.h).
 */
#ifndef PB_AGENT_TORCH_STEPS_LOSS_H
#define PB_AGENT_TORCH_STEPS_LOSS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/collectors/native/cuda.h"

struct pb_torch;
struct pb_torch_thread;

enum { PB_TORCH_PENDING_LOSSES = 8 };

/* Sum of what backward was called on since the gradients were cleared. */
struct pb_torch_loss {
    double sum;
    uint32_t npending, n; /* losses on their way from a GPU; losses in all */
    bool unknown;         /* one of them could not be read */
    struct pb_torch_thread *from; /* thread that called backward last; or NULL */
    bool mixed;           /* several threads did */
    bool done;            /* a step was made with it, or the gradients were cleared */
    struct pb_cuda_value pending[PB_TORCH_PENDING_LOSSES]; /* last: only the first are copied */
};

struct pb_torch_losses {
    struct pb_torch_loss current;
    bool complete; /* no backward of the first step came before the collector */
};

/* Backward is about to be called on this tensor. */
void pb_torch_loss_add(struct pb_torch *t, struct _object *tensor);
/* The calling thread makes a step: a sum that is of another thread's training is not known. */
void pb_torch_loss_of_step(struct pb_torch *t);
/* True when the sum is known, or known to be unknown. drop: it is not waited for any longer. */
bool pb_torch_loss_poll(struct pb_torch *t, struct pb_torch_loss *l, bool drop);
/* Moves a sum to where its row waits; the source is empty then. */
void pb_torch_loss_move(struct pb_torch_loss *to, struct pb_torch_loss *from);
void pb_torch_loss_clear(struct pb_torch_loss *l);

#endif
