/*
 * python.backtrace - the main thread's stack, read from outside at the moment of the query.
 */
#include "node/tables/frames.h"

static int fill(struct pb_node *n, const struct pb_scope *scope, const bool *wanted,
                struct pb_rows *rows, struct pb_err *err);

static const struct pb_column_spec columns[] = {
    PB_FRAME_COLUMNS,
    PB_LIVE_COMMON,
};

const struct pb_live pb_live_python_backtrace = {
    .name = "python.backtrace",
    .doc = "stack of the main thread, now, innermost frame first",
    .columns = columns,
    .ncolumns = PB_COUNT_OF(columns),
    .fill = fill,
};

static int fill(struct pb_node *n, const struct pb_scope *scope, const bool *wanted,
                struct pb_rows *rows, struct pb_err *err)
{
    (void)err;
    return pb_frames_fill(n, scope, wanted, false, NULL, rows);
}
