/*
 * steps.h - training steps: their numbers, their parts, and how one ends.
 *
 * Owns: the count of steps and epochs, and the sums of the step under way.
 * Threads: GIL held.
 * Fails: what cannot be known is NULL in the row.
 * Not here: who sees that a step ends (optimizers.h, manual.h), the row (logs.h).
 *
 * A part of a step is forward, backward, optimizer or data. A part inside of another has its time
 * for itself alone, so that the parts of a step never add up to more than the step.
 */
#ifndef PB_AGENT_TORCH_STEPS_STEPS_H
#define PB_AGENT_TORCH_STEPS_STEPS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct pb_torch;
struct _object;

/* A part under way. */
struct pb_torch_part {
    uint64_t began_ns;
    uint64_t parts_ns;    /* steps.parts_ns when it began */
    uint64_t comm_ns;     /* time between ranks in the step, when it began */
    uint64_t sum_comm_ns; /* sums.comm_ns when it began */
};

/* What happened since the last step ended. */
struct pb_torch_sums {
    uint64_t forward_ns, backward_ns, optimizer_ns;
    uint64_t comm_ns; /* time between ranks during these parts */
    uint64_t own_ns;  /* time that the collector itself took */
    uint32_t backwards, rows;
};

/* Who counts steps or epochs: X(id, name). */
#define PB_TORCH_SOURCE(X)                                                                        \
    X(INJECTION, "injection") X(OPTIMIZER, "optimizer") X(SAMPLER, "sampler")                     \
    X(LOADER, "loader") X(EXPRESSION, "expression")

enum pb_torch_source {
#define X(id, name) PB_TORCH_BY_##id,
    PB_TORCH_SOURCE(X)
#undef X
        PB_TORCH_SOURCES
};

struct pb_torch_steps {
    int64_t number;
    int64_t epoch;            /* or PB_NULL_INT */
    int64_t seq;              /* number of the next row of python.torch_trace in this step */
    enum pb_torch_source number_source, epoch_source;
    uint64_t attached_ns;     /* when the collector was turned on */
    uint64_t ended_ns;        /* end of the last step; 0: none has ended yet */
    uint64_t took_ns;         /* duration of the last step */
    pthread_t thread;         /* thread that makes the steps; parts of other threads count not */
    bool has_thread;
    struct pb_torch_sums sums;
    uint64_t parts_ns;        /* time of all parts that have ended so far */
    uint64_t parts_ns_before; /* parts_ns when the last step ended */
    uint64_t carried_comm_ns; /* time between ranks in this step before its window began */
    uint32_t unexplained;     /* forwards since the start without a step of an optimizer */
    uint32_t serving;         /* outermost calls under way that are steps of their own */
    bool by_forward;          /* the last step was a call, and none of a training */
    bool root_seen;           /* an outermost module was called that began after we came */
};

void pb_torch_steps_enter(struct pb_torch *t);
void pb_torch_steps_leave(struct pb_torch *t);

/* Sets the number of the step under way. */
void pb_torch_steps_set(struct pb_torch *t, int64_t number);
/* An optimizer whose steps count has made one. */
void pb_torch_steps_end(struct pb_torch *t, struct _object *optimizer, uint64_t now);
/* A step without an optimizer has ended with the backward pass in t->manual. */
void pb_torch_steps_end_manual(struct pb_torch *t);
/* A root was called and no optimizer is known: inference, where each call is a step. */
void pb_torch_steps_end_forward(struct pb_torch *t, bool training);
/* A backward pass begins: calls that were steps of their own are no longer. */
void pb_torch_steps_trains(struct pb_torch *t);

void pb_torch_part_begin(struct pb_torch *t, struct pb_torch_part *p, uint64_t now);
/* Ends a part: its own time in this step. */
uint64_t pb_torch_part_end(struct pb_torch *t, const struct pb_torch_part *p, uint64_t now);
/* Whether the calling thread makes the steps, as far as is known. */
bool pb_torch_steps_is_thread(const struct pb_torch *t);
/* The calling thread makes the steps. */
void pb_torch_steps_claim_thread(struct pb_torch *t);

#endif
