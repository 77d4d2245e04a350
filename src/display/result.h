/*
 * result.h - the answer to a query as a table for people.
 *
 * Owns: the first rows of a result until their widths are known.
 * Threads: one.
 * Fails: when a line is not what a node sends.
 * Not here: asking (nodelink.h), pagers and files (cli/destination.h), JSON and CSV (the node).
 *
 *     func         | file                  | lineno
 *     -------------|-----------------------|-------
 *     forward_pass | /app/training_loop.py | 89
 *
 * Long cells are shortened so that lines fit the terminal, or a wide page in a pipe. Numbers have
 * four digits; neither they nor times are cut. Widths come from the first PB_RESULT_HELD rows; what
 * comes behind them is printed as it arrives.
 */
#ifndef PB_DISPLAY_RESULT_H
#define PB_DISPLAY_RESULT_H

#include "display/print.h"

enum { PB_RESULT_HELD = 10000 };

struct pb_result {
    struct pb_print *out;
    bool markdown;
    struct pb_arena arena; /* memory of the result that is being read */
    struct pb_result_column *columns;
    size_t ncolumns;
    const char **cells; /* clean text, row by row */
    size_t nrows, cap;
    size_t widest; /* a cell may be, in a pipe */
    bool streaming; /* the first rows are out */
    bool plan;      /* the answer to EXPLAIN: a drawing of many lines, which goes out as it is */
    size_t results; /* printed so far */
};

void pb_result_init(struct pb_result *r, struct pb_print *out, bool markdown);
void pb_result_finish(struct pb_result *r);
/* One line of the "rows" format: {"columns":[…]} or an array of cells. Prints into out->buf. */
int pb_result_line(struct pb_result *r, const char *line, size_t len, struct pb_err *err);
/* Nothing more will come: prints what is held. */
void pb_result_end(struct pb_result *r);

#endif
