/*
 * live.h - tables that are made when asked for: stacks, processes, the tool about itself.
 *
 * Owns: nothing.
 * Threads: a fill may run in several threads at once, for different queries.
 * Fails: a fill that can answer for some processes only answers for those; it fails only when
 * the question makes no sense at all.
 * Not here: tables in rings (discover.h), SQL.
 *
 * A live table is one file, node/tables/<schema>_<table>.c, that opens with its descriptor
 * `const struct pb_live pb_live_<schema>_<table>`, and one line in node/tables/live.def. Its
 * list of columns (schema/table.h) ends with PB_LIVE_COMMON(X).
 */
#ifndef PB_NODE_LIVE_H
#define PB_NODE_LIVE_H

#include "node/discover/scope.h"
#include "node/rows/rows.h"
#include "schema/table.h"

struct pb_node;

/* wanted[i]: column i is used by the query; a fill may leave dear ones out when not. */
typedef int pb_live_fill(struct pb_node *node, const struct pb_scope *scope, const bool *wanted,
                         struct pb_rows *rows, struct pb_err *err);

struct pb_live {
    const char *name; /* "python.stacks" */
    const char *doc;
    const struct pb_column_spec *columns;
    size_t ncolumns;
    pb_live_fill *fill;
};

/* The last columns of every table. */
#define PB_LIVE_COMMON(X)                                                                          \
    X(host, NAME, "", "machine")                                                                   \
    X(pid, INT, "", "process id")                                                                  \
    X(rank, INT, "", "rank in its job, if it has one")

/*
 * Every table that is known before anybody has written a row: those of agents, of samplers and live
 * ones, out of schema/tables.def, node/sample/samplers.def and node/tables/live.def. One of
 * the two is set; ends with none.
 */
struct pb_known_table {
    const struct pb_ring_spec *ring;
    const struct pb_live *live;
};
extern const struct pb_known_table pb_known_tables[];
/* What the rings of a known table have; NULL: it is live, or nobody's that is known. */
const struct pb_ring_spec *pb_known_ring(const char *name);

#endif
