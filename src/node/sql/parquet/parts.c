/* For the archive: rows of a ring as a Parquet file, files as one; and the list of tables. */
#include "node/sql/internal.h"
#include "node/sql/text/text.h"

#define PARQUET " (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 122880)"

static int copy_to(struct pb_sql *s, struct pb_sql_task *task, const char *what, const char *path,
                   struct pb_err *err)
{
    static const struct pb_scope everything = {.all = true};
    struct pb_buf b = PB_BUF_INIT;
    struct pb_sql_conn *c;
    int rc = -1;

    if (pb_sql_warm(s, err) < 0)
        return -1;
    task->sql = s;
    task->scope = &everything;
    task->deadline_ns = UINT64_MAX;
    pthread_mutex_init(&task->lock, NULL);
    c = pb_sql_conn_acquire(s, task, err);
    if (c) {
        pb_buf_printf(&b, "COPY (%s) TO ", what);
        pb_sql_literal(&b, path);
        pb_buf_puts(&b, PARQUET);
        rc = pb_sql_exec(s, c, b.data, err);
        pb_buf_finish(&b);
    }
    pb_sql_conn_release(s, c);
    pthread_mutex_destroy(&task->lock);
    return rc;
}

int pb_sql_write_ring(struct pb_sql *s, struct pb_store_ring *ring, uint64_t first, uint64_t last,
                      const char *path, uint64_t *ret_rows, struct pb_err *err)
{
    struct pb_sql_task task = {.ring = ring, .first = first, .last = last};

    if (copy_to(s, &task, "SELECT * FROM probing_ring('')", path, err) < 0)
        return -1;
    *ret_rows = atomic_load(&task.ring_rows);
    return 0;
}

int pb_sql_merge_files(struct pb_sql *s, const char *const *paths, size_t n, const char *path,
                       struct pb_err *err)
{
    struct pb_sql_task task = {0};
    struct pb_buf b = PB_BUF_INIT;
    int rc;

    pb_buf_puts(&b, "SELECT * FROM read_parquet([");
    for (size_t i = 0; i < n; i++) {
        if (i)
            pb_buf_putc(&b, ',');
        pb_sql_literal(&b, paths[i]);
    }
    /* They come in the order of their rows, and the engine keeps it: sorting would take memory. */
    pb_buf_puts(&b, "], union_by_name = true, hive_partitioning = false)");
    rc = copy_to(s, &task, b.data, path, err);
    pb_buf_finish(&b);
    return rc;
}

static void copy_table(struct pb_arena *a, const struct pb_catalog_table *t,
                       struct pb_sql_table *ret)
{
    static const char *const sources[] = {
        [PB_FROM_RING] = "ring", [PB_FROM_LIVE] = "live", [PB_FROM_VIEW] = "view"};
    struct pb_column_spec *columns = PB_NEW_N(a, struct pb_column_spec, t->ncolumns + 1);

    for (size_t i = 0; i < t->ncolumns; i++)
        columns[i] = (struct pb_column_spec){
            .name = pb_arena_strdup(a, t->columns[i].name),
            .type = t->columns[i].type,
            .unit = pb_arena_strdup(a, t->columns[i].unit),
            .doc = pb_arena_strdup(a, t->columns[i].doc),
        };
    *ret = (struct pb_sql_table){
        .name = pb_arena_strdup(a, t->name),
        .doc = pb_arena_strdup(a, t->doc),
        .source = sources[t->source],
        .columns = columns,
        .ncolumns = t->ncolumns,
    };
}

size_t pb_sql_tables(struct pb_sql *s, struct pb_arena *a, struct pb_sql_table **ret)
{
    size_t n;

    pthread_rwlock_rdlock(&s->catalog_lock);
    n = s->catalog.ntables;
    *ret = PB_NEW_N(a, struct pb_sql_table, n + 1);
    for (size_t i = 0; i < n; i++)
        copy_table(a, &s->catalog.tables[i], &(*ret)[i]);
    pthread_rwlock_unlock(&s->catalog_lock);
    return n;
}
