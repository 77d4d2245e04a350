/*
 * statement.h - one statement of a query: from words to a result that is being fetched.
 *
 * Owns: its connection, the stores it reads, the engine's objects.
 * Threads: one.
 * Fails: with the place in the text.
 * Not here: bytes of the answer (output.h), several statements (run.c).
 *
 * open: what is in rings and files is fixed, views are made. prepare: bound by the engine.
 * start: running. Then fetch until there is no more, and close.
 */
#ifndef PB_NODE_SQL_STATEMENT_H
#define PB_NODE_SQL_STATEMENT_H

#include "node/sql/internal.h"
#include "node/sql/text/text.h"

struct pb_statement {
    struct pb_sql *sql;
    struct pb_sql_task task;
    struct pb_sql_conn *conn;
    struct pb_arena arena;
    struct pb_sql_edited text;
    size_t base; /* where it begins in the whole */
    size_t inner; /* begin of the statement that an EXPLAIN explains; 0 for others */
    bool reads;  /* it names tables */
    bool begun, bound, locked; /* archive and catalog */
    duckdb_extracted_statements extracted;
    duckdb_prepared_statement prepared;
    duckdb_pending_result pending;
    duckdb_result result;
    bool has_result;
    struct pb_sql_error *err;
};

/* sql: the statement alone. task: filled but for stores and lock; it is copied. */
int pb_statement_open(struct pb_statement *st, struct pb_sql *s, const struct pb_sql_task *task,
                      const char *sql, size_t len, size_t base, struct pb_sql_error *err);
int pb_statement_prepare(struct pb_statement *st);
/* Binds other text instead, ours, around what was prepared. */
int pb_statement_replace(struct pb_statement *st, const char *sql);
/* Name of a column of what was prepared, in the arena. */
const char *pb_statement_column(struct pb_statement *st, size_t i);
int pb_statement_start(struct pb_statement *st);
/* NULL at the end, or when it failed: then *ret_failed. To be destroyed. */
duckdb_data_chunk pb_statement_fetch(struct pb_statement *st, bool *ret_failed);
/* What the engine says about the result: "" when all is well. */
const char *pb_statement_said(struct pb_statement *st);
/* Ends its result and its transaction; only closing is left. */
void pb_statement_end_reading(struct pb_statement *st);
void pb_statement_close(struct pb_statement *st);

#endif
