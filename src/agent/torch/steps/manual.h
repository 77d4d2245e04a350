/*
 * manual.h - steps that no optimizer makes: the program applies gradients by itself.
 *
 * Owns: the last backward pass, which may be the end of such a step.
 * Threads: GIL held, no exception pending.
 * Fails: where it cannot be known whether gradients were used, they were.
 * Not here: what the end of a step does (steps.h).
 *
 * Such a step ends with its last backward pass. Which one that was is known when the gradients have
 * been used: a parameter was written to, or its gradient was cleared or replaced, before the model
 * is called again or before the next pass. Passes between which nothing of that happens add up
 * their gradients, and are one step. Without a module there is no parameter to look at, and each
 * pass is a step.
 */
#ifndef PB_AGENT_TORCH_STEPS_MANUAL_H
#define PB_AGENT_TORCH_STEPS_MANUAL_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/torch/steps/loaders.h"
#include "agent/torch/steps/steps.h"

struct pb_torch;

struct pb_torch_manual {
    bool pending;    /* a backward pass has ended that may be the end of a step */
    bool ends;       /* steps have ended like that */
    bool by_forward; /* the next forward is enough: gradients are cleared after it */
    bool asked;      /* a model was called since, and it was not known yet */
    bool outside;    /* no optimizer's step has been under way since the collector came */
    bool has_probe;  /* the fields of the parameter below are valid */
    uint64_t ended_ns;              /* end of the pass */
    uint64_t parts_ns, comm_ns;     /* steps.parts_ns and time between ranks by then */
    int64_t epoch;
    int64_t collectives;            /* collectives of all ranks by then, or -1 */
    struct pb_torch_sums sums;      /* sums of the step by then */
    struct pb_torch_batches batches;
    struct _object *weak;           /* a parameter that got a gradient */
    const struct _object *grad;     /* compared only: its gradient */
    int64_t grad_version, version;  /* how often the two were written to */
};

void pb_torch_manual_before_backward(struct pb_torch *t);
void pb_torch_manual_after_backward(struct pb_torch *t, uint64_t now);
/* A root is about to be called. */
void pb_torch_manual_before_forward(struct pb_torch *t, struct _object *module);
/* About once a second: nothing may follow the last backward. */
void pb_torch_manual_poll(struct pb_torch *t, uint64_t now);
/* An optimizer has made a step: the pass was for that. */
void pb_torch_manual_drop(struct pb_torch *t);
void pb_torch_manual_leave(struct pb_torch *t);

#endif
