/*
 * node.h - everything that answers questions, in one object: stores, history, engine, samplers.
 *
 * Owns: its parts. One lives in `probing serve`; another, short-lived and without samplers or
 * writing, in a command that looks at a copied folder (--store DIR).
 * Threads: create and destroy from one, everything else from any.
 * Fails: with a reason. A part that cannot work (no engine library, no room) says so when used.
 * Not here: what it is made of (parts.h), SQL (query/query.h), HTTP (http/server.h).
 */
#ifndef PB_NODE_NODE_H
#define PB_NODE_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/settings.h"
#include "node/discover/scope.h"

struct pb_journal;
struct pb_keeper;

struct pb_node_opts {
    const char *store_dir; /* --store; NULL for the stores of this machine */
    const char *data_dir;  /* history; NULL for none */
    /* Where store_dir is a lake that machines share: its hours since 1970, the second not with
     * them; 0, 0: all. */
    int64_t lake_hours[2];
    const char *socket;    /* where it will answer, for questions to itself; NULL: nowhere */
    bool background; /* sample, seal, collect, map rings: in serve alone, see watchdog/deaths.h */
    int cores; /* cores to work on at a time; 0: half of all */
    struct pb_journal *journal; /* what it is at, for whoever starts it again; or NULL */
    struct pb_keeper *keeper;   /* listening sockets, for whoever starts it again; or NULL */
};

struct pb_node;

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
struct pb_node_count {
    size_t living, ended;
};
void pb_node_count(struct pb_node *n, const struct pb_scope *s, struct pb_arena *a,
                   struct pb_node_count *ret);

/* The node's own value of a setting: thousandths, a count or a switch as settings.def says. */
int64_t pb_node_setting(const struct pb_node *n, enum pb_setting_id id);
/*
 * Settings of what the scope covers: with one living process in scope its agent's (PB_NO_TARGET
 * when it has none), else the node's own. get: key NULL for all, in the order of settings.def.
 */
struct pb_node_value {
    const char *name, *value, *default_value, *doc;
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

/* "0.1.0": of this executable. */
const char *pb_node_version(void);

#endif
