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

#include "node/archive.h"
#include "node/discover.h"
#include "node/node.h"
#include "node/sql/catalog.h"
#include "node/sql/duck.h"
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
    bool told;             /* the watcher's: query->late was heard */
    pthread_mutex_t lock;  /* of notices: scans run in several threads */
    struct pb_buf *notices; /* or NULL */
    /* For the archive: rows [first, last] of one ring. */
    struct pb_store_ring *ring;
    uint64_t first, last;
    _Atomic uint64_t ring_rows;
};

struct pb_sql_conn {
    struct pb_sql_conn *next; /* all that are open */
    struct duck_connection *duck;
    uint64_t id;
    bool busy;
    bool scoped;              /* its variables say something else than "all" */
    bool reading;             /* inside a transaction that cannot write */
    struct duck_prepared *parser, *begin, *rollback; /* made when first used */
    struct pb_sql_task *task; /* while busy */
};

struct pb_sql {
    struct pb_node *node;
    const struct pb_sql_settings *settings;

    pthread_mutex_t warm_lock;
    _Atomic bool warm; /* all below is there */
    const struct pb_duck *duck;
    struct duck_database *db;
    char tmp[256];  /* folder for Parquet answers */
    bool own_tmp;

    pthread_mutex_t lock; /* connections and the watcher */
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
};

/* A connection for one statement; scans and watcher know it and its task until it is given back. */
struct pb_sql_conn *pb_sql_conn_take(struct pb_sql *s, struct pb_sql_task *task,
                                     struct pb_err *err);
void pb_sql_conn_give(struct pb_sql *s, struct pb_sql_conn *c);
/* All of them, when nobody uses one. */
void pb_sql_conns_close(struct pb_sql *s);
/* The task of the connection that a bind runs for; NULL when there is none. */
struct pb_sql_task *pb_sql_conn_task(struct pb_sql *s, struct duck_bind *info);
/* Runs SQL of our own; nobody else's text. */
int pb_sql_exec(struct pb_sql *s, struct pb_sql_conn *c, const char *sql, struct pb_err *err);
/* A statement of our own that the connection keeps prepared, in one of its fields. */
int pb_sql_conn_keep(struct pb_sql *s, struct pb_sql_conn *c, struct duck_prepared **kept,
                     const char *sql);
/* From here on until the connection is given back nothing can be changed through it. */
int pb_sql_conn_read_only(struct pb_sql *s, struct pb_sql_conn *c, struct pb_err *err);
/* Sets the variables that views read from the task's scope. */
int pb_sql_conn_scope(struct pb_sql *s, struct pb_sql_conn *c, struct pb_err *err);

int pb_sql_watch_start(struct pb_sql *s, struct pb_err *err);
void pb_sql_watch_stop(struct pb_sql *s);

/* Registers the functions that views use; pb_sql_warm calls each once. */
int pb_sql_scan_ring_register(struct pb_sql *s, struct duck_connection *c);
int pb_sql_scan_live_register(struct pb_sql *s, struct duck_connection *c);
int pb_sql_compat_register(struct pb_sql *s, struct duck_connection *c);
/* Called by the one above. */
int pb_sql_macros_register(struct pb_sql *s, struct duck_connection *c);
int pb_sql_bounds_register(struct pb_sql *s, struct duck_connection *c);

/* What is said when the time is up. */
void pb_sql_late(const struct pb_sql_task *t, bool stuck, struct pb_err *err);
void pb_sql_notice(struct pb_sql_task *task, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Settings by the node's rule, or the defaults. */
void pb_sql_read_settings(struct pb_sql *s, const struct pb_scope *scope, struct pb_settings *ret);
/* Text into a vector, or as a value (to be destroyed); bytes that are not UTF-8 come out as \xNN.
 * No other way leads text into the engine's tables. */
void pb_sql_put_text(const struct pb_duck *d, struct duck_vector *v, uint64_t row, const char *s,
                     size_t len);
struct duck_value *pb_sql_text_value(const struct pb_duck *d, const char *s);
/* All rows of a vector NULL, which must be a flat one. */
void pb_sql_put_nulls(const struct pb_duck *d, struct duck_vector *v, size_t n);
/* The type of a column. To be destroyed. */
struct duck_type *pb_sql_type(const struct pb_duck *d, enum pb_type type);

#endif
