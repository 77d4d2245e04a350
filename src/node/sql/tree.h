/*
 * tree.h - a SELECT as the engine's own parser sees it: a tree in JSON, and back to text.
 *
 * Owns: nothing; trees live in the caller's arena.
 * Threads: any; a connection has one user at a time.
 * Fails: with one line when the engine cannot read or write it.
 * Not here: what may run (admit.h), what a tree is changed for (global.h).
 */
#ifndef PB_NODE_SQL_TREE_H
#define PB_NODE_SQL_TREE_H

#include "base/err.h"
#include "host/text/arena.h"
#include "host/text/buf.h"
#include "host/text/json.h"

struct pb_sql;
struct pb_sql_conn;

/* *ret: the whole document; pb_stmt_node gives the query of its one statement. */
int pb_stmt_read(struct pb_sql *s, struct pb_sql_conn *c, const char *sql, struct pb_arena *a,
                 struct pb_json *ret, struct pb_err *err);
const struct pb_json *pb_stmt_node(const struct pb_json *document);
/* Text of a query: node is JSON of what pb_stmt_node gave, changed or made. */
int pb_stmt_text(struct pb_sql *s, struct pb_sql_conn *c, const char *node, struct pb_arena *a,
                 const char **ret, struct pb_err *err);

/* Writes a tree; where swap returns text, that stands instead of the part. swap may be NULL. */
typedef const char *pb_stmt_swap(const struct pb_json *part, void *arg);
void pb_stmt_write(struct pb_buf *b, const struct pb_json *part, pb_stmt_swap *swap, void *arg);

/* Do two expressions say the same? Places, their name by AS and names of tables do not count. */
bool pb_stmt_same(const struct pb_json *a, const struct pb_json *b);
/* Is it an object with this "class" (of expressions) or "type"? */
bool pb_stmt_is(const struct pb_json *part, const char *key, const char *value);

#endif
