/*
 * stacks.h - stacks of the target, read here or by a node elsewhere, and shown.
 *
 * Owns: the opened process, or the connection.
 * Threads: one; it may become the tracer of a thread for an instant.
 * Fails: with one line in ctx->err.
 * Not here: reading (stack/snapshot.h), drawing (display/stack.h).
 */
#ifndef PB_CLI_CLIENT_STACKS_H
#define PB_CLI_CLIENT_STACKS_H

#include "cli/cmd.h"
#include "cli/client/nodelink.h"
#include "stack/options.h"

struct pb_stacks {
    struct pb_stack_opts opts;
    struct pb_target *target; /* on this machine; NULL for a tree of processes */
    struct pb_nodelink node;  /* node elsewhere that answers in place of `target` */
    const char *path;
    struct pb_tracer tracer;
};

int pb_stacks_open(struct pb_ctx *ctx, struct pb_stacks *s, const struct pb_stack_opts *o);
void pb_stacks_close(struct pb_stacks *s);
/* Reads them now and puts them into ctx->out. */
int pb_stacks_show(struct pb_ctx *ctx, struct pb_stacks *s, bool json);

#endif
