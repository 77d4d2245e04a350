/*
 * nodestart.h - this user's node: is it there, start it, end it, let it listen.
 *
 * Owns: nothing; a node that was started lives on its own.
 * Threads: one.
 * Fails: with the node's own line when it cannot start; every wait has a deadline.
 * Not here: questions (nodelink.h), the node's own loop (serve.c).
 */
#ifndef PB_CLI_NODESTART_H
#define PB_CLI_NODESTART_H

#include <limits.h>
#include <stdbool.h>

#include "cli/cmd.h"

/* Where this user's node keeps its things. */
struct pb_nodeplace {
    char data[PATH_MAX];   /* history, lock and log */
    char socket[PATH_MAX]; /* may be there or not */
    char lock[PATH_MAX + 16];
    char log[PATH_MAX + 16];
};

/* What the lock file says of the node that holds it. */
struct pb_nodelock {
    int pid;
    char version[32];
    char socket[128];
    int listeners, active;
};

int pb_nodeplace_find(struct pb_nodeplace *p, struct pb_err *err);
/* Does a node answer there? */
bool pb_nodeplace_answers(const char *socket);
/* False: no node has written anything there, or what is there makes no sense. */
bool pb_nodelock_read(const char *path, struct pb_nodelock *ret);

/* Opens a port of the node for a process ("<pid>-<start>", or NULL); *ret_bound as bound. */
int pb_nodestart_listen(struct pb_ctx *ctx, const char *address, const char *owner, bool no_token,
                        const char **ret_bound);
/*
 * Says where it listens, and in a second line, on stderr, how to connect and what to beware of.
 */
void pb_nodestart_say(struct pb_ctx *ctx, const char *bound, bool no_token);
/* Ends the node and waits for it. 1: there was none. */
int pb_nodestart_stop(struct pb_ctx *ctx);

#endif
