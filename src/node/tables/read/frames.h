/*
 * frames.h - stacks as rows: what python.backtrace and python.stacks share.
 *
 * Owns: nothing. Threads: any.
 * Fails: never; a process that cannot be read has no rows.
 * Not here: the tables' own columns.
 */
#ifndef PB_NODE_TABLES_READ_FRAMES_H
#define PB_NODE_TABLES_READ_FRAMES_H

#include "node/tables/read/common.h"
#include "stack/snapshot.h"

/* The first columns of both tables, in this order. */
#define PB_FRAME_COLUMNS(X)                                                                        \
    X(depth, INT, "", "0 = innermost")                                                             \
    X(func, NAME, "", "function")                                                                  \
    X(file, NAME, "", "source file; of a C function its library")                                  \
    X(lineno, INT, "", "line that is being executed")                                              \
    X(frame_type, NAME, "", "python, or native with the setting stacks.native")                    \
    X(locals, TEXT, "", "local variables, as JSON: name and value as Python would show it")        \
    X(tid, INT, "", "thread id")                                                                   \
    X(thread, NAME, "", "the thread's name")                                                       \
    X(end_lineno, INT, "", "line where the executing expression ends (3.11 and later)")            \
    X(col_offset, INT, "", "first column of that expression, in bytes from 0 (3.11 and later)")    \
    X(end_col_offset, INT, "", "column behind the last of that expression (3.11 and later)")       \
    X(arguments, TEXT, "", "which of the local variables are arguments: a list, as JSON")          \
    X(interpreter, INT, "", "interpreter that the frame belongs to, 0 the main one")               \
    X(collecting_garbage, BOOL, "", "the thread collects garbage (3.7 and later)")                 \
    X(shutting_down, BOOL, "", "the interpreter is shutting down")

#define PB_FRAME_NUMBER(name, type, unit, doc) PB_FRAME_##name,
enum { PB_FRAME_COLUMNS(PB_FRAME_NUMBER) };

/* Called for each row when its common columns are set; or NULL. */
typedef void pb_frame_rest(struct pb_rows *rows, struct pb_row_cell *row,
                           const struct pb_thread *thread);

int pb_frames_fill(struct pb_node *n, const struct pb_scope *s, const bool *wanted, bool all,
                   pb_frame_rest *rest, struct pb_rows *rows);

#endif
