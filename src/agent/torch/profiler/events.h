/*
 * events.h - tells one Python function of model calls and training steps as they happen.
 *
 * Owns: a reference to the function while it listens.
 * Threads: GIL held. The function is called on the thread that calls the model or makes the step.
 * Fails: quietly; an exception of the function is dropped.
 * Not here: what the function does (cli/scripts/profile.py).
 */
#ifndef PB_AGENT_TORCH_PROFILER_EVENTS_H
#define PB_AGENT_TORCH_PROFILER_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/core/self.h"

struct pb_torch;

enum pb_torch_event {
    PB_TORCH_EVENT_CALL = 1, /* an outermost module is about to be called */
    PB_TORCH_EVENT_STEP = 2, /* a training step has ended */
};

struct pb_torch_events {
    struct _object *listener; /* or NULL */
    bool profiling;           /* torch's profiler runs for `probing PID profile` */
    bool step_profiled;       /* it ran for a part of the step under way */
};

/* Replaces the listener; NULL: nobody listens. False when the torch collector is not on. */
bool pb_torch_listen(struct pb_self *self, struct _object *function);
/* Calls the listener, if there is one. No exception pending. */
void pb_torch_notify(struct pb_torch *t, enum pb_torch_event event);
/*
 * The number of the step under way, and the collectives of all ranks so far; -1: not known. Without
 * the torch collector both are.
 */
void pb_torch_place(struct pb_self *self, int64_t *ret_step, int64_t *ret_collectives);
/* While set, steps are marked as profiled in python.training_logs. */
void pb_torch_set_profiled(struct pb_self *self, bool on);

#endif
