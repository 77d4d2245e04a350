/*
 * lifecycle.h - start, stop, fork and the end of the interpreter.
 *
 * Owns: the agent's thread.
 * Threads: as said.
 * Fails: a start that fails leaves nothing behind.
 * Not here: the exported names (agent.h).
 */
#ifndef PB_AGENT_LIFECYCLE_H
#define PB_AGENT_LIFECYCLE_H

#include "agent/core/self.h"

/* The agent of this process, made when there is none, with the interpreter found; or NULL. */
struct pb_self *pb_lifecycle_self(void);
/* GIL held, main thread, at exit: after this the interpreter is never entered again. */
void pb_lifecycle_interpreter_ends(struct pb_self *self);
/* GIL held, in a child that os.fork() made: an agent of its own, if the settings say so. */
void pb_lifecycle_after_fork(struct pb_self *self);
/* The folder goes, unless the end of the process has taken it already. Takes home_lock. */
void pb_lifecycle_remove_home(struct pb_self *self);
/* Agent's thread: new settings, and what they change at once. */
void pb_lifecycle_apply_settings(struct pb_self *self, const struct pb_settings *settings);

#endif
