/*
 * forward.h - a port on this machine's loopback that shows the page of a node elsewhere.
 *
 * Owns: the connections, each with a thread of its own, while it runs.
 * Threads: one calls; those it starts end with it.
 * Fails: a connection that cannot be made or breaks is closed; the others go on.
 * Not here: who may (the browser signs in at the node: node/http/routes/route_relay.c).
 */
#ifndef PB_CLI_CLIENT_FORWARD_H
#define PB_CLI_CLIENT_FORWARD_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/err.h"
#include "host/net/http.h"

/* Listens at 127.0.0.1: port, or another when that is taken and `other`. *ret_port: which. */
int pb_forward_listen(int port, bool other, int *ret_port, struct pb_err *err);
/* Until *stop, which a signal sets: waiting is interrupted then. Closes fd. */
void pb_forward_run(int fd, const struct pb_http_where *to, const _Atomic bool *stop);

#endif
