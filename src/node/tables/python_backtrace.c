/*
 * python.backtrace - the main thread's stack, read from outside at the moment of the query.
 */
#include "node/tables/read/frames.h"

static pb_live_fill fill;

#define COLUMNS(X)                                                                                 \
    PB_FRAME_COLUMNS(X)                                                                            \
    PB_LIVE_COMMON(X)

PB_TABLE_COLUMNS(COLUMNS);

const struct pb_live pb_live_python_backtrace = {
    PB_TABLE_SPEC("python.backtrace", "stack of the main thread, now, innermost frame first"),
    .fill = fill,
};

static int fill(struct pb_node *n, const struct pb_scope *scope, const bool *wanted,
                struct pb_rows *rows, struct pb_err *err)
{
    (void)err;
    return pb_frames_fill(n, scope, wanted, false, NULL, rows);
}
