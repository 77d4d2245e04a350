/*
 * environment.h - settings in this command's own environment, handed on to whom they concern.
 *
 * Owns: nothing; texts live in ctx->arena.
 * Threads: one.
 * Fails: PB_USAGE for a value that makes no sense, with the variable's name.
 * Not here: what the agent and the node read from their own environment (base/settings.h).
 *
 * `PROBING_SAMPLE_RATE=0.1 probing PID inject` means the process, which was started without that
 * variable; `PROBING_RETENTION_DAYS=3 probing query …` the node, which may run already.
 */
#ifndef PB_CLI_CLIENT_ENVIRONMENT_H
#define PB_CLI_CLIENT_ENVIRONMENT_H

#include "cli/cmd.h"
#include "cli/client/nodelink.h"

/* "key=value" lines of all that concerns a process. */
int pb_environment_lines(struct pb_ctx *ctx, const char **ret);

/*
 * Hands what concerns a node to one that was there before this command; what was set in the node
 * by hand stays. What it does not take is said on stderr, and is no error.
 */
void pb_environment_tell(struct pb_ctx *ctx, struct pb_nodelink *n);
/* The same for a command that has no other question to the node: nothing is started. */
void pb_environment_tell_running(struct pb_ctx *ctx);

#endif
