/*
 * global.h - a statement over all nodes of a cluster, taken apart: what each node is asked, and
 * what is asked here of the answers.
 *
 * Owns: nothing; a plan lives in the caller's arena.
 * Threads: any.
 * Fails: as the statement itself would, with the place in the text.
 * Not here: who is asked and who answered (node/global/).
 *
 * Each table that the statement names is a part: the rows of it that the nodes have, filtered and
 * cut to the columns that the statement names, by the nodes. The statement then runs over the
 * parts, so that it means what it would mean over all rows in one place, whatever is in it: joins
 * between ranks, windows, percentiles. A statement over one table whose aggregates can be put
 * together from those of the nodes (count, sum, min, max, avg …) brings groups instead of rows, and
 * ORDER BY with LIMIT the first rows of each node.
 */
#ifndef PB_NODE_SQL_GLOBAL_GLOBAL_H
#define PB_NODE_SQL_GLOBAL_GLOBAL_H

#include "node/sql/engine.h"

/* What is asked of each node. */
struct pb_global_part {
    const char *name;  /* name of the view over the answers */
    const char *table; /* "python.memory" */
    const char *sql;   /* what the nodes run */
    const char *columns; /* "CAST(a AS BIGINT) AS a, …": the answers, in this node's types */
    const char *nothing; /* "NULL AS a, …" */
    const char *types;   /* of the columns of sql */
    bool groups;       /* aggregates, not rows */
};

/* A view of ours over parts, in the order in which they are made. */
struct pb_global_view {
    const char *name, *sql;
};

struct pb_global_plan {
    bool local; /* nothing in it is another node's: ask here */
    bool guessed; /* all columns are wanted of a table that may have more of them elsewhere */
    const char *tables; /* JSON: columns of tables of users, as pb_sql_learn takes them */
    struct pb_global_part *parts;
    size_t nparts;
    struct pb_global_view *views;
    size_t nviews;
    const char *sql;     /* over parts and views */
    const char **titles; /* titles of the answer's columns */
    size_t ntitles;
};

int pb_sql_plan_global(struct pb_sql *s, const struct pb_query *q, struct pb_arena *a,
                       struct pb_global_plan *ret, struct pb_buf *notices,
                       struct pb_sql_error *err);

#endif
