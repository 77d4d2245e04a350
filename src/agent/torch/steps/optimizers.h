/*
 * optimizers.h - steps of optimizers: which one counts, and how a step is seen.
 *
 * Owns: weak references to the optimizers that have made steps, and the step under way.
 * Threads: GIL held.
 * Fails: where this torch cannot tell of steps, err says so.
 * Not here: what the end of a step does (steps.h), steps without an optimizer (manual.h).
 *
 * Torch's profiler has a name for each step, and the C functions behind that are seen (builtins.h).
 * In a step that was compiled there is no profiler: there a wrapper that every optimizer of torch
 * has switches the grad mode off and on again. Where neither is to be had torch's global hooks are
 * used, which the compiler sees.
 */
#ifndef PB_AGENT_TORCH_STEPS_OPTIMIZERS_H
#define PB_AGENT_TORCH_STEPS_OPTIMIZERS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/collectors/progress.h"
#include "agent/torch/steps/steps.h"
#include "base/err.h"

struct pb_torch;

enum { PB_TORCH_OPTIMIZERS = 16 };

/* One that has made steps. */
struct pb_torch_optimizer {
    struct _object *weak; /* NULL: free entry */
    uint32_t type, label; /* dictionary: its class; "Adam" or "Adam#2" */
    uint32_t number;      /* number among the living ones of its class, from 1 */
    uint32_t model;       /* dictionary: label of the module that has its parameters */
    uint32_t asked;       /* how often that was asked for */
    uint32_t since;       /* steps since the last one that counted */
    uint32_t counted;     /* steps that had counted by then */
};

/* Where the optimizer stood in the Python frame that made the last step (frames.c). */
struct pb_torch_cached_optimizer {
    struct _object *code;      /* code of that frame's function; NULL: not known */
    struct _object *optimizer; /* borrowed, compared only */
    int depth;                 /* the frame's depth, from the innermost one */
    uint32_t word;             /* word of the frame */
};

struct pb_torch_optimizers {
    struct _object *main; /* weak: the one whose steps count */
    uint32_t counted;     /* steps that counted */
    bool seen;            /* a step that counts has been made */
    struct _object *in_pass; /* weak: has made a step in the pass under way, or NULL */
    struct pb_torch_optimizer list[PB_TORCH_OPTIMIZERS];
    struct _object *named_type; /* class that the next two are names of */
    uint32_t name, operation;   /* dictionary: "Adam", "Adam.step" */

    /* The step under way. */
    uint64_t began_ns;         /* 0: none */
    struct _object *stepping;  /* borrowed: its optimizer */
    struct _object *record;    /* borrowed, compared only: the profiler's handle of it */
    struct _object *frame;     /* borrowed, compared only: Python frame of the wrapper */
    struct _object *error;     /* borrowed, compared only: exception handled when it began */
    struct pb_torch_part part;
    struct pb_progress_before before;
    uint32_t backwards_before; /* sums.backwards when it began */
    int span;                  /* GPU span, or -1 */
    int64_t bytes_before;      /* bytes in tensors when it began */

    struct _object *type;         /* torch.optim.Optimizer */
    struct _object *wrapper_code; /* code of the wrapper that torch's optimizers have */
    bool compiling;               /* torch.compile is in use */
    struct pb_torch_cached_optimizer cached;
    struct _object *hooks[2], *handles[2]; /* torch's global hooks before and after a step */
};

int pb_torch_optimizers_enter(struct pb_torch *t, struct pb_err *err);
void pb_torch_optimizers_leave(struct pb_torch *t);
/* About once a second: where torch.compile is in use, steps may be seen in another way only. */
void pb_torch_optimizers_poll(struct pb_torch *t);

/* Borrowed: the optimizer whose steps count; NULL when there is none or it is gone. */
struct _object *pb_torch_optimizer_main(struct pb_torch *t);
/* Entry of an optimizer that has made a step; a zeroed one where there are too many. */
const struct pb_torch_optimizer *pb_torch_optimizer(struct pb_torch *t,
                                                   struct _object *optimizer);
/* Dictionary: label of the model that it trains, asked for once a step; or PB_NULL_NAME. */
uint32_t pb_torch_optimizer_model(struct pb_torch *t, struct _object *optimizer);
/* The beginning and the end of a step. */
void pb_torch_optimizer_step_begin(struct pb_torch *t, struct _object *optimizer);
void pb_torch_optimizer_step_end(struct pb_torch *t, struct _object *optimizer);
/* A backward pass has ended; 0: it has failed. A step that hooks have made within it ends now. */
void pb_torch_optimizers_pass_ended(struct pb_torch *t, uint64_t now);
/* Forgets the step under way: it has failed, or is counted already. */
void pb_torch_optimizer_step_abort(struct pb_torch *t);

/* Torch's profiler is told of a part by name, or that a part has ended. No exception pending. */
void pb_torch_on_record_enter(struct pb_torch *t, struct _object *name, struct _object *record);
void pb_torch_on_record_exit(struct pb_torch *t);
/* The grad mode was changed. No exception pending. */
void pb_torch_on_grad_mode(struct pb_torch *t);

#endif
