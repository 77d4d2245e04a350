/*
 * listen.h - TCP addresses of this user's node, as commands open them.
 *
 * Owns: nothing; the address is the node's, or a process's and closes with it.
 * Threads: one.
 * Fails: with the node's own line in ctx->err.
 * Not here: the sockets (node/http/server.h).
 */
#ifndef PB_CLI_CLIENT_LISTEN_H
#define PB_CLI_CLIENT_LISTEN_H

#include "cli/cmd.h"
#include "node/http/server.h"

/* Opens one, with the token of the command, and says so. */
int pb_listen_open(struct pb_ctx *ctx, const struct pb_listen *w);
/* Says where it listens, and in a second line, on stderr, how to connect and what to beware of. */
void pb_listen_say(struct pb_ctx *ctx, const char *bound, const struct pb_listen *w);

#endif
