/*
 * core_unpack.h - core files that are kept compressed, as systemd-coredump keeps them.
 *
 * Owns: nothing; the unpacked copy is a file without a name, which goes with its descriptor.
 * Threads: one. Fails: with a reason: the program that unpacks is missing, or failed.
 * Not here: what is in a core file (host/process/core.h).
 */
#ifndef PB_CLI_TARGET_CORE_UNPACK_H
#define PB_CLI_TARGET_CORE_UNPACK_H

#include "cli/cmd.h"

/* A descriptor of the core file ctx->core, unpacked where it is compressed; -1 with a reason. */
int pb_core_unpack(const struct pb_ctx *ctx, uid_t *ret_owner, struct pb_err *err);

#endif
