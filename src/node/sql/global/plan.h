/*
 * plan.h - what the files of a global statement's planner share.
 *
 * Owns: nothing; everything is in the arena.
 * Threads: one.
 * Fails: as global.h says.
 * Not here: what others see of a plan (global.h).
 */
#ifndef PB_NODE_SQL_GLOBAL_PLAN_H
#define PB_NODE_SQL_GLOBAL_PLAN_H

#include "node/sql/global/global.h"
#include "node/sql/internal.h"
#include "node/sql/tree.h"

#define PB_PLAN_NOWHERE "18446744073709551615" /* query_location of what we made */

enum { PB_PLAN_PARTS = 64, PB_PLAN_VIEWS = 64, PB_PLAN_NAMES = 4096 };

/* A table as the catalog had it when the plan began. */
struct pb_plan_table {
    const char *name;
    enum pb_catalog_source source;
    bool users;      /* made by users: elsewhere its columns may be others */
    bool named;      /* the statement reads it */
    const char *sql; /* a view's SELECT */
    const char **columns;
    size_t ncolumns;
    bool by_row;  /* a view that makes a row of each row of one table */
    bool odd;     /* a view with columns of types that do not travel */
    bool known_by_row; /* by_row was found out */
    const char *made; /* name of our view over parts, once it is there */
};

struct pb_plan {
    struct pb_sql *sql;
    struct pb_sql_conn *conn;
    struct pb_arena *arena;
    struct pb_global_plan *ret;
    struct pb_plan_table *tables;
    size_t ntables;
    duckdb_prepared_statement statement; /* as it would run here alone */
    const char *aggregates; /* " avg sum … ", all that make other rows of rows */
    const char **names;     /* all columns that are spoken of anywhere */
    size_t nnames;
    const char **ctes; /* names that WITH gives */
    size_t nctes;
    const char **refs; /* what tables are called in the statement */
    size_t nrefs;
    const char **lasts; /* last parts of all names of columns */
    size_t nlasts;
    bool all_columns; /* a star somewhere, or a whole row as one value */
    struct pb_err *err;
};

/* plan_tables.c */

void pb_plan_copy_tables(struct pb_plan *p);
/* The columns that a view really has. */
void pb_plan_learn_columns(struct pb_plan *p, struct pb_plan_table *t);
/* Aggregates, unnest(), and the macros that contain such, a query or a window. */
const char *pb_plan_aggregates(struct pb_sql *s, struct pb_sql_conn *c);
/* JSON of the columns of users' tables that are named; NULL: there is none. */
const char *pb_plan_users(struct pb_plan *p);

/* plan_tree.c */

/* A table of the catalog that a BASE_TABLE names; NULL: a CTE or one of the engine's own. */
struct pb_plan_table *pb_plan_table(struct pb_plan *p, const struct pb_json *ref);
bool pb_plan_has_column(const struct pb_plan_table *t, const char *name);
/* Do neither a sample nor other names for its columns belong to this reference? */
bool pb_plan_is_plain(const struct pb_json *ref);
bool pb_plan_is_empty(const struct pb_json *object, const char *key); /* null, [], not there */
/* Is it one table of nodes whose rows may be asked for where they are, as the whole of a FROM? */
struct pb_plan_table *pb_plan_single(struct pb_plan *p, const struct pb_json *select);
/* An aggregate, a macro that contains one, or unnest(). */
bool pb_plan_is_aggregate(const struct pb_plan *p, const struct pb_json *part);
typedef bool pb_plan_test(const struct pb_plan *p, const struct pb_json *part);
/* Does the test hold for the expression or any part of it? */
bool pb_plan_any(const struct pb_plan *p, const struct pb_json *part, pb_plan_test *test);
bool pb_plan_is_nested(const struct pb_plan *p, const struct pb_json *part); /* query or window */
/* May a node decide this of a row of t alone, with the same outcome as anywhere? alias: of t. */
bool pb_plan_is_local(const struct pb_plan *p, const struct pb_json *part,
                      const struct pb_plan_table *t, const char *alias);
const char *pb_plan_alias(const struct pb_json *ref);
/* The reference to a table with another name in it: JSON. */
const char *pb_plan_rename(struct pb_plan *p, const struct pb_json *ref, const char *name);
/* The reference to that table for all its rows, with its own names of columns: JSON. */
const char *pb_plan_bare(struct pb_plan *p, const struct pb_json *ref);
/* JSON of what no text has: a number, a column, function(children), CAST(child AS BIGINT). */
const char *pb_plan_number(struct pb_plan *p, int64_t number);
const char *pb_plan_column(struct pb_plan *p, const char *name, const char *alias);
const char *pb_plan_call(struct pb_plan *p, const char *function, const char *children,
                         bool is_operator);
const char *pb_plan_bigint(struct pb_plan *p, const char *child);
/* The same expression under a name; it begins with its class and type, and has none. */
const char *pb_plan_with_alias(struct pb_plan *p, const char *json, const char *alias);

/* plan_part.c */

/*
 * Adds a part: node is JSON of the query that nodes run. NULL when this engine cannot bind it, with
 * the reason in p->err.
 */
struct pb_global_part *pb_plan_part(struct pb_plan *p, const char *table, const char *node);
/* Does a value of the type come through a file of answers as it was? */
bool pb_plan_travels(duckdb_logical_type type);
/* Does sql, over that part, give the very types of the statement's own columns? */
bool pb_plan_has_types(struct pb_plan *p, const struct pb_global_part *part, const char *sql);
/* Rows of the table that a SELECT reads at `ref`: the columns and filters that it needs. */
struct pb_global_part *pb_plan_rows(struct pb_plan *p, const struct pb_json *select,
                                    const struct pb_json *ref, const struct pb_plan_table *t,
                                    bool top);

/*
 * plan_groups.c: tries it with aggregates of nodes. *ret_sql: the statement over their answers;
 * false: it cannot be done that way.
 */
bool pb_plan_groups(struct pb_plan *p, const struct pb_json *node, const char **ret_sql);

#endif
