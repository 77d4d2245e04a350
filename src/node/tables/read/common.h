/*
 * common.h - what live tables share: the processes they are about, and their last columns.
 *
 * Owns: nothing; lists go into the caller's arena.
 * Threads: any.
 * Fails: never; a process that cannot be read is left out.
 * Not here: the tables.
 */
#ifndef PB_NODE_TABLES_READ_COMMON_H
#define PB_NODE_TABLES_READ_COMMON_H

#include "node/parts.h"
#include "node/rows/live.h"
#include "node/stacks/cache.h"

struct pb_live_process {
    pid_t pid;
    uint64_t start;
    int64_t rank;        /* -1: unknown */
    const char *version; /* Python's version; "" when it was not asked for */
};

/* The living processes in scope; without one all Python processes of the user. */
size_t pb_live_processes(struct pb_node *n, const struct pb_scope *s, bool ranks,
                         struct pb_arena *a, struct pb_live_process **ret);

/* Is this living process in scope? One that died and had the same number is not it. */
bool pb_live_in_scope(const struct pb_scope *s, pid_t pid);

/* Sets the columns of PB_LIVE_COMMON, which are the last three. pid 0 and rank -1 are NULL. */
void pb_live_common(struct pb_rows *rows, struct pb_row_cell *row, const char *host, pid_t pid,
                    int64_t rank);

/* Sets the name of a table, its schema and the rest of it: three columns from `at` on. */
void pb_live_table_name(struct pb_rows *rows, struct pb_row_cell *row, size_t at, const char *name);

/* A column list's PB_LIVE_COMMON starts here. */
static inline size_t pb_live_common_at(const struct pb_rows *rows)
{
    return rows->ncolumns - 3;
}

/* Stacks of all these processes at once, as many as can be had in a few seconds. */
struct pb_stack_batch *pb_live_stacks(struct pb_node *n, const struct pb_live_process *v,
                                       size_t count, const struct pb_snapshot_opts *o);

#endif
