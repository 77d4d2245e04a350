/*
 * export_trace.h - `export --trace`: a window of time as a file for Perfetto or Chrome.
 *
 * Owns: nothing.
 * Threads: one.
 * Fails: with ctx->err.
 * Not here: what such a file consists of (recording/timeline/timeline.h).
 */
#ifndef PB_CLI_FLAME_EXPORT_TRACE_H
#define PB_CLI_FLAME_EXPORT_TRACE_H

#include "cli/cmd.h"

int pb_export_trace(struct pb_ctx *ctx);

#endif
