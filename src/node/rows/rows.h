/*
 * rows.h - the answer of a live table: rows in memory, column by column in meaning, row by row
 * in making.
 *
 * Owns: its cells and texts, in one arena.
 * Threads: one maker; any readers once it is made.
 * Fails: never.
 * Not here: SQL (sql/), what the rows are about (tables/).
 */
#ifndef PB_NODE_ROWS_H
#define PB_NODE_ROWS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/text/arena.h"
#include "store/writer.h"

struct pb_row_cell {
    bool null;
    union {
        int64_t i;
        double d;
        bool b;
        const char *s; /* in the arena, terminated */
    } v;
};

struct pb_rows {
    const struct pb_column_spec *columns;
    size_t ncolumns;
    struct pb_row_cell *cells; /* nrows * ncolumns */
    size_t nrows, cap;
    struct pb_arena arena;
    const char *notice; /* a line for whoever asked: what is not there, and why; or NULL */
    uint64_t deadline_ns;          /* the query's deadline, monotonic; 0: none */
    const _Atomic bool *cancelled; /* whoever asked has gone; or NULL */
};

void pb_rows_init(struct pb_rows *r, const struct pb_column_spec *columns, size_t ncolumns);
void pb_rows_finish(struct pb_rows *r);
/* A new row, all NULL; valid until the next one. Set cells by column number. */
struct pb_row_cell *pb_rows_add(struct pb_rows *r);
/* Setters. Text is copied; a NULL text stays NULL. */
void pb_rows_int(struct pb_row_cell *row, size_t column, int64_t v);
void pb_rows_real(struct pb_row_cell *row, size_t column, double v);
void pb_rows_bool(struct pb_row_cell *row, size_t column, bool v);
void pb_rows_text(struct pb_rows *r, struct pb_row_cell *row, size_t column, const char *s);

#endif
