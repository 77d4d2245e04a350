/*
 * text.h - SQL as text: words, statements, places.
 *
 * Owns: nothing; tokens are places in the caller's text.
 * Threads: any.
 * Fails: never; text that is not SQL still has tokens.
 * Not here: what SQL means; the engine's parser decides that.
 */
#ifndef PB_NODE_SQL_TEXT_TEXT_H
#define PB_NODE_SQL_TEXT_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "host/text/buf.h"

enum pb_sql_kind {
    PB_SQL_END,
    PB_SQL_WORD,   /* name or keyword */
    PB_SQL_QUOTED, /* "name" */
    PB_SQL_STRING,
    PB_SQL_NUMBER,
    PB_SQL_SYMBOL, /* one character */
};

struct pb_sql_token {
    enum pb_sql_kind kind;
    size_t at, len;
};

/* The token at or behind *pos; comments and blanks are skipped. Moves *pos behind it. */
struct pb_sql_token pb_sql_next(const char *sql, size_t len, size_t *pos);
/* Blanks between tokens that not every reader takes for such become plain ones, byte by byte. */
void pb_sql_plain_blanks(char *sql, size_t len);
/* The one after, without moving. */
struct pb_sql_token pb_sql_peek(const char *sql, size_t len, size_t pos);
/* Is it this keyword or symbol? word in lower case. A quoted name is no keyword. */
bool pb_sql_is(const char *sql, struct pb_sql_token t, const char *word);
/* The name that a WORD or QUOTED token stands for, cut to cap; false for others. */
bool pb_sql_name(const char *sql, struct pb_sql_token t, char *buf, size_t cap);
/* Bytes of the statement at *pos without its semicolon; *pos moves behind that. 0: no more. */
size_t pb_sql_statement(const char *sql, size_t len, size_t *pos, size_t *ret_at);
/* "schema.table" at a place, as typed but unquoted: "python.memry". Empty when there is no name. */
void pb_sql_name_at(const char *sql, size_t len, size_t at, char *buf, size_t cap);

/* Text as SQL writes it, in quotes; and a name. */
void pb_sql_literal(struct pb_buf *b, const char *text);
void pb_sql_ident(struct pb_buf *b, const char *name);

/* Text with pieces put in, which knows where each byte came from. */
struct pb_sql_edit {
    size_t at, len; /* in the new text: len bytes that were not there */
};

enum { PB_SQL_EDITS_MAX = 64 };

struct pb_sql_edited {
    struct pb_buf text;
    struct pb_sql_edit edits[PB_SQL_EDITS_MAX];
    size_t nedits;
};

void pb_sql_edited_finish(struct pb_sql_edited *e);
/* Puts s in front of byte `at` of the new text. False when there were too many. */
bool pb_sql_insert(struct pb_sql_edited *e, size_t at, const char *s);
/* Place in the old text. */
size_t pb_sql_origin(const struct pb_sql_edited *e, size_t at);

#endif
