/*
 * elsewhere.h - columns that tables of users have on other machines of a cluster.
 *
 * Owns: names, in its own memory.
 * Threads: one that changes it while nobody reads (pb_sql's catalog_lock).
 * Fails: never; what is no table or column, and what is too much, is passed over.
 * Not here: who is asked about them (node/global/).
 *
 * Over all machines a table has the columns that it has anywhere: where one is missing it is NULL,
 * and whole numbers here are floating point when they are so elsewhere. For that each node has in
 * its catalog what the others have.
 */
#ifndef PB_NODE_SQL_ELSEWHERE_H
#define PB_NODE_SQL_ELSEWHERE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/text/arena.h"
#include "host/text/buf.h"
#include "host/text/json.h"
#include "store/ring.h"
#include "store/writer.h"

struct pb_catalog;
struct pb_catalog_table;
struct pb_sql;

struct pb_elsewhere_column {
    char table[PB_RING_NAME];
    char name[PB_RING_COLUMN_NAME + 2];
    enum pb_type type;
};

struct pb_elsewhere {
    struct pb_elsewhere_column *v;
    size_t n, cap;
    uint64_t changes;
};

void pb_elsewhere_finish(struct pb_elsewhere *e);
/* Adds its tables and columns to a catalog that has this machine's. */
void pb_elsewhere_add(struct pb_catalog *c, const struct pb_elsewhere *e);

/* Rows of what others have: [["python.facts","a","BIGINT"],…]. Was any of it new? */
bool pb_sql_learn(struct pb_sql *s, const struct pb_json *rows);
/* The same of a table in the catalog, with commas between. */
void pb_elsewhere_put(struct pb_buf *b, const struct pb_catalog_table *t);
/* A column, "python.facts.z", of a table in such rows that these do not have; or NULL. */
const char *pb_elsewhere_missing(const struct pb_catalog *c, const struct pb_json *rows,
                                 struct pb_arena *a);
/* Names in a statement, "schema.name", that may be of users' tables; in the arena. */
size_t pb_sql_user_tables(const char *sql, struct pb_arena *a, const char ***ret);

#endif
