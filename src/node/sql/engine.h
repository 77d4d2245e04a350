/*
 * engine.h - SQL over rings, history and live tables.
 *
 * Owns: one in-memory DuckDB, loaded at run time when it is first needed. The only folder that
 * knows DuckDB is this one.
 * Threads: pb_sql_run from any number; each uses a connection of its own.
 * Fails: with struct pb_sql_error, which knows the place in the text; PB_TIMEOUT when the time
 * is up or the caller cancelled.
 * Not here: where rows come from (discover.h, live.h, archive.h).
 *
 * Users may read and nothing else: no file, network, extension or configuration access, no
 * temporary files, a memory limit. `SET probing.…`, `SHOW TABLES` and settings never reach it.
 */
#ifndef PB_NODE_SQL_ENGINE_H
#define PB_NODE_SQL_ENGINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/settings.h"
#include "host/arena.h"
#include "host/buf.h"
#include "node/scope.h"
#include "store/writer.h"

struct pb_node;
struct pb_sql;

enum pb_format {
    PB_FORMAT_ROWS,    /* lines of JSON: {"columns":[{"name":…,"type":…}…]}, then one array a row */
    PB_FORMAT_JSON,    /* one array of objects */
    PB_FORMAT_NDJSON,  /* an object a line */
    PB_FORMAT_CSV,     /* RFC 4180 with a header */
    PB_FORMAT_PARQUET, /* one file; a single statement */
};

struct pb_sql_error {
    struct pb_err err;    /* one line */
    size_t statement;     /* number of the statement, from 0 */
    long at;              /* byte in the whole text, or -1 */
    char nearest[160];    /* "module, module_type", or "" */
};

/* Bytes of the answer as they are made. Non-zero: the reader went away, stop. */
typedef int pb_sql_sink(const void *data, size_t len, void *arg);

struct pb_query {
    const char *sql; /* one or more statements */
    const struct pb_scope *scope;
    enum pb_format format;
    uint64_t max_rows; /* per statement; 0: no limit */
    int timeout_ms;    /* 0: the setting query.timeout */
    const _Atomic bool *cancelled; /* or NULL; looked at every few milliseconds */
    pb_sql_sink *sink;
    /*
     * Called from another thread when the time has been up for a second and the engine has not
     * noticed, since it is inside one function: pb_sql_run returns when that does. It must not
     * wait, nor ask anything here. False: not now, ask again. May be NULL.
     */
    bool (*late)(const struct pb_err *err, void *arg);
    void *arg; /* of both */
};

#define PB_SQL_UNKNOWN UINT64_MAX

struct pb_sql_done {
    uint64_t rows, bytes;
    bool truncated;       /* max_rows cut something off */
    uint64_t left_out;    /* how many rows that is; PB_SQL_UNKNOWN when counting takes too long */
    double ms;
    struct pb_buf notices; /* lines for stderr: "grouped by src_rank, dst_rank"; caller finishes */
};

int pb_sql_create(struct pb_sql **ret, struct pb_node *node, struct pb_err *err);
void pb_sql_destroy(struct pb_sql *s);
/* Loads and sets up the engine now (serve does, so that the first query does not wait for it). */
int pb_sql_warm(struct pb_sql *s, struct pb_err *err);
int pb_sql_run(struct pb_sql *s, const struct pb_query *q, struct pb_sql_done *ret,
               struct pb_sql_error *err);

/*
 * Settings as SQL sees them: `SET probing.a.b = v`, `SHOW a.b`, information_schema.df_settings.
 * The node says how (node.c); without it SQL sees the defaults and can change nothing.
 * scope NULL: the node's own, which must cost next to nothing; else those of the one process in
 * it, or the node's own when it holds all or several.
 */
struct pb_sql_settings {
    int (*read)(struct pb_node *node, const struct pb_scope *scope, struct pb_settings *ret,
                struct pb_err *err);
    /* line: "key=value" */
    int (*write)(struct pb_node *node, const struct pb_scope *scope, const char *line,
                 struct pb_err *err);
};
/* Before the first query. */
void pb_sql_set_settings(struct pb_sql *s, const struct pb_sql_settings *settings);

/* What probing.tables and probing.columns show: every table that SQL knows, in the arena. */
struct pb_sql_table {
    const char *name; /* "python.memory"; a short one ("memory_usage") has no schema */
    const char *doc;
    const char *source; /* "ring", "live" or "view" */
    const struct pb_column_spec *columns; /* with host, pid, rank */
    size_t ncolumns;
};
size_t pb_sql_tables(struct pb_sql *s, struct pb_arena *a, struct pb_sql_table **ret);

/* What a statement reads, by its words: tables, and views with the tables behind them. */
struct pb_sql_source {
    const char *name;
    bool live, view; /* neither: a ring, and its files */
    bool shared;     /* rows about other processes than the one that writes them */
    bool timed;      /* a ring with a timestamp in its rows */
};
size_t pb_sql_sources(struct pb_sql *s, const char *sql, struct pb_arena *a,
                      struct pb_sql_source **ret);

/*
 * For the archive: rows [first, last] of one ring as a Parquet file (zstd). The file is complete
 * on return 0, but not synced; *ret_rows says how many rows it has (those that were whole).
 */
struct pb_store_ring;
int pb_sql_write_ring(struct pb_sql *s, struct pb_store_ring *ring, uint64_t first, uint64_t last,
                      const char *path, uint64_t *ret_rows, struct pb_err *err);
/* Several Parquet files, given in the order of their row numbers, as one; not synced. */
int pb_sql_merge_files(struct pb_sql *s, const char *const *paths, size_t n, const char *path,
                       struct pb_err *err);
/* Memory the engine uses now, bytes; 0 when it is not loaded. */
uint64_t pb_sql_memory(struct pb_sql *s);

#endif
