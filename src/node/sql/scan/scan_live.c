/*
 * probing_live(table): a table that is made when it is read. The rows are made once a scan, when
 * the first chunk is asked for: by then the statement holds no lock.
 */
#include <stdlib.h>
#include <string.h>

#include "host/text/alloc.h"
#include "node/sql/internal.h"
#include "node/sql/scan/scan.h"
#include "node/sql/settings.h"

struct bound {
    struct pb_sql_task *task;
    const struct pb_live *live;
};

struct scan {
    const struct bound *bound;
    size_t *wanted;
    size_t nwanted;
    bool *used; /* by column of the table */
    bool made;
    struct pb_rows rows;
    size_t next;
};

static const struct pb_live *find_live(const char *name)
{
    if (strcmp(name, pb_live_df_settings.name) == 0)
        return &pb_live_df_settings;
    for (const struct pb_known_table *k = pb_known_tables; k->ring || k->live; k++)
        if (k->live && strcmp(k->live->name, name) == 0)
            return k->live;
    return NULL;
}

static void bind(duckdb_bind_info info)
{
    const struct pb_duck *d = pb_duck();
    struct pb_sql *sql;
    duckdb_value value = d->bind_get_parameter(info, 0);
    char *name = d->get_varchar(value);
    struct pb_sql_task *task = pb_sql_conn_task(info, &sql);
    const struct pb_live *live = name ? find_live(name) : NULL;
    struct bound *b;

    d->destroy_value(&value);
    d->free(name);
    if (!live || !task) {
        d->bind_set_error(info, "no such live table");
        return;
    }
    b = pb_alloc_resize(NULL, sizeof *b);
    *b = (struct bound){task, live};
    for (size_t i = 0; i < live->ncolumns; i++) {
        duckdb_logical_type type = pb_sql_type(d, live->columns[i].type);

        d->bind_add_result_column(info, live->columns[i].name, type);
        d->destroy_logical_type(&type);
    }
    d->bind_set_bind_data(info, b, free);
}

static void scan_free(void *p)
{
    struct scan *s = p;

    pb_rows_finish(&s->rows);
    free(s->wanted);
    free(s->used);
    free(s);
}

static void init(duckdb_init_info info)
{
    const struct pb_duck *d = pb_duck();
    struct scan *s = pb_alloc_resize(NULL, sizeof *s);

    memset(s, 0, sizeof *s);
    s->bound = d->init_get_bind_data(info);
    s->nwanted = d->init_get_column_count(info);
    s->wanted = pb_alloc_resize(NULL, (s->nwanted + 1) * sizeof *s->wanted);
    s->used = pb_alloc_resize(NULL, s->bound->live->ncolumns);
    memset(s->used, 0, s->bound->live->ncolumns);
    for (size_t i = 0; i < s->nwanted; i++) {
        s->wanted[i] = d->init_get_column_index(info, i);
        if (s->wanted[i] < s->bound->live->ncolumns)
            s->used[s->wanted[i]] = true;
    }
    pb_scan_release();
    d->init_set_max_threads(info, 1);
    d->init_set_init_data(info, s, scan_free);
}

static void put_cell(const struct pb_duck *d, duckdb_vector v, void *data, size_t row,
                     enum pb_type type, const struct pb_row_cell *cell)
{
    switch (type) {
    case PB_TIME:
        ((int64_t *)data)[row] = cell->v.i / 1000 - (cell->v.i % 1000 < 0);
        break;
    case PB_INT:
        ((int64_t *)data)[row] = cell->v.i;
        break;
    case PB_REAL:
        ((double *)data)[row] = cell->v.d;
        break;
    case PB_BOOL:
        ((bool *)data)[row] = cell->v.b;
        break;
    case PB_NAME:
    case PB_TEXT:
        pb_sql_put_text(d, v, row, cell->v.s, strlen(cell->v.s));
        break;
    }
}

static void put_column(const struct pb_duck *d, const struct scan *s, duckdb_vector v,
                       size_t column, size_t n)
{
    const struct pb_row_cell *cell = s->rows.cells + s->next * s->rows.ncolumns + column;
    void *data = d->vector_get_data(v);
    uint64_t *validity;

    d->vector_ensure_validity_writable(v);
    validity = d->vector_get_validity(v);
    for (size_t i = 0; i < n; i++, cell += s->rows.ncolumns) {
        if (cell->null)
            validity[i / 64] &= ~((uint64_t)1 << (i % 64));
        else
            put_cell(d, v, data, i, s->rows.columns[column].type, cell);
    }
}

static void rows(duckdb_function_info info, duckdb_data_chunk output)
{
    const struct pb_duck *d = pb_duck();
    struct scan *s = d->function_get_init_data(info);
    const struct bound *b;
    struct pb_err err = {0};
    size_t n;

    pb_scan_acquire();
    b = s->bound;
    if (!s->made) {
        s->made = true;
        pb_rows_init(&s->rows, b->live->columns, b->live->ncolumns);
        s->rows.deadline_ns = b->task->deadline_ns;
        s->rows.cancelled = b->task->cancelled;
        if (b->live->fill(b->task->sql->with.node, b->task->scope, s->used, &s->rows, &err) < 0) {
            d->function_set_error(info, err.msg);
            return;
        }
        if (s->rows.notice)
            pb_sql_notice(b->task, "%s", s->rows.notice);
    }
    n = s->rows.nrows - s->next;
    if (n > PB_DUCK_VECTOR)
        n = PB_DUCK_VECTOR;
    for (size_t i = 0; n > 0 && i < s->nwanted; i++)
        if (s->wanted[i] < b->live->ncolumns)
            put_column(d, s, d->data_chunk_get_vector(output, i), s->wanted[i], n);
    s->next += n;
    pb_scan_release();
    d->data_chunk_set_size(output, n);
}

int pb_sql_scan_live_register(struct pb_sql *s, duckdb_connection c)
{
    const struct pb_duck *d = s->duck;
    duckdb_table_function f = d->create_table_function();
    duckdb_logical_type text = d->create_logical_type(DUCKDB_TYPE_VARCHAR);
    int rc;

    d->table_function_set_name(f, "probing_live");
    d->table_function_add_parameter(f, text);
    pb_sql_conn_introduce(s, f);
    d->table_function_set_bind(f, bind);
    d->table_function_set_init(f, init);
    d->table_function_set_function(f, rows);
    d->table_function_supports_projection_pushdown(f, true);
    rc = d->register_table_function(c, f) == 0 ? 0 : -1;
    d->destroy_logical_type(&text);
    d->destroy_table_function(&f);
    return rc;
}
