/*
 * target.h - from what the user calls a target to a process.
 *
 * Owns: nothing; text goes into the context's arena.
 * Threads: one.
 * Fails: PB_USAGE for a missing or ambiguous target, or one that the command cannot look at;
 * PB_NO_TARGET when nothing matches.
 * Not here: whether the process may be read (host/process/proc.h).
 */
#ifndef PB_CLI_TARGET_TARGET_H
#define PB_CLI_TARGET_TARGET_H

#include "cli/cmd.h"

enum pb_cli_target_kind {
    PB_CLI_TARGET_PID,
    PB_CLI_TARGET_ID,     /* for a node: "1234-5678", pid and start time; "12,34", several */
    PB_CLI_TARGET_REMOTE, /* "host:8080", or one process there: "host:8080/1234" */
    PB_CLI_TARGET_JOB,    /* "job:train.py": cli/target/job.h */
    PB_CLI_TARGET_RANKS,  /* "rank:17", "ranks:0-7", "ranks:0-7@train.py": cli/target/ranks.h */
    PB_CLI_TARGET_TEXT,
};

/* What a word looks like; nothing is looked up. */
enum pb_cli_target_kind pb_cli_target_kind(const char *word);

/*
 * Sets ctx->pid, job, remote and scope as ctx->cmd needs them. Fills ctx->note when several
 * processes match.
 */
int pb_cli_target_resolve(struct pb_ctx *ctx);

#endif
