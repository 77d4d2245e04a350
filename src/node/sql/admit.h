/*
 * admit.h - may this statement run? Decided on the tree that the engine's own parser makes of it.
 *
 * Owns: nothing.
 * Threads: any; a connection has one user at a time.
 * Fails: with what is refused, why and where.
 * Not here: our own words (rewrite.h), which only help: an error of theirs opens nothing.
 */
#ifndef PB_NODE_SQL_ADMIT_H
#define PB_NODE_SQL_ADMIT_H

#include <stddef.h>

#include "base/err.h"

struct pb_sql;
struct pb_sql_conn;

enum pb_admit {
    PB_ADMIT_YES,      /* one SELECT that names tables and harmless functions */
    PB_ADMIT_NO,       /* err says why */
    PB_ADMIT_OTHER,    /* something else than one SELECT; err says so */
    PB_ADMIT_NOT_SQL,  /* the engine's parser does not understand it and will say why */
};

/*
 * Only one SELECT is admitted, DESCRIBE, SHOW and SUMMARIZE included, in which no table is a file,
 * each table function is on a list, and no function reaches out. *ret_at: the place, or -1.
 */
enum pb_admit pb_admit_check(struct pb_sql *s, struct pb_sql_conn *c, const char *sql,
                             long *ret_at, struct pb_err *err);
/* The same on the tree as the engine writes it, in JSON. */
enum pb_admit pb_admit_tree(const char *json, size_t len, long *ret_at, struct pb_err *err);

#endif
