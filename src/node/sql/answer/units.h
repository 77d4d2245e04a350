/*
 * units.h - in what the numbers of an answer's columns are, where their names do not say it.
 *
 * Owns: nothing; texts are the catalog's.
 * Threads: any; called with the catalog's lock held.
 * Fails: never; a column that is not plainly one of a table has no unit.
 * Not here: titles (titles.h).
 *
 * Only statements of one SELECT are looked at, and of those columns that are asked for by name, by
 * * or by an aggregate that keeps the unit: a wrong unit would be worse than none.
 */
#ifndef PB_NODE_SQL_ANSWER_UNITS_H
#define PB_NODE_SQL_ANSWER_UNITS_H

#include "node/sql/catalog.h"

struct pb_units {
    const char *sql; /* NULL: not a plain statement */
    size_t len, list, from; /* where the list of the SELECT begins, and FROM */
    const struct pb_catalog *catalog;
};

void pb_units_init(struct pb_units *u, const struct pb_catalog *c, const char *sql, size_t len);
/* The unit of the column of this name, or NULL; also when the name ends with it, as step_ms. */
const char *pb_units_of(const struct pb_units *u, const char *name);

#endif
