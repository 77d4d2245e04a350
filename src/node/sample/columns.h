/*
 * columns.h - how a sampler's list of columns becomes numbers and specs.
 *
 * Owns: nothing; macros only.
 * Threads: any.
 * Fails: never.
 * Not here: the lists: each stands in its sampler's file, as COLUMNS(X) with
 * X(column, type, unit, doc).
 */
#ifndef PB_NODE_SAMPLE_COLUMNS_H
#define PB_NODE_SAMPLE_COLUMNS_H

#include "node/sampler.h"
#include "store/tables/table.h"

#define PB_COLUMN_NUMBER(name, type, unit, doc) AT_##name,

/* enum { AT_timestamp, …, NCOLUMNS } and `columns`. */
#define PB_SAMPLE_COLUMNS(LIST)                                                                   \
    enum { LIST(PB_COLUMN_NUMBER) NCOLUMNS };                                                     \
    static const struct pb_column_spec columns[] = {LIST(PB_TABLE_COLUMN)}

/* The end of every list. */
#define PB_SAMPLE_OF_PROCESS(X)                                                                   \
    X(pid, INT, "", "process id")                                                                 \
    X(rank, INT, "", "rank in its job, if it has one")
#define PB_SAMPLE_OF_MACHINE(X)                                                                   \
    X(pid, INT, "", "none: the row is about the machine")                                         \
    X(rank, INT, "", "none: the row is about the machine")

#endif
