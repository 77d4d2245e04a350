/* For the lake that machines share: rows of history with their host, by date and hour. */
#include <string.h>
#include <strings.h>

#include "node/sql/internal.h"
#include "node/sql/text/text.h"

/* A statement of our own on a connection of its own. */
struct work {
    struct pb_sql_task task;
    struct pb_sql_conn *conn;
};

static const struct pb_scope everything = {.all = true};

static int begin(struct pb_sql *s, struct work *w, struct pb_err *err)
{
    *w = (struct work){0};
    if (pb_sql_warm(s, err) < 0)
        return -1;
    w->task.sql = s;
    w->task.scope = &everything;
    w->task.deadline_ns = UINT64_MAX;
    pthread_mutex_init(&w->task.lock, NULL);
    w->conn = pb_sql_conn_acquire(s, &w->task, err);
    if (w->conn)
        return 0;
    pthread_mutex_destroy(&w->task.lock);
    return -1;
}

static void end(struct pb_sql *s, struct work *w)
{
    pb_sql_conn_release(s, w->conn);
    pthread_mutex_destroy(&w->task.lock);
}

/* SELECT over all pieces; _last is what stands for the time of rows that have none. */
static void put_pieces(struct pb_buf *b, const struct pb_batch *batch)
{
    for (size_t i = 0; i < batch->npieces; i++) {
        const struct pb_batch_piece *p = &batch->pieces[i];

        pb_buf_puts(b, i ? " UNION ALL BY NAME SELECT * , " : "SELECT *, ");
        pb_sql_literal(b, batch->host);
        pb_buf_puts(b, " AS host, ");
        pb_sql_literal(b, p->process);
        pb_buf_printf(b, " AS process, %llu::BIGINT AS _ring, ", (unsigned long long)p->ring);
        pb_sql_literal(b, batch->id);
        pb_buf_printf(b, " AS _batch, %lld::BIGINT AS _last FROM read_parquet(",
                      (long long)(p->last_ns / 1000));
        pb_sql_literal(b, p->path);
        pb_buf_printf(b, ", hive_partitioning = false) WHERE _row BETWEEN %llu AND %llu",
                      (unsigned long long)p->first, (unsigned long long)p->last);
    }
}

/* A name of a folder hides a column of the same name. */
static void put_column(struct pb_buf *b, const char *name)
{
    bool taken = strcasecmp(name, "date") == 0 || strcasecmp(name, "hour") == 0;
    struct pb_buf renamed = PB_BUF_INIT;

    pb_sql_ident(b, name);
    if (taken) {
        pb_buf_printf(&renamed, "%s_", name);
        pb_buf_puts(b, " AS ");
        pb_sql_ident(b, renamed.data);
        pb_buf_finish(&renamed);
    }
    pb_buf_puts(b, ", ");
}

/* Columns, and in *time the name of the one that says when; empty: none does. */
static int put_columns(struct pb_sql *s, struct work *w, const char *select, struct pb_buf *b,
                       struct pb_buf *time, struct pb_err *err)
{
    const struct pb_duck *d = s->duck;
    duckdb_prepared_statement p = NULL;
    bool known = false;

    if (d->prepare(w->conn->duck, select, &p) != 0) {
        pb_err_set(err, PB_FAIL, "SQL engine: %s", p ? d->prepare_error(p) : "cannot prepare");
        d->destroy_prepare(&p);
        return -1;
    }
    for (uint64_t i = 0; i < d->prepared_statement_column_count(p); i++) {
        const char *name = d->prepared_statement_column_name(p, i);
        duckdb_logical_type type = d->prepared_statement_column_logical_type(p, i);

        if (d->get_type_id(type) == DUCKDB_TYPE_TIMESTAMP_TZ && !known) {
            known = strcmp(name, "timestamp") == 0;
            if (known || !time->len) {
                pb_buf_clear(time);
                pb_sql_ident(time, name);
            }
        }
        if (strcmp(name, "_last") != 0)
            put_column(b, name);
        d->destroy_logical_type(&type);
        d->free((char *)name);
    }
    d->destroy_prepare(&p);
    return 0;
}

int pb_sql_publish(struct pb_sql *s, const struct pb_batch *batch, const char *folder,
                   struct pb_err *err)
{
    struct pb_buf pieces = PB_BUF_INIT, b = PB_BUF_INIT, time = PB_BUF_INIT;
    struct work w;
    int rc = -1;

    if (begin(s, &w, err) < 0)
        return -1;
    put_pieces(&pieces, batch);
    pb_buf_puts(&b, "COPY (SELECT * EXCLUDE (_at), strftime(make_timestamp(_at), '%Y-%m-%d') AS "
                    "date, strftime(make_timestamp(_at), '%H') AS hour FROM (SELECT ");
    if (put_columns(s, &w, pieces.data, &b, &time, err) == 0) {
        /* No row is older than its ring or newer than now, whatever it says. */
        pb_buf_printf(&b, "least(greatest(%s%s%s, _ring // 1000), epoch_us(now())) AS _at",
                      time.len ? "coalesce(epoch_us(" : "", time.len ? time.data : "_last",
                      time.len ? "), _last)" : "");
        pb_buf_printf(&b, " FROM (%s))) TO ", pieces.data);
        pb_sql_literal(&b, folder);
        pb_buf_puts(&b, " (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 122880, "
                        "PARTITION_BY (date, hour), FILENAME_PATTERN 'rows-{i}')");
        rc = pb_sql_exec(s, w.conn, b.data, err);
    }
    pb_buf_finish(&time);
    pb_buf_finish(&b);
    pb_buf_finish(&pieces);
    end(s, &w);
    return rc;
}

int pb_sql_has_batch(struct pb_sql *s, const char *glob, const char *batch, bool *ret,
                     struct pb_err *err)
{
    struct pb_buf b = PB_BUF_INIT;
    duckdb_data_chunk chunk;
    duckdb_result r;
    struct work w;
    int rc = -1;

    if (begin(s, &w, err) < 0)
        return -1;
    pb_buf_puts(&b, "SELECT 1 FROM read_parquet(");
    pb_sql_literal(&b, glob);
    pb_buf_puts(&b, ", hive_partitioning = false) WHERE _batch = ");
    pb_sql_literal(&b, batch);
    pb_buf_puts(&b, " LIMIT 1");
    if (s->duck->query(w.conn->duck, b.data, &r) == 0) {
        chunk = s->duck->fetch_chunk(r);
        *ret = chunk && s->duck->data_chunk_get_size(chunk) > 0;
        if (chunk)
            s->duck->destroy_data_chunk(&chunk);
        rc = 0;
    } else {
        pb_err_set(err, PB_FAIL, "SQL engine: %s", s->duck->result_error(&r));
    }
    s->duck->destroy_result(&r);
    pb_buf_finish(&b);
    end(s, &w);
    return rc;
}
