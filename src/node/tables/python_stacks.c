/*
 * python.stacks - the stacks of all Python threads, read from outside at the moment of the query.
 */
#include "node/tables/frames.h"

static int fill(struct pb_node *n, const struct pb_scope *scope, const bool *wanted,
                struct pb_rows *rows, struct pb_err *err);

enum { HOLDS_GIL = PB_FRAME_NEXT, STATE };

static const struct pb_column_spec columns[] = {
    PB_FRAME_COLUMNS,
    {"holds_gil", PB_BOOL, "", "the thread holds the GIL"},
    {"state", PB_NAME, "", "running, idle, waiting or stopped"},
    PB_LIVE_COMMON,
};

const struct pb_live pb_live_python_stacks = {
    .name = "python.stacks",
    .doc = "stacks of all Python threads, now, innermost frame first",
    .columns = columns,
    .ncolumns = PB_COUNT_OF(columns),
    .fill = fill,
};

static void add_rest(struct pb_rows *rows, struct pb_row_cell *row, const struct pb_thread *t)
{
    pb_rows_bool(row, HOLDS_GIL, t->holds_gil);
    pb_rows_text(rows, row, STATE, pb_state_name(t->state));
}

static int fill(struct pb_node *n, const struct pb_scope *scope, const bool *wanted,
                struct pb_rows *rows, struct pb_err *err)
{
    (void)err;
    return pb_frames_fill(n, scope, wanted, true, add_rest, rows);
}
