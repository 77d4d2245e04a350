/*
 * table.h - how a table is declared, whoever fills it: agent, sampler or live table.
 *
 * Owns: nothing; macros only.
 * Threads: any.
 * Fails: never.
 * Not here: the lists. Those of agents' tables stand in this folder, one header each, since the
 * node must know a table before anybody has written it; those of samplers and live tables in their
 * own files.
 *
 * A table is a list of columns, LIST(X) with X(column, type, unit, doc) for each:
 *
 *     #define COLUMNS(X)                                          \
 *         X(timestamp, TIME, "", "when the row was made")         \
 *         X(read_mb_s, REAL, "MB/s", "read from disks")
 *     PB_TABLE_COLUMNS(COLUMNS);
 *     static const struct pb_ring_spec ring = {
 *         PB_TABLE_SPEC("system.io", "reading and writing of each Python process"),
 *         .rows = 8192,
 *     };
 *
 * A column's number is AT_<column>.
 */
#ifndef PB_SCHEMA_TABLE_H
#define PB_SCHEMA_TABLE_H

#include "store/writer.h"

#define PB_TABLE_COLUMN(name, type, unit, doc) {#name, PB_##type, unit, doc},
#define PB_TABLE_NUMBER(name, type, unit, doc) AT_##name,

/* enum { AT_timestamp, …, NCOLUMNS } and the array `columns`. */
#define PB_TABLE_COLUMNS(LIST)                                                                     \
    enum { LIST(PB_TABLE_NUMBER) NCOLUMNS };                                                       \
    static const struct pb_column_spec columns[] = {LIST(PB_TABLE_COLUMN)}

/* The first fields of a descriptor: struct pb_ring_spec, struct pb_live. */
#define PB_TABLE_SPEC(table_name, table_doc)                                                       \
    .name = table_name, .doc = table_doc, .columns = columns, .ncolumns = NCOLUMNS

#endif
