/*
 * frames.h - stacks as rows: what python.backtrace and python.stacks share.
 *
 * Owns: nothing. Threads: any.
 * Fails: never; a process that cannot be read has no rows.
 * Not here: the tables' own columns.
 */
#ifndef PB_NODE_TABLES_FRAMES_H
#define PB_NODE_TABLES_FRAMES_H

#include "node/tables/common.h"
#include "unwind/snapshot.h"

/* The first columns of both tables, in this order. */
enum {
    PB_FRAME_DEPTH,
    PB_FRAME_FUNC,
    PB_FRAME_FILE,
    PB_FRAME_LINENO,
    PB_FRAME_TYPE,
    PB_FRAME_LOCALS,
    PB_FRAME_TID,
    PB_FRAME_THREAD,
    PB_FRAME_END_LINENO,
    PB_FRAME_COL_OFFSET,
    PB_FRAME_END_COL_OFFSET,
    PB_FRAME_ARGUMENTS,
    PB_FRAME_INTERPRETER,
    PB_FRAME_COLLECTING,
    PB_FRAME_SHUTTING_DOWN,
    PB_FRAME_NEXT, /* the table's own */
};

#define PB_FRAME_COLUMNS                                                                         \
    {"depth", PB_INT, "", "0 = innermost"},                                                      \
    {"func", PB_NAME, "", "function"},                                                           \
    {"file", PB_NAME, "", "source file; of a C function its library"},                           \
    {"lineno", PB_INT, "", "line that is being executed"},                                       \
    {"frame_type", PB_NAME, "", "python, or native with the setting stacks.native"},             \
    {"locals", PB_TEXT, "", "local variables, as JSON: name and value as Python would show it"}, \
    {"tid", PB_INT, "", "thread id"},                                                            \
    {"thread", PB_NAME, "", "the thread's name"},                                                \
    {"end_lineno", PB_INT, "", "line where the executing expression ends (3.11 and later)"},     \
    {"col_offset", PB_INT, "", "its first column, in bytes from 0 (3.11 and later)"},            \
    {"end_col_offset", PB_INT, "", "the column behind its last (3.11 and later)"},               \
    {"arguments", PB_TEXT, "", "which of the local variables are arguments: a list, as JSON"},   \
    {"interpreter", PB_INT, "", "interpreter that the frame belongs to, 0 the main one"},        \
    {"collecting_garbage", PB_BOOL, "", "the thread collects garbage (3.7 and later)"},          \
    {"shutting_down", PB_BOOL, "", "the interpreter is shutting down"}

/* Called for each row when its common columns are set; or NULL. */
typedef void pb_frame_rest(struct pb_rows *rows, struct pb_row_cell *row,
                           const struct pb_thread *thread);

int pb_frames_fill(struct pb_node *n, const struct pb_scope *s, const bool *wanted, bool all,
                   pb_frame_rest *rest, struct pb_rows *rows);

#endif
