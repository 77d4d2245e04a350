/*
 * table.h - rows and columns for people, JSON and CSV for programs.
 *
 * Owns: nothing; cells belong to the caller.
 * Threads: one.
 * Fails: never.
 * Not here: what the rows are about.
 */
#ifndef PB_DISPLAY_TABLE_H
#define PB_DISPLAY_TABLE_H

#include "display/print.h"

struct pb_column {
    const char *title;
    bool right;       /* numbers */
    size_t min_width;
    bool shrinks;     /* may be shortened when the line would wrap */
};

struct pb_table {
    const struct pb_column *columns;
    size_t ncolumns;
    const char **cells; /* row by row, ncolumns each; NULL is empty */
    size_t nrows;
};

/* Aligned columns, two spaces between them, a dim header. */
void pb_table_print(struct pb_print *out, const struct pb_table *t);
/* As RFC 4180 has it, with a header; lines end with a plain newline. */
void pb_table_csv(struct pb_buf *out, const struct pb_table *t);
/* The same where people may read it: nothing in it drives a terminal. */
void pb_table_print_csv(struct pb_print *out, const struct pb_table *t);

#endif
