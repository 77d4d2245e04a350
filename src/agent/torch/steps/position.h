/*
 * position.h - numbers of steps by where the data loader stands.
 *
 * Owns: how many batches a step takes, and the last number that was given so.
 * Threads: GIL held.
 * Fails: where steps and batches do not go together steps are counted, as without a loader.
 * Not here: optimizers that count by themselves (optimizers.h), expressions (expressions.h).
 *
 * Torch's loaders count the batches that they have handed out in a pass, also before the agent
 * came, and ranks of a job stand at the same batch in the same step. Where the sampler knows the
 * epoch, too, the number is that of the whole training, and the same on all ranks, whenever the
 * agent came to each of them; else passes are counted from the one on that it came in.
 */
#ifndef PB_AGENT_TORCH_STEPS_POSITION_H
#define PB_AGENT_TORCH_STEPS_POSITION_H

#include <stdbool.h>
#include <stdint.h>

struct pb_torch;
struct pb_torch_batches;

/* Where the loader that counts epochs stands when a step ends. */
struct pb_torch_position {
    int64_t batches;      /* up to the last one of this pass that a step consumed; -1: not known */
    uint32_t taken;       /* by this step */
    int64_t epoch;        /* by the sampler; -1: not known */
    int64_t length;       /* batches of a pass; -1: not known */
    int64_t steps_before; /* steps of earlier passes, where the sampler does not know the epoch */
};

struct pb_torch_numbering {
    uint32_t per_step; /* batches that a step takes; 0: not known yet */
    bool given;        /* steps have been numbered so */
    bool off;          /* steps and batches do not go together */
    int64_t last;      /* the last number */
};

/* Whether steps would be numbered so if that is possible. */
bool pb_torch_position_wanted(const struct pb_torch *t);
void pb_torch_position_measure(const struct pb_torch *t, struct pb_torch_batches *b);
/* Numbers the step that ends; whole: its beginning was seen. */
void pb_torch_position_apply(struct pb_torch *t, const struct pb_torch_position *p, bool whole);

#endif
