/*
 * output.h - rows of a result as bytes of a format, handed to the sink in pieces.
 *
 * Owns: a buffer of about PIECE bytes and what it knows about the columns.
 * Threads: one.
 * Fails: PB_FAIL when the reader went away.
 * Not here: cells (value.h), Parquet (run.c: the engine writes that itself).
 */
#ifndef PB_NODE_SQL_ANSWER_OUTPUT_H
#define PB_NODE_SQL_ANSWER_OUTPUT_H

#include "node/sql/engine.h"
#include "node/rows/rows.h"
#include "node/sql/answer/value.h"

struct pb_output {
    const struct pb_query *query;
    struct pb_sql_done *done;
    struct pb_buf buf;
    struct pb_buf *keys; /* ,"name": of each column, for objects */
    char **names;
    struct pb_value_type *types;
    const char *const *units; /* units of this statement's columns, NULL for none; or NULL */
    size_t ncolumns;
    uint64_t rows; /* rows of this statement */
    bool first_statement;
};

void pb_output_init(struct pb_output *o, const struct pb_query *q, struct pb_sql_done *done);
void pb_output_finish(struct pb_output *o);
/*
 * The columns of a statement's result; what stands before the first row. titles: as titles.h has
 * them, or NULL. types: of those columns that were cast to another one, what they were; or NULL.
 */
void pb_output_begin(struct pb_output *o, duckdb_result *result, const char *const *titles,
                     const char *const *types);
/*
 * All rows of a chunk, or as many as max_rows lets through: then 1, and those of this chunk that
 * are left out are counted. -1: failed.
 */
int pb_output_chunk(struct pb_output *o, duckdb_data_chunk chunk, struct pb_err *err);
/* What stands behind the last row. */
int pb_output_end(struct pb_output *o, struct pb_err *err);
/* A whole answer that did not come from the engine. */
int pb_output_rows(struct pb_output *o, const struct pb_rows *rows, struct pb_err *err);
/* Bytes as they are. */
int pb_output_raw(struct pb_output *o, const void *data, size_t len, struct pb_err *err);
int pb_output_flush(struct pb_output *o, struct pb_err *err);

#endif
