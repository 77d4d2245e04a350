/*
 * connections.h - which machines a process talks to: the other ends of its TCP connections.
 *
 * Owns: nothing; addresses go into the caller's arena.
 * Threads: any.
 * Fails: never; what may not be read has no connections.
 * Not here: who they are. They are places to ask, no more: whoever has the key is a peer.
 *
 * The ranks of a job are connected with the machine where they meet, most with each other as well,
 * so that the one tells where the others are without any configuration.
 */
#ifndef PB_CLUSTER_CONNECTIONS_H
#define PB_CLUSTER_CONNECTIONS_H

#include <stddef.h>
#include <sys/types.h>

#include "cluster/hostlist.h"
#include "host/text/arena.h"

/*
 * Adds the addresses at the other end of the established connections of these processes, without
 * those of this machine: "10.0.0.3", "fd00::3".
 */
void pb_connections_read(const pid_t *pids, size_t n, struct pb_hosts *h, struct pb_arena *a);

#endif
