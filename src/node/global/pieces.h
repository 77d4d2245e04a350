/*
 * pieces.h - the nodes' answers to the parts of a statement, as files until they are put together.
 *
 * Owns: the files, in the engine's folder; gone with pb_pieces_drop.
 * Threads: one for each gathering.
 * Fails: an answer that cannot be read is none, and its node is named.
 */
#ifndef PB_NODE_GLOBAL_PIECES_H
#define PB_NODE_GLOBAL_PIECES_H

#include <stdatomic.h>

#include "node/global/internal.h"
#include "node/query/query.h"
#include "node/sql/global/global.h"

/* One part's answer of one node. */
struct pb_piece {
    struct pb_gathering *g;
    struct pb_global_node *node;
    const struct pb_global_part *part;
    char path[320];
    int fd;
    uint64_t bytes;
    bool empty; /* there is no such table there */
    const char *note; /* what the node says with it; or NULL */
};

struct pb_gathering {
    struct pb_node *n;
    const struct pb_global_scope *scope;
    const struct pb_query *q;
    struct pb_arena *arena;
    struct pb_global_plan plan;
    struct pb_global_nodes *nodes;
    struct pb_piece *pieces;
    size_t npieces;
    uint64_t begun_ns, deadline_ns;
    uint64_t bytes, max;
    bool too_much;
    bool others; /* columns of some node are others than was thought here */
    _Atomic bool stop; /* too much, or whoever asked has gone */
};

/* Asks all nodes for the columns of the users' tables that are named. Was any of it new? */
bool pb_global_learn(struct pb_gathering *g);
/* Asks every node for every part. */
int pb_pieces_ask(struct pb_gathering *g, struct pb_err *err);
/* SQL of the view over the answers to one part, in the arena; NULL when there is none. */
const char *pb_pieces_view(struct pb_gathering *g, const struct pb_global_part *part);
/* Are there answers that cannot be read? Their nodes count as missing from then on. */
bool pb_pieces_drop_unreadable(struct pb_gathering *g);
/* "node-b: rows of … left out", a line each: what the nodes say of their answers. */
void pb_pieces_put_notices(struct pb_gathering *g, struct pb_buf *lines);
void pb_pieces_drop(struct pb_gathering *g);

#endif
