/*
 * serveloop.h - the life of a node: lock, socket, loop, end.
 *
 * Owns: the lock of the data folder while it runs, the node and its server, in a process that is
 * started again when it dies (supervise.h).
 * Threads: one; parts of the node have their own.
 * Fails: when the folder cannot be made, another node holds it, or an address is taken. A signal
 * (TERM, INT, HUP) or POST /api/stop ends it in good order.
 * Not here: the command (serve.c), starting it from elsewhere (nodestart.h).
 */
#ifndef PB_CLI_SERVELOOP_H
#define PB_CLI_SERVELOOP_H

#include <stdbool.h>

#include "cli/cmd.h"

/*
 * Runs until the node ends. on_demand: goes quietly when another node serves the folder already;
 * when ready, stderr becomes the log, which tells whoever waits at its other end. addresses:
 * lines.
 */
int pb_serve_loop(struct pb_ctx *ctx, bool on_demand, const char *addresses, bool no_token);

#endif
