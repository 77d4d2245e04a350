/*
 * ranks.h - ranks of jobs on all machines of a cluster as targets: "rank:17", "ranks:0-7",
 * "ranks:0-7@train.py", and with --cluster all of them or "job:train.py".
 *
 * Owns: nothing; lists live in the context's arena.
 * Threads: one.
 * Fails: PB_NO_TARGET when there is no cluster or no such rank; PB_USAGE when ranks are those of
 * several jobs, or the command looks at one process.
 * Not here: the members (node/peers/), what the command does.
 */
#ifndef PB_CLI_TARGET_RANKS_H
#define PB_CLI_TARGET_RANKS_H

#include "cli/cmd.h"

bool pb_cli_ranks_is(const char *word);
/*
 * word NULL: all ranks of the cluster. Sets ctx->cluster, ranks and of_job; for a command that does
 * not ask about several by itself (whole_cluster) the processes, too: ctx->job, or remote and scope
 * of the only one.
 */
int pb_cli_ranks_resolve(struct pb_ctx *ctx, const char *word);
/* Fills ctx->job with the processes that ctx->ranks and of_job mean. */
int pb_cli_ranks_find(struct pb_ctx *ctx);

#endif
