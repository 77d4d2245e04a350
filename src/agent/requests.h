/*
 * requests.h - what the agent answers to each kind of message.
 *
 * Owns: nothing.
 * Threads: the agent's.
 * Fails: by an answer that says why.
 * Not here: reading and writing the socket (control.h).
 */
#ifndef PB_AGENT_REQUESTS_H
#define PB_AGENT_REQUESTS_H

#include "agent/core/self.h"
#include "agent/server.h"

void pb_requests_hello(struct pb_self *self, struct pb_client *c);
/* The message in c->in is complete. Its memory may be taken over. */
void pb_requests_handle(struct pb_self *self, struct pb_client *c);
/* Before the last answers go out: everything inside the interpreter is undone. */
void pb_requests_leave(struct pb_self *self);

#endif
