/*
 * rewrite.h - what is looked for in a statement before the engine sees it, and changed in it.
 *
 * Owns: nothing.
 * Threads: any.
 * Fails: with one line.
 * Not here: tokens (text.h), what the engine refuses itself.
 */
#ifndef PB_NODE_SQL_REWRITE_H
#define PB_NODE_SQL_REWRITE_H

#include "base/err.h"
#include "node/sql/catalog.h"
#include "node/sql/text/text.h"

/* `system` is also a database of the engine's own: our tables there get their full name. */
void pb_rewrite_qualify(struct pb_sql_edited *e, const struct pb_catalog *c);
/*
 * Gives aggregates over a whole answer a partition: "sum(x) OVER ()" becomes
 * "sum(x) OVER (PARTITION BY 1)". Of the former, the engine's threads lose count now and then
 * (DuckDB issue 25713), which ends the database. Functions that count rows in their order stay.
 */
void pb_rewrite_windows(struct pb_sql_edited *e);
/*
 * Puts GROUP BY ALL into the SELECT around byte `at`, if that lies between SELECT and FROM and
 * there is no GROUP BY. Appends what is grouped by to `grouped`. False when it cannot be done.
 */
bool pb_rewrite_group(struct pb_sql_edited *e, size_t at, struct pb_buf *grouped);
/* Does it name a table at all? */
bool pb_rewrite_has_from(const char *sql, size_t len);
/*
 * SHOW TABLES, DESCRIBE t, DESC t, SHOW t: a SELECT that answers it with our words. False when it
 * is none of them. The statement is ours then: places in it mean nothing.
 */
bool pb_rewrite_describe(const char *sql, size_t len, const struct pb_catalog *c,
                         struct pb_buf *ret);

#endif
