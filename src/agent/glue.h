/*
 * glue.h - the agent's Python part (glue/glue.py), embedded and called.
 *
 * Owns: the dictionary the script ran in.
 * Threads: the GIL must be held for all of these but pb_glue_after_fork.
 * Fails: quietly; an exception of ours never reaches the host.
 * Not here: getting the GIL (py/gil.h), jobs (jobs.h).
 */
#ifndef PB_AGENT_GLUE_H
#define PB_AGENT_GLUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/self.h"

/* Callbacks at exit and after fork; once. Needs nothing compiled. */
void pb_glue_set_hooks(struct pb_self *self);
/*
 * Takes the callbacks back and lets go of the host's objects. The script itself
 * stays, like the library: made anew for each start it would leave a little
 * memory behind every time.
 */
void pb_glue_drop(struct pb_self *self);
/* Compiles and runs the script, once. */
bool pb_glue_load(struct pb_self *self);

/* Output of this thread goes to the job between begin and end. */
bool pb_glue_begin(struct pb_self *self, uint32_t number);
void pb_glue_end(struct pb_self *self);
/* Runs the code; why gets one line when there is something to say. */
enum pb_wire_result pb_glue_run(struct pb_self *self, const struct pb_job *job, char *why,
                                size_t why_cap);
/* In a forked child: by the fork handler (no Python), then with the GIL. */
void pb_glue_after_fork(struct pb_self *self);
void pb_glue_reset(struct pb_self *self);
/* The value in `_` of a client that left. */
void pb_glue_forget(struct pb_self *self, uint32_t client);

#endif
