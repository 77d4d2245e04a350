/*
 * nodelink_internal.h - what nodelink.c and nodequery.c share.
 *
 * Owns: nothing. Threads: one; the flag is set by a signal handler.
 * Fails: each call fills ctx->err from what went wrong, and returns -1.
 */
#ifndef PB_CLI_CLIENT_NODELINK_INTERNAL_H
#define PB_CLI_CLIENT_NODELINK_INTERNAL_H

#include <signal.h>

#include "cli/client/nodelink.h"

/* Ctrl-C came since pb_nodelink_catch: all that a signal handler can get at. */
extern _Atomic bool pb_nodelink_cancelled;
/* Ctrl-C sets the flag from now on; the second one ends the tool. Give back *old by sigaction. */
void pb_nodelink_catch(struct sigaction *old);

/* at: the byte in sql that it is about, or -1; sql may be NULL. */
int pb_nodelink_fail(struct pb_ctx *ctx, enum pb_code code, const char *message,
                     const char *nearest, const char *sql, long at);
/* {"error": {"code": …, "message": …, "at": …, "nearest": …}} */
int pb_nodelink_error(struct pb_ctx *ctx, const struct pb_json *body, int status, const char *sql);
/* An answer with a status other than 200. */
int pb_nodelink_refused(struct pb_ctx *ctx, int status, const char *text, size_t len,
                        const char *sql);
/* The connection failed, not the question. */
int pb_nodelink_broken(struct pb_ctx *ctx, const struct pb_nodelink *n, const struct pb_err *err);

#endif
