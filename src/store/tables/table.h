/*
 * table.h - from a table's list of columns to what the store wants.
 *
 * Owns: nothing; macros only.
 * Threads: any.
 * Fails: never.
 * Not here: the lists themselves, one header a table in this folder, which writer and node share.
 *
 * A list is PB_<SCHEMA>_<TABLE>(X) with X(column, type, unit, doc), next to …_NAME and …_DOC.
 *
 *     static const struct pb_column_spec columns[] = {PB_PYTHON_MEMORY(PB_TABLE_COLUMN)};
 *     enum {
 *     #define X(name, type, unit, doc) AT_##name,
 *         PB_PYTHON_MEMORY(X)
 *     #undef X
 *     };
 */
#ifndef PB_STORE_TABLES_TABLE_H
#define PB_STORE_TABLES_TABLE_H

#include "store/writer.h"

#define PB_TABLE_COLUMN(name, type, unit, doc) {#name, PB_##type, unit, doc},

#endif
