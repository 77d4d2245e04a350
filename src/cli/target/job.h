/*
 * job.h - several processes as one target: "job:train.py".
 *
 * Owns: nothing; lists live in the context's arena.
 * Threads: one.
 * Fails: PB_NO_TARGET when nobody runs that script, PB_USAGE when it is several users' or the
 * command looks at one process. What fails for one process is printed, and the rest goes on.
 * Not here: what the command does with each of them.
 *
 * A job is every Python process that runs the script, and the Python processes that those
 * started: the ranks and their data loader workers. The launcher (torchrun) runs a script of its
 * own and is no part of it.
 */
#ifndef PB_CLI_TARGET_JOB_H
#define PB_CLI_TARGET_JOB_H

#include "cli/cmd.h"

#define PB_JOB_PREFIX "job:"

/* Sets ctx->job, or ctx->pid and ctx->scope, from the part of the target behind "job:". */
int pb_job_resolve(struct pb_ctx *ctx, const char *script);

/* Makes one process the target of the command, here or on its machine. */
void pb_job_choose(struct pb_ctx *ctx, const struct pb_ctx_process *p);

/* Runs the command for each process of ctx->job, one after the other. */
int pb_job_run(struct pb_ctx *ctx);
/* For one of them alone. What fails is said on stderr as well. */
int pb_job_run_alone(struct pb_ctx *ctx, const struct pb_ctx_process *p, bool json);
bool pb_job_wants_json(const struct pb_ctx *ctx);
/* -1 with what there is to say when it failed for some of them. */
int pb_job_failed(struct pb_ctx *ctx, const char *whole, enum pb_code code, size_t failed);

#endif
