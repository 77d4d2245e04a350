/*
 * probing_ring(table): the rows that are in rings now, of every process in scope. Bound once a
 * statement, here: which rings, which rows, and where each column of the table is in each ring.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "host/text/alloc.h"
#include "node/sql/scan/scan.h"

static void bound_free(void *p)
{
    struct pb_scan_bound *b = p;

    for (size_t i = 0; i < b->nsources; i++)
        free(b->sources[i].columns);
    free(b->sources);
    free(b->types);
    free(b);
}

/* Who a row is about: of another user's ring that is said by whose folder it is in. */
static bool is_about(const char *name)
{
    return strcasecmp(name, "pid") == 0 || strcasecmp(name, "rank") == 0 ||
           strcasecmp(name, "host") == 0;
}

static int find_column(const struct pb_store_ring *ring, const char *name)
{
    const struct pb_reader *r = &ring->reader;
    char buf[PB_CATALOG_NAME];

    if (ring->store->foreign && is_about(name))
        return PB_SCAN_NOWHERE;
    for (size_t i = 0; i < r->ncolumns; i++)
        if (strcasecmp(pb_catalog_column(r->columns[i].name, buf), name) == 0)
            return (int)i;
    return PB_SCAN_NOWHERE;
}

static int find_typed(const struct pb_store_ring *ring, const char *name, enum pb_type type)
{
    int at = find_column(ring, name);

    return at >= 0 && ring->reader.columns[at].type == type ? at : -1;
}

/* Two kinds of text are one type in SQL; whole numbers may be shown as floating point. */
static bool fits_type(enum pb_type is, enum pb_type wanted)
{
    return is == wanted || (is == PB_INT && wanted == PB_REAL) ||
           ((is == PB_NAME || is == PB_TEXT) && (wanted == PB_NAME || wanted == PB_TEXT));
}

/* Where each column of the table is in this ring; false when one is there with another type. */
static bool map_columns(struct pb_sql_task *task, const struct pb_column_spec *columns, size_t n,
                        const struct pb_store_ring *ring, int *ret)
{
    for (size_t i = 0; i < n; i++) {
        int at = find_column(ring, columns[i].name);

        if (at < 0 && strcmp(columns[i].name, "host") == 0)
            at = PB_SCAN_HOST;
        else if (at < 0 && !(ring->reader.flags & PB_RING_SHARED))
            at = strcmp(columns[i].name, "pid") == 0    ? PB_SCAN_PID
                 : strcmp(columns[i].name, "rank") == 0 ? PB_SCAN_RANK
                 : strcmp(columns[i].name, "_row") == 0 ? PB_SCAN_ROW
                                                        : PB_SCAN_NOWHERE;
        else if (at < 0 && strcmp(columns[i].name, "_row") == 0)
            at = PB_SCAN_ROW;
        if (at >= 0 && !fits_type(ring->reader.columns[at].type, columns[i].type)) {
            pb_sql_notice(task, "%s of process %s left out: its column %s has another type",
                          ring->reader.name, ring->store->process.id, columns[i].name);
            return false;
        }
        ret[i] = at;
    }
    return true;
}

static void add_source(struct pb_scan_bound *b, struct pb_sql_task *task,
                       const struct pb_column_spec *columns, const struct pb_store_ring *ring,
                       uint64_t first, uint64_t next)
{
    struct pb_scan_source *s;
    int *map = pb_alloc_resize(NULL, (b->ncolumns + 1) * sizeof *map);

    if (first >= next ||
        !map_columns(task, columns, b->ncolumns, ring, map)) {
        free(map);
        return;
    }
    b->sources = pb_alloc_resize(b->sources, (b->nsources + 1) * sizeof *b->sources);
    s = &b->sources[b->nsources++];
    *s = (struct pb_scan_source){ring, first, next, -1, -1, map};
    if ((ring->reader.flags & PB_RING_SHARED) && !task->scope->all) {
        s->pid_at = find_typed(ring, "pid", PB_INT);
        s->time_at = find_typed(ring, "timestamp", PB_TIME);
    }
}

/* The rings of this table that the statement may see, with the rows that are not in files. */
static void add_rings(struct pb_scan_bound *b, struct pb_sql_task *task,
                      const struct pb_catalog_table *t)
{
    for (size_t i = 0; task->stores && i < task->stores->nstores; i++) {
        const struct pb_store *store = task->stores->stores[i];

        for (size_t k = 0; k < store->nrings; k++) {
            struct pb_store_ring *ring = store->rings[k];
            uint64_t first, next, sealed;

            if (strcasecmp(ring->reader.name, t->name) != 0)
                continue;
            if (!(ring->reader.flags & PB_RING_SHARED) &&
                !pb_scope_has_id(task->scope, store->process.id))
                continue;
            pb_reader_range(&ring->reader, &first, &next);
            sealed = t->archived ? atomic_load(&ring->sealed) : 0;
            add_source(b, task, t->columns, ring, sealed > first ? sealed : first, next);
        }
    }
}

static void add_result_columns(const struct pb_duck *d, duckdb_bind_info info,
                               struct pb_scan_bound *b, const struct pb_column_spec *columns,
                               size_t n)
{
    b->types = pb_alloc_resize(NULL, (n + 1) * sizeof *b->types);
    b->ncolumns = n;
    for (size_t i = 0; i < n; i++) {
        duckdb_logical_type type = pb_sql_type(d, columns[i].type);

        b->types[i] = columns[i].type;
        d->bind_add_result_column(info, columns[i].name, type);
        d->destroy_logical_type(&type);
    }
}

/* The columns of one ring as the archive writes them: its own, then what is not among them. */
static void bind_part(const struct pb_duck *d, duckdb_bind_info info, struct pb_scan_bound *b,
                      struct pb_sql_task *task)
{
    static const char *const added[] = {"pid", "rank"};
    const struct pb_reader *r = &task->ring->reader;
    struct pb_column_spec columns[PB_RING_COLUMNS_MAX + 3];
    char names[PB_RING_COLUMNS_MAX][PB_CATALOG_NAME];
    size_t n = 0;

    columns[n++] = (struct pb_column_spec){"_row", PB_INT, "", ""};
    for (size_t i = 0; i < r->ncolumns && i < PB_RING_COLUMNS_MAX; i++) {
        const char *name = pb_catalog_column(r->columns[i].name, names[i]);

        /* Of two with the same name the first. */
        if (*name && find_column(task->ring, name) == (int)i)
            columns[n++] = (struct pb_column_spec){name, r->columns[i].type, "", ""};
    }
    for (size_t i = 0; i < 2; i++)
        if (find_column(task->ring, added[i]) < 0)
            columns[n++] = (struct pb_column_spec){added[i], PB_INT, "", ""};
    add_result_columns(d, info, b, columns, n);
    add_source(b, task, columns, task->ring, task->first, task->last + 1);
}

static void bind(duckdb_bind_info info)
{
    const struct pb_duck *d = pb_duck();
    struct pb_sql *sql;
    struct pb_sql_task *task = pb_sql_conn_task(info, &sql);
    duckdb_value value = d->bind_get_parameter(info, 0);
    char *name = d->get_varchar(value);
    const struct pb_catalog_table *t;
    struct pb_scan_bound *b;
    uint64_t total = 0;

    d->destroy_value(&value);
    /* A statement that is bound holds the catalog; the archive, which names a ring, does not. */
    t = name && task && !task->ring ? pb_catalog_find(&sql->catalog, name) : NULL;
    d->free(name);
    if (!task || (!task->ring && (!t || t->source != PB_FROM_RING))) {
        d->bind_set_error(info, "no such ring");
        return;
    }
    b = pb_alloc_resize(NULL, sizeof *b);
    *b = (struct pb_scan_bound){.task = task};
    if (task->ring) {
        bind_part(d, info, b, task);
    } else {
        add_result_columns(d, info, b, t->columns, t->ncolumns);
        add_rings(b, task, t);
    }
    for (size_t i = 0; i < b->nsources; i++)
        total += b->sources[i].next - b->sources[i].first;
    d->bind_set_cardinality(info, total, false);
    d->bind_set_bind_data(info, b, bound_free);
}

int pb_sql_scan_ring_register(struct pb_sql *s, duckdb_connection c)
{
    const struct pb_duck *d = s->duck;
    duckdb_table_function f = d->create_table_function();
    duckdb_logical_type text = d->create_logical_type(DUCKDB_TYPE_VARCHAR);
    int rc;

    d->table_function_set_name(f, "probing_ring");
    d->table_function_add_parameter(f, text);
    pb_sql_conn_introduce(s, f);
    d->table_function_set_bind(f, bind);
    d->table_function_set_init(f, pb_scan_init);
    d->table_function_set_local_init(f, pb_scan_local_init);
    d->table_function_set_function(f, pb_scan_rows);
    d->table_function_supports_projection_pushdown(f, true);
    rc = d->register_table_function(c, f) == 0 ? 0 : -1;
    d->destroy_logical_type(&text);
    d->destroy_table_function(&f);
    return rc;
}
