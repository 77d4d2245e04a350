/*
 * dead.h - processes that are gone and left tables behind: `probing list --dead`.
 *
 * Owns: nothing. Threads: one.
 * Fails: when the folders cannot be looked at at all.
 * Not here: living processes (list.c), their rows (query.c).
 */
#ifndef PB_CLI_TARGET_DEAD_H
#define PB_CLI_TARGET_DEAD_H

#include "cli/cmd.h"
#include "node/query/ended.h"

/* format: "table", "json" or "csv". Needs no running node. */
int pb_dead_list(struct pb_ctx *ctx, const char *format);
/* The ids of those that ran a script (cli/target/job.h) and ended since, in ctx->arena. */
int pb_dead_of_script(struct pb_ctx *ctx, const char *script, int64_t since_ns, const char ***ret,
                      size_t *ret_n);
/* The one with this id, or the last one with this pid; NULL: not known. */
const struct pb_ended *pb_dead_find(struct pb_ctx *ctx, const char *id);

#endif
