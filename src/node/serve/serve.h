/*
 * serve.h - the life of this user's node: is it there, start it, run it, end it.
 *
 * Owns: while it runs, the lock of the data folder, the node and its server, in a process that is
 * started again when it dies (watchdog/supervise.h). A node that was started lives on its own.
 * Threads: one; parts of the node have their own.
 * Fails: with the node's own line when it cannot start; when the folder cannot be made, another
 * node holds it, or an address is taken. Every wait has a deadline. A signal (TERM, INT, HUP) or
 * POST /api/stop ends a node in good order.
 * Not here: questions to it (cli/client/nodelink.h), what it prints (cli/commands/serve.c).
 */
#ifndef PB_NODE_SERVE_SERVE_H
#define PB_NODE_SERVE_SERVE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "node/http/server.h"

/* Where this user's node keeps its things. */
struct pb_serve_paths {
    char data[PATH_MAX];   /* history, lock and log */
    char socket[PATH_MAX]; /* may be there or not */
    char lock[PATH_MAX + 96];
    char log[PATH_MAX + 16];
};

/* What the lock file says of the node that holds it. */
struct pb_serve_lock {
    int pid; /* the supervisor's */
    char version[32];
    char socket[128];
    int listeners, active;
    bool ready; /* all addresses that it was started with are open */
};

int pb_serve_paths_find(struct pb_serve_paths *p, struct pb_err *err);
/* Does a node answer there? */
bool pb_serve_answers(const char *socket);
/* False: no node has written anything there, or what is there makes no sense. */
bool pb_serve_lock_read(const char *path, struct pb_serve_lock *ret);

/* Starts this user's node unless it runs; waits until it answers. */
int pb_serve_start(struct pb_err *err);
/* Ends the node and waits for it. 1: there was none. */
int pb_serve_stop(struct pb_err *err);

struct pb_serve_opts {
    bool on_demand; /* goes quietly when another node serves the folder already; when ready, stderr
                       becomes the log, which tells whoever waits at its other end */
    const char *addresses; /* to listen on, a line each */
    struct pb_listen how;  /* all else about them */
    void (*opened)(void *arg, const char *bound); /* an address is open */
    void *arg;
};

/* Runs a node until it ends. */
int pb_serve_run(const struct pb_serve_opts *o, struct pb_err *err);

/* This user's history: $PROBING_HOME, $XDG_DATA_HOME/probing or ~/.local/share/probing. */
int pb_serve_data_dir(char *buf, size_t cap, struct pb_err *err);
/*
 * The node's socket for that history: /dev/shm/probing-<uid>/node-<8 hex of path and version>, so
 * that a tool of another version does not talk to it by mistake.
 */
int pb_serve_socket_path(char *buf, size_t cap, const char *data_dir, struct pb_err *err);

#endif
