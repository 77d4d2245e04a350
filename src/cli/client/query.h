/*
 * query.h - SQL from elsewhere than its own command: `probing tables`, the prompt's %query.
 *
 * Owns: nothing. Threads: one.
 * Fails: with ctx->err set and, for SQL, the place as ctx->note.
 * Not here: the command (query.c).
 */
#ifndef PB_CLI_CLIENT_QUERY_H
#define PB_CLI_CLIENT_QUERY_H

#include "cli/cmd.h"

/* Asks for ctx->scope and prints the rows; a table goes through a pager when it is long. */
int pb_query_show(struct pb_ctx *ctx, const char *sql, const char *format);

#endif
