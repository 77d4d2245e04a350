/*
 * engine.h - SQL over rings, history and live tables.
 *
 * Owns: one in-memory DuckDB, loaded at run time when it is first needed. The only folder that
 * knows DuckDB is this one.
 * Threads: pb_sql_run from any number; each uses a connection of its own.
 * Fails: with struct pb_sql_error, which knows the place in the text; PB_TIMEOUT when the time
 * is up or the caller cancelled.
 * Not here: where rows come from (discover/, archive/, live.h).
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
#include "host/text/arena.h"
#include "host/text/buf.h"
#include "node/discover/scope.h"
#include "store/writer.h"

struct pb_archive;
struct pb_json;
struct pb_discover;
struct pb_journal;
struct pb_node;
struct pb_sql;

/* What a reason begins with when the engine is not on this machine, or not the one wanted. */
#define PB_SQL_MISSING "no SQL engine: "

/* What is said where columns are others, or of other types, than whoever asks takes them for. */
#define PB_SQL_OTHER_COLUMNS "other columns"

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

/* Answers of other nodes, which a statement reads as tables of its own. */
struct pb_sql_gathered {
    const char *(*views)[2]; /* name and SELECT of each, ours; made in this order */
    size_t nviews;
    const char *const *titles; /* titles of the answer's columns; or NULL */
};

struct pb_query {
    const char *sql; /* one or more statements */
    const struct pb_sql_gathered *gathered; /* or NULL; a single statement */
    const char *types; /* of the answer's columns, "BIGINT, DOUBLE", or it fails; NULL: any */
    const struct pb_json *columns; /* as pb_sql_learn takes them: all that these tables have, or
                                      it fails; NULL: they may have more */
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
    void *arg; /* passed to both functions */
};

#define PB_SQL_UNKNOWN UINT64_MAX

struct pb_sql_done {
    uint64_t rows, bytes;
    bool truncated;       /* max_rows cut something off */
    uint64_t left_out;    /* how many rows that is; PB_SQL_UNKNOWN when counting takes too long */
    double ms;
    struct pb_buf notices; /* lines for stderr: "grouped by src_rank, dst_rank"; caller finishes */
};

/*
 * Settings as SQL sees them: `SET probing.a.b = v`, `SHOW a.b`, information_schema.df_settings.
 * The node says how (node_settings.c); without it SQL sees the defaults and can change nothing.
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

/* What SQL works on. All of it outlives the engine, strings included; all but node may be NULL. */
struct pb_sql_opts {
    struct pb_node *node; /* for settings and live tables; nothing here looks into it */
    const struct pb_sql_settings *settings;
    struct pb_discover *discover; /* rings */
    const char *data_dir;         /* history, and a folder for answers in Parquet */
    const char *lake;             /* folder of a lake that machines share, or NULL */
    struct pb_journal *journal;   /* what is being run, and what ended a server */
    int threads;                  /* at most; 0: half of the cores */
};

int pb_sql_create(struct pb_sql **ret, const struct pb_sql_opts *o, struct pb_err *err);
/* Files of history; before the first query. The archive itself is made of an engine. */
void pb_sql_set_archive(struct pb_sql *s, struct pb_archive *archive);
void pb_sql_destroy(struct pb_sql *s);
/* Loads and sets up the engine now (serve does, so that the first query does not wait for it). */
int pb_sql_warm(struct pb_sql *s, struct pb_err *err);
int pb_sql_run(struct pb_sql *s, const struct pb_query *q, struct pb_sql_done *ret,
               struct pb_sql_error *err);

/*
 * For the node itself: the first row of a question of its own whose n columns are all BIGINT. NULL
 * is PB_NULL_INT. False: there was no row, or it failed, or took longer.
 */
bool pb_sql_ask(struct pb_sql *s, const struct pb_scope *scope, int timeout_ms, const char *sql,
                int64_t *ret, size_t n);

/* What probing.tables and probing.columns show: every table that SQL knows, in the arena. */
struct pb_sql_table {
    const char *name; /* "python.memory"; a short one ("memory_usage") has no schema */
    const char *doc;
    const char *source; /* "ring", "live" or "view" */
    const struct pb_column_spec *columns; /* all columns, with host, pid and rank */
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
/*
 * For the lake: a batch's rows as folder/date=…/hour=…/rows-<n>.parquet, with host, process, _ring
 * and _batch as columns; not synced. The folder must not be there.
 */
struct pb_batch;
int pb_sql_publish(struct pb_sql *s, const struct pb_batch *b, const char *folder,
                   struct pb_err *err);
/* Is there a row of this batch in the files? */
int pb_sql_has_batch(struct pb_sql *s, const char *glob, const char *batch, bool *ret,
                     struct pb_err *err);
/* For probing.cost: what was answered so far. */
struct pb_sql_counts {
    _Atomic uint64_t queries, rows, bytes;
};
const struct pb_sql_counts *pb_sql_counts(const struct pb_sql *s);
/*
 * A fault of the engine makes its whole database useless; another one is opened then, and whatever
 * was not answered yet is asked again.
 */
struct pb_sql_break {
    unsigned count;  /* so far */
    char why[400];   /* the engine's words the last time */
    char query[400]; /* the beginning of what met it first; "" when it was not a user's */
};
void pb_sql_breaks(struct pb_sql *s, struct pb_sql_break *ret);
/* Folder that the engine reads and writes answers in. */
const char *pb_sql_tmp(const struct pb_sql *s);
/* Memory the engine uses now, bytes; 0 when it is not loaded. */
uint64_t pb_sql_memory(struct pb_sql *s);

#endif
