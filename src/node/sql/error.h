/*
 * error.h - the engine's errors in our words.
 *
 * Owns: nothing.
 * Threads: any.
 * Fails: never; what it does not know is passed on as its first line.
 * Not here: refusing statements (rewrite.h).
 */
#ifndef PB_NODE_SQL_ERROR_H
#define PB_NODE_SQL_ERROR_H

#include "node/sql/engine.h"
#include "node/sql/internal.h"
#include "node/sql/text/text.h"

/*
 * text: what the engine said. The places it names are in e's text, which came from byte `base` of
 * the whole. Reads the catalog.
 */
void pb_sql_explain(struct pb_sql *s, const char *text, const struct pb_sql_edited *e, size_t base,
                    struct pb_sql_error *ret);
/* The engine's words on one line, without the JSON around them. */
void pb_sql_plain(const char *text, char *buf, size_t cap);
/* Byte of e's text that the engine points at, or -1. */
long pb_sql_error_at(const char *text);

#endif
