/*
 * words.h - what is looked for in a statement before the engine sees it, and changed in it.
 *
 * Owns: nothing.
 * Threads: any.
 * Fails: with one line.
 * Not here: tokens (text.h), what the engine refuses itself.
 */
#ifndef PB_NODE_SQL_WORDS_H
#define PB_NODE_SQL_WORDS_H

#include "base/err.h"
#include "node/sql/catalog.h"
#include "node/sql/text.h"

/* `system` is also a database of the engine's own: our tables there get their full name. */
void pb_words_qualify(struct pb_sql_edited *e, const struct pb_catalog *c);
/*
 * Puts GROUP BY ALL into the SELECT around byte `at`, if that lies between SELECT and FROM and
 * there is no GROUP BY. Appends what is grouped by to `grouped`. False when it cannot be done.
 */
bool pb_words_group(struct pb_sql_edited *e, size_t at, struct pb_buf *grouped);
/* Does it name a table at all? */
bool pb_words_has_from(const char *sql, size_t len);
/*
 * SHOW TABLES, DESCRIBE t, DESC t, SHOW t: a SELECT that answers it with our words. False when it
 * is none of them. The statement is ours then: places in it mean nothing.
 */
bool pb_words_describe(const char *sql, size_t len, const struct pb_catalog *c,
                       struct pb_buf *ret);

#endif
