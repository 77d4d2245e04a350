/*
 * link.h - a command's connection to the agent, which is injected if need be.
 *
 * Owns: nothing; the caller closes the agent.
 * Threads: one. Ctrl-C is sent to the evaluated code while a question is out.
 * Fails: with one line; says on stderr when it injected.
 * Not here: the messages (host/net/agent_socket.h), injecting (inject/inject.h).
 */
#ifndef PB_CLI_CLIENT_LINK_H
#define PB_CLI_CLIENT_LINK_H

#include "base/settings.h"
#include "cli/cmd.h"
#include "host/net/agent_socket.h"

/* Connects, through a node when the target is remote; loads the agent first when there is none. */
int pb_link_open(struct pb_ctx *ctx, struct pb_agent *a);
/* The same without loading anything: PB_NO_TARGET when there is none. */
int pb_link_find(struct pb_ctx *ctx, struct pb_agent *a, struct pb_err *err);
/* The target in messages: its pid, or as the user wrote it when it is remote. */
const char *pb_link_who(struct pb_ctx *ctx);

/* Refuses "key=value", len bytes: a process would not act on it, its node does. */
int pb_link_of_node(struct pb_ctx *ctx, const char *line, size_t len);
/* Hands "key=value" lines to an agent that is there already; none: nothing to do. */
int pb_link_apply(struct pb_ctx *ctx, const char *lines);
/*
 * Through the node at ctx->remote: loads the agent there unless it is, and applies the lines.
 * *ret_there: it was.
 */
int pb_link_load_remote(struct pb_ctx *ctx, const char *lines, bool *ret_there);

struct pb_link_eval {
    const char *code;
    size_t len;
    uint32_t flags; /* PB_WIRE_MAIN, … */
    int timeout_ms; /* 0: the setting eval.timeout */
    int frame;
    const char *frame_name; /* instead of a number, or NULL */
    pid_t tid;
    bool stay; /* a second Ctrl-C does not end the tool: it is at a prompt */
    pb_agent_sink *sink; /* takes what it prints; NULL: it goes to stdout and stderr */
    void *arg;
};

/* Reads the options --main, --frame, --tid and --timeout into e. */
int pb_link_options(struct pb_ctx *ctx, struct pb_link_eval *e);

/*
 * Runs code; what it prints goes to stdout and stderr as it comes. The first
 * Ctrl-C interrupts the code (a->interrupt says so afterwards), the second ends the tool.
 */
int pb_link_eval(struct pb_ctx *ctx, struct pb_agent *a, const struct pb_link_eval *e,
                 enum pb_wire_result *ret_result, const char **ret_why);

/*
 * Turns a result that is not OK into ctx->err: for PB_WIRE_NO_GIL with the
 * thread that holds it and its stack as ctx->note. what: "eval".
 */
int pb_link_explain(struct pb_ctx *ctx, const char *what, const struct pb_link_eval *e,
                    const struct pb_agent *a, enum pb_wire_result result, const char *why);

#endif
