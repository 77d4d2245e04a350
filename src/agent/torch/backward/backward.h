/*
 * backward.h - backward passes: an object in place of autograd's engine that takes the time.
 *
 * Owns: that object, made once and kept for ever, since a backward may be under way.
 * Threads: GIL held.
 * Fails: where the engine is not found, err says so.
 * Not here: backward of single modules (grad.h).
 *
 * Torch looks the engine up in the class Variable at every backward and calls run_backward. Ours is
 * a subclass of the engine's own type, which has no state of its own, so whatever else is asked of
 * it (queue_callback) goes where it always went.
 */
#ifndef PB_AGENT_TORCH_BACKWARD_BACKWARD_H
#define PB_AGENT_TORCH_BACKWARD_BACKWARD_H

#include <pthread.h>
#include <stdbool.h>

#include "agent/torch/steps/steps.h"
#include "base/err.h"

struct pb_torch;
struct pb_torch_module;

struct pb_torch_backward {
    struct _object *variable_type; /* torch.autograd.Variable */
    struct _object *engine, *run;  /* the original engine and its run_backward */
    struct _object *proxy;         /* ours */
    bool installed;
    bool engine_ran;               /* the program has made a backward pass */
    int passes;                    /* passes under way */
    pthread_t thread;              /* thread that began the first of them */
    struct pb_torch_part part;
    struct pb_torch_module *model; /* outermost module that the next pass is named after */
    bool model_is_old;             /* it was called in an earlier step */
};

int pb_torch_backward_enter(struct pb_torch *t, struct pb_err *err);
void pb_torch_backward_leave(struct pb_torch *t);
/* Whether the calling thread runs a backward pass; on a GPU it is a thread of torch's. */
bool pb_torch_in_pass(const struct pb_torch *t);
/* An outermost module was called: is the next pass named after it? */
void pb_torch_backward_choose_model(struct pb_torch *t, struct pb_torch_module *m, bool training);

#endif
