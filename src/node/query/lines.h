/*
 * lines.h - the answer to a question in SQL, line by line, for parts of the node itself.
 *
 * Owns: nothing.
 * Threads: any.
 * Fails: as SQL does, or as whoever takes the lines says.
 * Not here: what the lines mean (sql/engine.h: PB_FORMAT_ROWS).
 */
#ifndef PB_NODE_QUERY_LINES_H
#define PB_NODE_QUERY_LINES_H

#include "node/query/query.h"

/* One line without its end. Negative: stop, err says why. */
typedef int pb_query_take(void *arg, const char *line, size_t len, struct pb_err *err);

/* q: all but its format and where it goes. ret_truncated may be NULL. */
int pb_query_lines(struct pb_node *n, const struct pb_query *q, pb_query_take *take, void *arg,
                   bool *ret_truncated, struct pb_err *err);

#endif
