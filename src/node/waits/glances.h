/*
 * glances.h - a thread that goes on, met again and again: where, and what for.
 *
 * Owns: nothing; tallies are the caller's.
 * Threads: one user per tally.
 * Fails: never; a stack that could not be read is not counted.
 * Not here: which threads are looked at, and how long tallies are kept (looks.c).
 */
#ifndef PB_NODE_WAITS_GLANCES_H
#define PB_NODE_WAITS_GLANCES_H

#include "node/waits/waits.h"

#define PB_GLANCES 5  /* in one look */
#define PB_GLANCES_KEPT 120 /* when there are so many, all counts are halved: older ones fade */
#define PB_OWN_FUNCTIONS 12
#define PB_TRAINERS 32
#define PB_PLACES 16  /* places of a thread that are told apart */

struct pb_phase_count {
    int64_t n;     /* glances */
    int64_t turns; /* times that it was met in this phase after another one */
};

struct pb_tallies {
    struct pb_tally v[PB_PLACES];
    size_t n;
    int64_t glances, comm;
    struct pb_phase_count phases[PB_PHASES];
    enum pb_phase last; /* PB_PHASES: none yet */
    bool trains;        /* met in a model, a backward pass or an optimizer, or with a loss */
    uint64_t trainers[PB_TRAINERS]; /* the program's functions on the way to the model */
    size_t ntrainers;
    struct pb_loss loss;
};

/* One glance. */
struct pb_glance {
    bool comm, trains, imports, has_loss, ran, sleeps;
    enum pb_phase phase;
    struct pb_tally at; /* the program's own frame; line 0: none */
    double loss;
    uint64_t own[PB_OWN_FUNCTIONS]; /* the program's own functions, the innermost first */
    size_t nown;
};

struct pb_glance pb_glance_of(const struct pb_thread *t);
void pb_tallies_init(struct pb_tallies *t);
void pb_tallies_add(struct pb_tallies *t, const struct pb_glance *g);
/* Takes over what the tallies say. */
void pb_tallies_tell(const struct pb_tallies *t, struct pb_wait *w);

#endif
