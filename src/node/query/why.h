/*
 * why.h - an empty answer says why, and what would fill it.
 *
 * Owns: nothing.
 * Threads: any.
 * Fails: never; what it cannot find out it does not say.
 * Not here: errors (sql/error.h), what each collector does.
 */
#ifndef PB_NODE_WHY_H
#define PB_NODE_WHY_H

#include "node/parts.h"

/*
 * After a query that gave no row, or one (count(*) of nothing is a row): adds a line to the
 * notices for each table it read that has no rows in scope, and for a filter that none passed.
 */
void pb_why_empty(struct pb_node *n, const struct pb_scope *scope, const char *sql,
                  struct pb_sql_done *done);

#endif
