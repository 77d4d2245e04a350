/*
 * agent_client.h - tells an agent in whose name a node asks, for its audit.
 *
 * Owns: nothing.
 * Threads: as the agent's connection.
 * Fails: never; an agent of an older version is not told.
 * Not here: questions (host/net/agent_socket.h).
 */
#ifndef PB_HOST_NET_AGENT_CLIENT_H
#define PB_HOST_NET_AGENT_CLIENT_H

#include "host/net/agent_socket.h"

struct pb_agent_client {
    bool has_uid; /* over a Unix socket; by TCP neither uid nor pid is known */
    uid_t uid;
    pid_t pid;
    char name[PB_WIRE_CLIENT_NAME]; /* "10.0.0.3:51512, token ci", or "" */
};

/* Before the first question; c may be NULL: the node asks for itself. */
void pb_agent_introduce(struct pb_agent *a, const struct pb_agent_client *c);

#endif
