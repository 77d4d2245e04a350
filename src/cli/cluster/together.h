/*
 * together.h - one act on all ranks at once.
 *
 * Owns: a child process for each rank while it runs.
 * Threads: one, in each of the processes.
 * Fails: what fails for one rank is said, and the others are done; the first code is the whole's.
 * Not here: one process after the other (job.h), questions to all nodes (nodelink.h).
 *
 * What a rank's command prints is kept until those before it are done, so answers come by rank. A
 * machine that hangs costs its own time only.
 */
#ifndef PB_CLI_CLUSTER_TOGETHER_H
#define PB_CLI_CLUSTER_TOGETHER_H

#include "cli/cmd.h"

/* Runs the command for each process of ctx->job. */
int pb_together_run(struct pb_ctx *ctx);

#endif
