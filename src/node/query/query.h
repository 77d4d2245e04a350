/*
 * query.h - a question in SQL to a node, and what there is to say about the answer.
 *
 * Owns: nothing.
 * Threads: any.
 * Fails: as SQL does (sql/engine.h).
 * Not here: whom it covers (node.h: pb_node_scope), who asks (http/, the command line).
 */
#ifndef PB_NODE_QUERY_QUERY_H
#define PB_NODE_QUERY_QUERY_H

#include <stdbool.h>

#include "node/node.h"
#include "node/sql/engine.h"

/*
 * Runs it. An answer of no rows, or of one that counts none, comes with notices that say why,
 * unless quiet.
 */
int pb_query_run(struct pb_node *n, const struct pb_query *q, bool quiet, struct pb_sql_done *ret,
                 struct pb_sql_error *err);
/* Where the SQL engine's library is that this program would load; false: nowhere known. */
bool pb_query_library(char *buf, size_t cap);
/* Does it read tables at all? Then it is about processes. */
bool pb_query_reads_tables(const char *sql);

#endif
