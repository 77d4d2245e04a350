/*
 * python.stacks - the stacks of all Python threads, read from outside at the moment of the query.
 */
#include "node/tables/read/frames.h"

static pb_live_fill fill;

#define COLUMNS(X)                                                                                 \
    PB_FRAME_COLUMNS(X)                                                                            \
    X(holds_gil, BOOL, "", "the thread holds the GIL")                                             \
    X(state, NAME, "", "running, idle, waiting or stopped")                                        \
    PB_LIVE_COMMON(X)

PB_TABLE_COLUMNS(COLUMNS);

const struct pb_live pb_live_python_stacks = {
    PB_TABLE_SPEC("python.stacks", "stacks of all Python threads, now, innermost frame first"),
    .fill = fill,
};

static void add_rest(struct pb_rows *rows, struct pb_row_cell *row, const struct pb_thread *t)
{
    pb_rows_bool(row, AT_holds_gil, t->holds_gil);
    pb_rows_text(rows, row, AT_state, pb_state_name(t->state));
}

static int fill(struct pb_node *n, const struct pb_scope *scope, const bool *wanted,
                struct pb_rows *rows, struct pb_err *err)
{
    (void)err;
    return pb_frames_fill(n, scope, wanted, true, add_rest, rows);
}
