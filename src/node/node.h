/*
 * node.h - everything that answers questions, in one object: stores, history, engine, samplers.
 *
 * Owns: its parts. One lives in `probing serve`; another, short-lived and without samplers or
 * writing, in a command that looks at a copied folder (--store DIR).
 * Threads: pb_node_query from any; create and destroy from one.
 * Fails: with a reason. A part that cannot work (no engine library, no room) says so when used.
 * Not here: HTTP (http/server.h), the command line.
 */
#ifndef PB_NODE_NODE_H
#define PB_NODE_NODE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/settings.h"
#include "node/archive.h"
#include "node/discover.h"
#include "node/scope.h"
#include "node/sql/engine.h"

struct pb_journal;
struct pb_keeper;

struct pb_node_opts {
    const char *store_dir; /* --store; NULL for the stores of this machine */
    const char *data_dir;  /* history; NULL for none */
    bool background;       /* sample, seal, collect: only in serve */
    struct pb_journal *journal; /* what it is at, for whoever starts it again; or NULL */
    struct pb_keeper *keeper;   /* its listening sockets, likewise */
};

struct pb_pythons;  /* which processes are Python */
struct pb_targets;  /* opened processes for the stack reader, kept between queries */
struct pb_samplers; /* system.*, gpu.*: rows about processes, written by the node */
struct pb_node_audit; /* probing.audit: who was refused */

struct pb_node {
    struct pb_node_opts opts;
    char host[64];
    struct pb_aside *aside;     /* rings that are not to be read; NULL without a data folder */
    struct pb_discover *discover;
    struct pb_archive *archive; /* NULL without a data folder */
    struct pb_sql *sql;
    struct pb_pythons *pythons;
    struct pb_targets *targets;
    struct pb_samplers *samplers; /* NULL unless background */
    struct pb_node_audit *audit;  /* the same */
    uint64_t started_ns; /* monotonic */
    int stop_fd;         /* becomes readable when pb_node_stop was called */
    _Atomic int64_t settings[PB_SETTING_COUNT];    /* the node's own; read by pb_node_setting */
    _Atomic bool chosen[PB_SETTING_COUNT]; /* set by hand: no command's environment changes it */
    _Atomic uint64_t queries, rows_out, bytes_out; /* probing.cost */
};

int pb_node_create(struct pb_node **ret, const struct pb_node_opts *o, struct pb_err *err);
void pb_node_destroy(struct pb_node *n);

/*
 * From "1234", "1234-5678", or a list of them joined by commas (NULL or "": all) to a scope.
 * A bare pid means the living process, else the one of that number that died last. One with a
 * question mark behind it is left out when there is none, as long as there is another.
 */
int pb_node_scope(struct pb_node *n, const char *target, struct pb_arena *a,
                  struct pb_scope *ret, struct pb_err *err);

/*
 * What a question without a target covers: the living processes, and with the dead everything.
 * A copied folder has no living ones: everything. What the scope withholds stays as it is.
 */
void pb_node_scope_all(struct pb_node *n, bool dead, struct pb_arena *a, struct pb_scope *ret);
/* How many processes a scope covers; agents and Python processes, not the node. */
struct pb_node_census {
    size_t living, ended;
};
void pb_node_census(struct pb_node *n, const struct pb_scope *s, struct pb_arena *a,
                    struct pb_node_census *ret);

/* The node's own value of a setting: thousandths, a count or a switch as settings.def says. */
int64_t pb_node_setting(const struct pb_node *n, enum pb_setting_id id);
/*
 * Settings of what the scope covers: with one living process in scope its agent's (PB_NO_TARGET
 * when it has none), else the node's own. get: key NULL for all, in the order of settings.def.
 */
struct pb_node_value {
    const char *name, *value, *otherwise, *doc; /* otherwise: the default */
};
int pb_node_get(struct pb_node *n, const struct pb_scope *scope, const char *key,
                struct pb_arena *a, struct pb_node_value **ret, size_t *ret_n, struct pb_err *err);
int pb_node_set(struct pb_node *n, const struct pb_scope *scope, const char *key,
                const char *value, struct pb_err *err);
/* As a command's environment says: for the node itself, unless it was set by hand. */
int pb_node_suggest(struct pb_node *n, const struct pb_scope *scope, const char *key,
                    const char *value, struct pb_err *err);

/* Removes what ended processes left and nobody needs; now and then. */
void pb_node_tidy(struct pb_node *n);

/* Asks the server loop around this node to end; any thread. */
void pb_node_stop(struct pb_node *n);

/* This user's history: $PROBING_HOME, $XDG_DATA_HOME/probing or ~/.local/share/probing. */
int pb_node_data_dir(char *buf, size_t cap, struct pb_err *err);
/*
 * The node's socket for that history: /dev/shm/probing-<uid>/node-<8 hex of path and version>, so
 * that a tool of another version does not talk to it by mistake.
 */
int pb_node_socket_path(char *buf, size_t cap, const char *data_dir, struct pb_err *err);
/* "0.1.0": of this executable. */
const char *pb_node_version(void);

#endif
