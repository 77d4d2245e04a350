/*
 * internal.h - what the files of sql/ share.
 *
 * Owns: struct pb_sql (engine.c) owns database, connections, catalog and watcher.
 * Threads: as said at each field.
 * Fails: as said at each call.
 * Not here: what others may call (engine.h).
 */
#ifndef PB_NODE_SQL_INTERNAL_H
#define PB_NODE_SQL_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "node/archive/archive.h"
#include "node/discover/discover.h"
#include "node/sql/catalog.h"
#include "node/sql/duck.h"
#include "node/sql/elsewhere.h"
#include "node/sql/engine.h"

/* One statement at work; what scans find by their connection. */
struct pb_sql_task {
    struct pb_sql *sql;
    const struct pb_scope *scope;
    struct pb_stores *stores; /* held until the statement ends; NULL when it needs none */
    uint64_t deadline_ns;     /* monotonic */
    const _Atomic bool *cancelled;
    const struct pb_query *query; /* NULL when it is not a user's */
    int64_t timeout_ms;
    int entry; /* in the node's journal, or -1 */
    bool told;             /* query->late was heard; the watcher's */
    bool broke;            /* the engine's database was of no more use, see database.c */
    pthread_mutex_t lock;  /* guards notices: scans run in several threads */
    struct pb_buf *notices; /* or NULL */
    /* For the archive: rows [first, last] of one ring. */
    struct pb_store_ring *ring;
    uint64_t first, last;
    _Atomic uint64_t ring_rows;
};

struct pb_sql_conn {
    struct pb_sql_conn *next; /* all that are open */
    duckdb_connection duck;
    uint64_t id;              /* unique within its database */
    unsigned generation;      /* generation of the database that it belongs to */
    bool busy;
    bool scoped;              /* its variables say something else than "all" */
    bool reading;             /* inside a transaction that cannot write */
    duckdb_prepared_statement parser, begin, rollback; /* made when first used */
    struct pb_sql_task *task; /* while busy */
};

/* The nice value of threads that work on queries for long. */
enum { PB_SQL_LOW_PRIORITY = 10 };

struct pb_sql {
    struct pb_sql_opts with;
    struct pb_archive *archive; /* or NULL */
    struct pb_sql_counts counts;

    pthread_mutex_t warm_lock;
    _Atomic bool warm; /* all below is there */
    _Atomic bool broken; /* the database is of no more use, and another one is to be opened */
    const struct pb_duck *duck;
    duckdb_database db; /* guarded by lock once it is warm */
    unsigned generation; /* number of databases before this one; with lock and catalog_lock */
    struct pb_sql_break last_break; /* guarded by lock */
    char *aggregates; /* names of the engine's, for the planner; made when first asked for */
    char tmp[256];  /* folder for Parquet answers */
    bool own_tmp;

    pthread_mutex_t lock; /* guards database, connections and the watcher */
    struct pb_sql_conn *conns;
    size_t nidle;
    pthread_cond_t wake;
    pthread_t watcher;
    bool watching, ending;
    size_t nbusy;

    /*
     * Read while a statement is bound, so that binding and execution see the same views; written
     * to change views.
     */
    pthread_rwlock_t catalog_lock;
    struct pb_catalog catalog;
    struct pb_elsewhere elsewhere;
};

/* A connection for one statement; scans and watcher know it and its task until it is given back. */
struct pb_sql_conn *pb_sql_conn_acquire(struct pb_sql *s, struct pb_sql_task *task,
                                        struct pb_err *err);
void pb_sql_conn_release(struct pb_sql *s, struct pb_sql_conn *c);
/* Closes all connections; called when nobody uses one. */
void pb_sql_conns_close(struct pb_sql *s);
/* Closes the connections that nobody uses; called with s->lock held. */
void pb_sql_conns_close_idle(struct pb_sql *s);
/* The task of the connection that a bind runs for; NULL when there is none. *ret_sql is set. */
struct pb_sql_task *pb_sql_conn_task(duckdb_bind_info info, struct pb_sql **ret_sql);
/* Says to a table function whose binds ask for their task. Called with s->lock held, or before
 * anybody else knows s. */
void pb_sql_conn_introduce(struct pb_sql *s, duckdb_table_function f);
/*
 * Opens the database, or in place of a broken one another. Takes s->lock and s->catalog_lock;
 * called with s->warm_lock held.
 */
int pb_sql_database_open(struct pb_sql *s, struct pb_err *err);
/* Runs SQL of our own on a connection that nobody else knows: while a database is set up. */
int pb_sql_database_run(struct pb_sql *s, duckdb_connection c, const char *sql, struct pb_err *err);
/*
 * An error of a connection: does it mean that the database is of no more use? Then its task is
 * marked, and the next pb_sql_warm opens another. Takes s->lock.
 */
bool pb_sql_database_check(struct pb_sql *s, struct pb_sql_conn *c, const char *said);
/* Runs SQL of our own; nobody else's text. */
int pb_sql_exec(struct pb_sql *s, struct pb_sql_conn *c, const char *sql, struct pb_err *err);
/* A statement of our own that the connection keeps prepared, in one of its fields. */
int pb_sql_conn_prepare(struct pb_sql *s, struct pb_sql_conn *c, duckdb_prepared_statement *kept,
                        const char *sql);
/* From here on until the connection is given back nothing can be changed through it. */
int pb_sql_conn_read_only(struct pb_sql *s, struct pb_sql_conn *c, struct pb_err *err);
void pb_sql_conn_end_reading(struct pb_sql *s, struct pb_sql_conn *c);
/* Sets the variables that views read from the task's scope. */
int pb_sql_conn_scope(struct pb_sql *s, struct pb_sql_conn *c, struct pb_err *err);

int pb_sql_watch_start(struct pb_sql *s, struct pb_err *err);
void pb_sql_watch_stop(struct pb_sql *s);

/* Registers the functions that views use; pb_sql_warm calls each once. */
int pb_sql_scan_ring_register(struct pb_sql *s, duckdb_connection c);
int pb_sql_scan_live_register(struct pb_sql *s, duckdb_connection c);
int pb_sql_compat_register(struct pb_sql *s, duckdb_connection c);
/* Called by the one above. */
int pb_sql_macros_register(struct pb_sql *s, duckdb_connection c);
int pb_sql_bounds_register(struct pb_sql *s, duckdb_connection c);

/* What is said when the time is up. */
void pb_sql_late(const struct pb_sql_task *t, bool stuck, struct pb_err *err);
void pb_sql_notice(struct pb_sql_task *task, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Settings by the node's rule, or the defaults. */
void pb_sql_read_settings(struct pb_sql *s, const struct pb_scope *scope, struct pb_settings *ret);
/* Text into a vector, or as a value (to be destroyed); bytes that are not UTF-8 come out as \xNN.
 * No other way leads text into the engine's tables. */
void pb_sql_put_text(const struct pb_duck *d, duckdb_vector v, uint64_t row, const char *s,
                     size_t len);
duckdb_value pb_sql_text_value(const struct pb_duck *d, const char *s);
/* All rows of a vector NULL, which must be a flat one. */
void pb_sql_put_nulls(const struct pb_duck *d, duckdb_vector v, size_t n);
/* The type of a column. To be destroyed. */
duckdb_logical_type pb_sql_type(const struct pb_duck *d, enum pb_type type);

#endif
