/*
 * live.h - tables that are made when asked for: stacks, processes, the tool about itself.
 *
 * Owns: nothing.
 * Threads: a fill may run in several threads at once, for different queries.
 * Fails: a fill that can answer for some processes only answers for those; it fails only when
 * the question makes no sense at all.
 * Not here: tables in rings (discover.h), SQL.
 *
 * A live table is one file, tables/<schema>_<table>.c, that opens with its descriptor
 * `const struct pb_live pb_live_<schema>_<table>`, and one line in tables.def. Every live table
 * says its own `host, pid, rank` columns, by PB_LIVE_COMMON at the end of its list.
 */
#ifndef PB_NODE_LIVE_H
#define PB_NODE_LIVE_H

#include "node/rows.h"
#include "node/scope.h"

struct pb_node;

struct pb_live {
    const char *name; /* "python.stacks" */
    const char *doc;
    const struct pb_column_spec *columns;
    size_t ncolumns;
    /* wanted[i]: column i is used by the query; a fill may leave dear ones out when not. */
    int (*fill)(struct pb_node *node, const struct pb_scope *scope, const bool *wanted,
                struct pb_rows *rows, struct pb_err *err);
};

#define PB_LIVE_COMMON                                                                           \
    {"host", PB_NAME, "", "machine"}, {"pid", PB_INT, "", "process id"},                          \
    {"rank", PB_INT, "", "rank in its job, if it has one"}

/* In the order of tables.def; ends with NULL. */
extern const struct pb_live *const pb_lives[];

#endif
