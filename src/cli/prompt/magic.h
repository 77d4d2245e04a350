/*
 * magic.h - the commands of the prompt that start with %.
 *
 * Owns: nothing. Threads: one.
 * Fails: with ctx->err set; the prompt reports it and goes on.
 */
#ifndef PB_CLI_PROMPT_MAGIC_H
#define PB_CLI_PROMPT_MAGIC_H

#include "cli/cmd.h"
#include "host/net/agent_socket.h"

int pb_magic_run(struct pb_ctx *ctx, struct pb_agent *agent, const char *line);
/* Names that start with text. */
size_t pb_magic_complete(const char *text, struct pb_arena *a, char ***ret);

#endif
