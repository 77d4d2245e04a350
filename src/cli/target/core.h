/*
 * core.h - probing --core FILE: a core file in place of a process.
 *
 * Owns: nothing. Threads: one. Fails: with a reason in ctx->err.
 * Not here: reading core files (host/process/core.h), their Python objects (memory_core.h).
 */
#ifndef PB_CLI_TARGET_CORE_H
#define PB_CLI_TARGET_CORE_H

#include "cli/cmd.h"
#include "host/process/core.h"
#include "stack/options.h"

/* Opens ctx->core, and says which mapped file is another one by now. */
int pb_cli_core_open(struct pb_ctx *ctx, struct pb_core *core);
/* Its stacks, into ctx->out. */
int pb_cli_core_stacks(struct pb_ctx *ctx, const struct pb_stack_opts *o, bool json);

#endif
