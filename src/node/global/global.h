/*
 * global.h - one question to all nodes of a cluster, and its one answer.
 *
 * Owns: while a question is out, files with the nodes' answers, in the engine's folder.
 * Threads: any; each question has one.
 * Fails: as SQL does; PB_NO_TARGET when there is no cluster, no such rank, or nobody answers.
 * Not here: what of a statement each node does (sql/global/global.h), members (peers/), bytes
 * (cluster/fan.h).
 *
 * An answer is of those that answered, whole: of a node that fails in one part nothing is used.
 * Who is missing is said with the answer, always.
 */
#ifndef PB_NODE_GLOBAL_GLOBAL_H
#define PB_NODE_GLOBAL_GLOBAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "cluster/members.h"
#include "host/text/arena.h"
#include "host/text/buf.h"
#include "host/text/json.h"
#include "node/sql/engine.h"

struct pb_node;

/* Which ranks a question is about. Both NULL: all processes of all nodes. */
struct pb_global_scope {
    const char *ranks; /* "0-7", or NULL: all of the job */
    const char *job;   /* key or script, or NULL */
    bool dead;         /* ended processes are asked about as well */
};

/* One node that was to be asked. */
struct pb_global_node {
    const char *id, *host, *address; /* address "": this node itself */
    bool asked, answered;
    const char *why; /* it did not */
    double ms;
    uint64_t bytes;
    struct pb_buf answer; /* the answer to pb_global_ask */
};

struct pb_global_nodes {
    struct pb_global_node *v;
    size_t n, asked, answered;
    uint64_t bytes;
    const char *no_node; /* ranks that were asked for and run at no known node, "6-9"; or NULL */
    const char *twice; /* "rank 3 of train.py at node-a, node-b": both say that; or NULL */
};

/*
 * Posts the same body to all, at most max bytes of answer from each. Answers are JSON or whatever
 * the route gives; the caller finishes the buffers with pb_global_finish. Only nodes are asked
 * where such ranks run.
 */
int pb_global_ask(struct pb_node *n, const struct pb_global_scope *w, const char *path,
                  const char *body, size_t max, uint64_t deadline_ns, const _Atomic bool *cancelled,
                  struct pb_arena *a, struct pb_global_nodes *ret, struct pb_err *err);
void pb_global_finish(struct pb_global_nodes *nodes);
/* Those that were asked and have no `why` have answered: after a change of these. */
void pb_global_count(struct pb_global_nodes *nodes);

/* A statement over all; q->scope is not looked at but for this node's own statements. */
int pb_global_query(struct pb_node *n, const struct pb_global_scope *w, const struct pb_query *q,
                    struct pb_arena *a, struct pb_sql_done *done, struct pb_global_nodes *nodes,
                    struct pb_sql_error *err);

/*
 * {"asked":4,"answered":3,"bytes":…,"missing":[{"node":…,"address":…,"reason":…}],"left_out":0,
 * "ranks_missing":"6-9","ranks_twice":…}; of those that are missing at most `named` are listed.
 */
void pb_global_json(struct pb_buf *b, const struct pb_global_nodes *nodes, size_t named);
/* "3 of 4 nodes answered; missing: node-d (does not answer)", or NULL when all did. */
const char *pb_global_missing(const struct pb_global_nodes *nodes, struct pb_arena *a);

#endif
