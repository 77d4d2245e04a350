/*
 * glue.h - the agent's Python part (glue/glue.py), embedded and called.
 *
 * Owns: the dictionary the script ran in.
 * Threads: the GIL must be held for all of these but pb_glue_after_fork.
 * Fails: quietly; an exception of ours never reaches the host. One of its own that comes up in code
 * of ours, from a handler of a signal, does.
 * Not here: getting the GIL (core/gil.h), jobs (jobs.h).
 */
#ifndef PB_AGENT_GLUE_H
#define PB_AGENT_GLUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/core/self.h"
#include "agent/server.h"
#include "agent/streams.h"

struct pb_glue {
    _Atomic int state;    /* 0: none; 1: being made; 2: there */
    _Atomic bool stale;   /* it remembers threads of the process that this one was forked from */
    struct _object *dict; /* the script's dictionary */
    struct pb_streams streams;
};

/* Callbacks at exit and after fork; once. Needs nothing compiled. */
void pb_glue_set_hooks(struct pb_self *self);
/*
 * Removes the callbacks and drops references to the host's objects. The script itself
 * stays, like the library: made anew for each start it would leave a little
 * memory behind every time.
 */
void pb_glue_drop(struct pb_self *self);
/* Compiles and runs the script, once. */
bool pb_glue_load(struct pb_self *self);

/* Output of this thread goes to the job between begin and end. */
bool pb_glue_begin(struct pb_self *self, uint32_t number);
/* keep_streams: what the code has put in place of a stream of sys stays there. */
void pb_glue_end(struct pb_self *self, bool keep_streams);
/* Runs the code; why gets one line when there is something to say. */
enum pb_wire_result pb_glue_run(struct pb_self *self, const struct pb_job *job, char *why,
                                size_t why_cap);
/* Main thread: sets the exception of a signal's handler that came up in our code, if any. */
bool pb_glue_raise_stray(struct pb_self *self);
/*
 * Takes the pending exception if a signal's handler has raised it in our code, and raises it in the
 * program when that runs on; else it stays pending.
 */
bool pb_glue_hand_back(struct pb_self *self);
/* In a forked child: by the fork handler (no Python), then with the GIL. */
void pb_glue_after_fork(struct pb_self *self);
void pb_glue_reset(struct pb_self *self);
/* The value in `_` of a client that left. */
void pb_glue_forget(struct pb_self *self, uint32_t client);

#endif
