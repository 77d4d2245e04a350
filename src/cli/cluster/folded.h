/*
 * folded.h - the stacks of all ranks of a cluster, equal ones as one: `probing cluster backtrace`.
 *
 * Owns: nothing. Threads: one.
 * Fails: with ctx->err; ctx->partial when some node did not answer.
 * Not here: one process (stacks.h), how nodes fold (node/tables/python_folded_stacks.c).
 */
#ifndef PB_CLI_CLUSTER_FOLDED_H
#define PB_CLI_CLUSTER_FOLDED_H

#include "cli/cmd.h"

/* Shows the merged stacks of ctx->ranks and of_job, or of all ranks. */
int pb_folded_show(struct pb_ctx *ctx, bool json);

#endif
