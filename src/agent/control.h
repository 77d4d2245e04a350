/*
 * control.h - the agent's thread: its socket, its clients, their questions.
 *
 * Owns: listener, client sockets and their buffers.
 * Threads: one, the agent's; it sleeps in poll and never waits for the GIL.
 * Fails: a client that sends what does not fit is closed; the others go on.
 * Not here: evaluations (jobs.h), starting and stopping (lifecycle.h).
 */
#ifndef PB_AGENT_CONTROL_H
#define PB_AGENT_CONTROL_H

#include "agent/core/self.h"
#include "agent/server.h"

/* Makes folder and socket; 0 or a negative errno. -EALREADY: another copy of us listens there. */
int pb_control_open(struct pb_self *self);
/* Serves until a stop is wanted, then closes everything and removes the folder. */
void pb_control_serve(struct pb_self *self);
/* In a forked child, or after a failed start: closes what belongs to somebody else. */
void pb_control_close(struct pb_self *self);

#endif
