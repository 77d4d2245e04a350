/*
 * process_agent.h - the agent of the process that a request names.
 *
 * Owns: nothing; the caller closes the agent.
 * Threads: one.
 * Fails: PB_NO_TARGET when there is no agent and none is to be loaded.
 * Not here: the messages (host/net/agent_socket.h).
 */
#ifndef PB_NODE_HTTP_PROCESS_AGENT_H
#define PB_NODE_HTTP_PROCESS_AGENT_H

#include "host/net/agent_socket.h"
#include "node/http/request.h"

/* inject: loads the agent first when the process has none. It is told who asks. */
int pb_request_agent(struct pb_request *rq, pid_t pid, bool inject, struct pb_agent *ret,
                     struct pb_err *err);

#endif
