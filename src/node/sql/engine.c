#include "node/sql/engine.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/text/alloc.h"
#include "node/sql/error.h"
#include "node/sql/internal.h"
#include "node/sql/text/text.h"
#include "node/watchdog/cores.h"

int pb_sql_create(struct pb_sql **ret, const struct pb_sql_opts *o, struct pb_err *err)
{
    struct pb_sql *s = pb_alloc_resize(NULL, sizeof *s);

    (void)err;
    memset(s, 0, sizeof *s);
    s->with = *o;
    s->duck = pb_duck();
    pthread_mutex_init(&s->warm_lock, NULL);
    pthread_mutex_init(&s->lock, NULL);
    pthread_rwlock_init(&s->catalog_lock, NULL);
    *ret = s;
    return 0;
}

void pb_sql_set_archive(struct pb_sql *s, struct pb_archive *archive)
{
    s->archive = archive;
}

const struct pb_sql_counts *pb_sql_counts(const struct pb_sql *s)
{
    return &s->counts;
}

void pb_sql_destroy(struct pb_sql *s)
{
    if (!s)
        return;
    pb_sql_watch_stop(s);
    pb_sql_conns_close(s);
    if (s->db)
        s->duck->close(&s->db);
    if (s->own_tmp)
        rmdir(s->tmp);
    free(s->aggregates);
    pb_catalog_finish(&s->catalog);
    pb_elsewhere_finish(&s->elsewhere);
    pthread_rwlock_destroy(&s->catalog_lock);
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->warm_lock);
    free(s);
}

void pb_sql_read_settings(struct pb_sql *s, const struct pb_scope *scope, struct pb_settings *ret)
{
    struct pb_err ignored = {0};

    pb_settings_init(ret);
    if (s->with.settings && s->with.settings->read(s->with.node, scope, ret, &ignored) < 0)
        pb_settings_init(ret);
}

int pb_sql_warm(struct pb_sql *s, struct pb_err *err)
{
    int rc = 0;

    if (atomic_load_explicit(&s->warm, memory_order_acquire) &&
        !atomic_load_explicit(&s->broken, memory_order_acquire))
        return 0;
    pthread_mutex_lock(&s->warm_lock);
    if (!atomic_load_explicit(&s->warm, memory_order_relaxed)) {
        rc = pb_duck_load(err) < 0 || pb_sql_database_open(s, err) < 0 ||
                     pb_sql_watch_start(s, err) < 0
                 ? -1
                 : 0;
        if (rc == 0)
            atomic_store_explicit(&s->warm, true, memory_order_release);
    } else if (atomic_load_explicit(&s->broken, memory_order_relaxed)) {
        rc = pb_sql_database_open(s, err);
        if (rc == 0)
            atomic_store_explicit(&s->broken, false, memory_order_release);
    }
    pthread_mutex_unlock(&s->warm_lock);
    return rc;
}

/* Runs statements of our own. conn: for whom, or NULL while the database is being set up. */
static int run_own(struct pb_sql *s, duckdb_connection c, struct pb_sql_conn *conn, const char *sql,
                   struct pb_err *err)
{
    duckdb_result r;
    const char *said;
    char why[256];
    int rc = 0;

    if (s->duck->query(c, sql, &r) != 0) {
        said = s->duck->result_error(&r);
        if (conn)
            pb_sql_database_check(s, conn, said);
        pb_sql_plain(said, why, sizeof why);
        rc = pb_err_set(err, PB_FAIL, "SQL engine: %s", why);
    }
    s->duck->destroy_result(&r);
    return rc;
}

int pb_sql_exec(struct pb_sql *s, struct pb_sql_conn *c, const char *sql, struct pb_err *err)
{
    return run_own(s, c->duck, c, sql, err);
}

int pb_sql_database_run(struct pb_sql *s, duckdb_connection c, const char *sql, struct pb_err *err)
{
    return run_own(s, c, NULL, sql, err);
}

/* Said once: a table may be bound several times for one statement. */
void pb_sql_notice(struct pb_sql_task *task, const char *fmt, ...)
{
    struct pb_buf line = PB_BUF_INIT;
    va_list ap;

    if (!task->notices)
        return;
    va_start(ap, fmt);
    pb_buf_vprintf(&line, fmt, ap);
    va_end(ap);
    pb_buf_putc(&line, '\n');
    pthread_mutex_lock(&task->lock);
    if (!task->notices->data || !strstr(task->notices->data, line.data))
        pb_buf_add(task->notices, line.data, line.len);
    pthread_mutex_unlock(&task->lock);
    pb_buf_finish(&line);
}

const char *pb_sql_tmp(const struct pb_sql *s)
{
    return s->tmp;
}

uint64_t pb_sql_memory(struct pb_sql *s)
{
    duckdb_result r;
    duckdb_data_chunk chunk;
    struct pb_sql_conn *c;
    struct pb_err ignored = {0};
    uint64_t bytes = 0;

    if (!atomic_load_explicit(&s->warm, memory_order_acquire))
        return 0;
    c = pb_sql_conn_acquire(s, NULL, &ignored);
    if (!c)
        return 0;
    if (s->duck->query(c->duck, "SELECT sum(memory_usage_bytes)::BIGINT FROM duckdb_memory()",
                       &r) == 0) {
        chunk = s->duck->fetch_chunk(r);
        if (chunk && s->duck->data_chunk_get_size(chunk) == 1)
            bytes = *(uint64_t *)s->duck->vector_get_data(s->duck->data_chunk_get_vector(chunk, 0));
        if (chunk)
            s->duck->destroy_data_chunk(&chunk);
    }
    s->duck->destroy_result(&r);
    pb_sql_conn_release(s, c);
    return bytes;
}
