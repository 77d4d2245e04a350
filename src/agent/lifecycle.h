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

#include "agent/self.h"

/* The agent of this process, made when there is none, with the interpreter found; or NULL. */
struct pb_self *pb_lifecycle_self(void);
/* GIL held, main thread, at exit: after this the interpreter is never entered again. */
void pb_lifecycle_interpreter_ends(struct pb_self *self);
/* GIL held, in a child that os.fork() made: an agent of its own, if the settings say so. */
void pb_lifecycle_after_fork(struct pb_self *self);
/* The folder goes, unless the end of the process has taken it already. Takes home_lock. */
void pb_lifecycle_remove_home(struct pb_self *self);
/* Agent's thread: new settings, and what they change at once. */
void pb_lifecycle_take_settings(struct pb_self *self, const struct pb_settings *settings);
/*
 * Where Yama asks for consent: this process, which has come to the agent's socket with the rights
 * of the owner or of root, may read the memory of this one. One at a time: the last that came.
 */
void pb_lifecycle_let_trace(struct pb_self *self, pid_t pid);

#endif
