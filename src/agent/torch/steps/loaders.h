/*
 * loaders.h - batches of data loaders: waiting time, samples and epochs of steps.
 *
 * Owns: what is known of the data sets that loaders go through.
 * Threads: GIL held.
 * Fails: what cannot be known is NULL in the row.
 * Not here: the row (logs.h).
 *
 * Not every batch is for a step. One that is fetched before a forward without gradients is for an
 * evaluation, whose time and samples are not those of the step that follows. And a loop may fetch a
 * batch ahead of the step that it is for, to know whether it is the last one.
 */
#ifndef PB_AGENT_TORCH_STEPS_LOADERS_H
#define PB_AGENT_TORCH_STEPS_LOADERS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/torch/steps/position.h"

struct pb_torch;
struct _object;

enum {
    PB_TORCH_LOADERS = 8,         /* data sets in use at once */
    PB_TORCH_BATCHES_AHEAD = 64,  /* batches that a loop has fetched for one step */
};

/* A data set that loaders go through, batch by batch. */
struct pb_torch_loader {
    struct _object *data, *iterator; /* borrowed, compared only */
    uint32_t pass;                   /* passes over the data so far */
    int64_t epoch, epoch_before;     /* sampler's epoch in this pass and the one before; or -1 */
    int64_t length;                  /* batches of a pass by the sampler; -1: not known */
    int64_t fetched;                 /* batches fetched in this pass, also before the agent came */
    int64_t steps_before;            /* steps of the passes before, as far as they were seen */
    uint64_t used;                   /* loaders.requests at the last batch */
    uint64_t began, began_before;    /* loaders.requests when this and the last pass began */
    uint64_t data_ns;                /* waiting time since the last step */
    uint64_t forward_ns;             /* forward time before a step used its batches */
    uint32_t nsizes;
    bool trains;  /* its batches are used by training steps, not by an evaluation */
    bool touched; /* had a request since the last forward */
    bool ended;   /* this pass has come to its end */
    bool greedy;  /* a step consumes all batches that were fetched */
    int64_t sizes[PB_TORCH_BATCHES_AHEAD]; /* samples of batches that no step has consumed yet */
};

struct pb_torch_loaders {
    struct pb_torch_loader *current; /* asked last */
    struct pb_torch_loader *main;    /* counts epochs */
    uint32_t main_pass;
    uint64_t requests;     /* batches asked for, in all */
    uint32_t idle_steps;   /* steps since the last request */
    bool has_new_batch;    /* a request since the last forward */
    bool training;         /* the last forward was part of a training step */
    struct pb_torch_numbering numbering;
    struct pb_torch_loader list[PB_TORCH_LOADERS]; /* those with used > 0 stand first */
};

/* A sampler with the same epoch in two passes was not told by the program; 0 may be that. */
static inline bool pb_torch_loader_knows_epoch(const struct pb_torch_loader *f)
{
    return f->epoch > 0 && f->epoch != f->epoch_before;
}

/* What a step has had of the loaders so far. */
struct pb_torch_batches {
    uint64_t data_ns;
    int64_t samples;
    uint64_t ns[PB_TORCH_LOADERS];      /* waiting time of each data set */
    uint32_t batches[PB_TORCH_LOADERS], pass[PB_TORCH_LOADERS];
    bool greedy[PB_TORCH_LOADERS];
    struct pb_torch_position position;
};

/* The iteration slot of every data loader's iterator. */
struct _object *pb_torch_on_next(struct _object *iterator);
/* A root was called: adds its time to the step's, if it is part of one. */
void pb_torch_loaders_forward(struct pb_torch *t, bool training, bool has_children, uint64_t ns);
void pb_torch_loaders_backward(struct pb_torch *t);
/* What the step would have had if it ended now; counts epochs. To be called before the sums. */
void pb_torch_loaders_measure(struct pb_torch *t, struct pb_torch_batches *ret);
/* The step has ended with that. */
void pb_torch_loaders_consume(struct pb_torch *t, const struct pb_torch_batches *b);

#endif
