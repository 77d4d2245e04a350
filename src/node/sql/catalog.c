#include "node/sql/catalog.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "host/alloc.h"
#include "node/sampler.h"
#include "node/sql/internal.h"
#include "node/sql/text.h"
#include "store/tables/probing_audit.h"
#include "store/tables/python_comm.h"
#include "store/tables/python_events.h"
#include "store/tables/python_memory.h"
#include "store/tables/python_out_of_memory.h"
#include "store/tables/python_profile_ops.h"
#include "store/tables/python_spans.h"
#include "store/tables/python_torch_trace.h"
#include "store/tables/python_training_logs.h"
#include "store/tables/table.h"

/* What agents write, whether or not one has written it yet. */
struct known {
    const char *name, *doc;
    const struct pb_column_spec *columns;
    size_t ncolumns;
};

#define PB_TABLE(list)                                                                             \
    static const struct pb_column_spec columns_of_##list[] = {list(PB_TABLE_COLUMN)};
#include "store/tables/tables.def"
#undef PB_TABLE

static const struct known known[] = {
#define PB_TABLE(list)                                                                             \
    {list##_NAME, list##_DOC, columns_of_##list,                                                   \
     sizeof columns_of_##list / sizeof *columns_of_##list},
#include "store/tables/tables.def"
#undef PB_TABLE
};

static const struct pb_column_spec common[] = {
    {"host", PB_NAME, "", "machine"},
    {"pid", PB_INT, "", "process id"},
    {"rank", PB_INT, "", "rank in its job, if it has one"},
};

void pb_catalog_finish(struct pb_catalog *c)
{
    for (size_t i = 0; i < c->nmade; i++) {
        free(c->made[i].name);
        free(c->made[i].sql);
    }
    free(c->made);
    free(c->tables);
    pb_arena_finish(&c->arena);
    *c = (struct pb_catalog){0};
}

struct pb_catalog_table *pb_catalog_find(const struct pb_catalog *c, const char *name)
{
    for (size_t i = 0; i < c->ntables; i++)
        if (strcasecmp(c->tables[i].name, name) == 0)
            return &c->tables[i];
    return NULL;
}

struct pb_catalog_table *pb_catalog_add(struct pb_catalog *c, const char *name, const char *doc,
                                        enum pb_catalog_source source)
{
    struct pb_catalog_table *t;

    if (c->ntables == c->cap) {
        c->cap = c->cap ? c->cap * 2 : 64;
        c->tables = pb_alloc_resize(c->tables, c->cap * sizeof *c->tables);
    }
    t = &c->tables[c->ntables++];
    *t = (struct pb_catalog_table){
        .name = pb_arena_strdup(&c->arena, name),
        .doc = pb_arena_strdup(&c->arena, doc),
        .source = source,
    };
    return t;
}

void pb_catalog_add_column(struct pb_catalog *c, struct pb_catalog_table *t, const char *name,
                           enum pb_type type, const char *unit, const char *doc)
{
    if (t->ncolumns == t->cap) {
        size_t cap = t->cap ? t->cap * 2 : 16;

        t->columns = pb_arena_grow(&c->arena, t->columns, t->cap * sizeof *t->columns,
                                   cap * sizeof *t->columns);
        t->cap = cap;
    }
    t->columns[t->ncolumns++] = (struct pb_column_spec){
        .name = pb_arena_strdup(&c->arena, name),
        .type = type,
        .unit = pb_arena_strdup(&c->arena, unit),
        .doc = pb_arena_strdup(&c->arena, doc),
    };
}

bool pb_catalog_is_known(const char *name)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcasecmp(known[i].name, name) == 0)
            return true;
    for (const struct pb_sampler *const *s = pb_sampler_list; *s; s++)
        if (strcasecmp((*s)->ring.name, name) == 0)
            return true;
    for (const struct pb_live *const *l = pb_lives; *l; l++)
        if (strcasecmp((*l)->name, name) == 0)
            return true;
    return false;
}

static bool has_column(const struct pb_catalog_table *t, const char *name)
{
    for (size_t i = 0; i < t->ncolumns; i++)
        if (strcasecmp(t->columns[i].name, name) == 0)
            return true;
    return false;
}

const char *pb_catalog_column(const char *name, char buf[PB_CATALOG_NAME])
{
    static const char *const taken[] = {"host", "date", "process", "_row"};
    size_t n = (size_t)snprintf(buf, PB_RING_COLUMN_NAME + 1, "%s", name);

    buf[pb_reader_clean(buf, n < PB_RING_COLUMN_NAME ? n : PB_RING_COLUMN_NAME, false)] = 0;
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        if (strcasecmp(name, taken[i]) == 0) {
            strcat(buf, "_");
            break;
        }
    }
    return buf;
}

/* Text of a ring as it may stand in SQL. */
static const char *clean(struct pb_catalog *c, const char *text)
{
    char *copy = pb_arena_strdup(&c->arena, text);

    copy[pb_reader_clean(copy, strlen(copy), false)] = 0;
    return copy;
}

static void add_spec(struct pb_catalog *c, struct pb_catalog_table *t,
                     const struct pb_column_spec *columns, size_t n)
{
    char buf[PB_CATALOG_NAME];

    for (size_t i = 0; i < n; i++)
        pb_catalog_add_column(c, t, pb_catalog_column(columns[i].name, buf), columns[i].type,
                              columns[i].unit ? columns[i].unit : "",
                              columns[i].doc ? columns[i].doc : "");
}

static void add_known(struct pb_catalog *c)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        add_spec(c, pb_catalog_add(c, known[i].name, known[i].doc, PB_FROM_RING), known[i].columns,
                 known[i].ncolumns);
    for (const struct pb_sampler *const *s = pb_sampler_list; *s; s++) {
        const struct pb_ring_spec *spec = &(*s)->ring;
        struct pb_catalog_table *t = pb_catalog_add(c, spec->name, spec->doc, PB_FROM_RING);

        t->shared = spec->flags & PB_RING_SHARED;
        add_spec(c, t, spec->columns, spec->ncolumns);
    }
    for (const struct pb_live *const *l = pb_lives; *l; l++) {
        struct pb_catalog_table *t = pb_catalog_add(c, (*l)->name, (*l)->doc, PB_FROM_LIVE);

        t->live = *l;
        for (size_t i = 0; i < (*l)->ncolumns; i++)
            pb_catalog_add_column(c, t, (*l)->columns[i].name, (*l)->columns[i].type,
                                  (*l)->columns[i].unit ? (*l)->columns[i].unit : "",
                                  (*l)->columns[i].doc ? (*l)->columns[i].doc : "");
    }
}

/* A name that SQL and folders can bear: letters, digits and _ with one dot between. */
static bool is_table_name(const char *name)
{
    const char *dot = strchr(name, '.');

    return dot && dot > name && dot[1] && !strchr(dot + 1, '.') &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_.") == strlen(name);
}

/* A column of an older or newer process: those that are not known yet go to the end. */
static void add_ring(struct pb_catalog *c, const struct pb_reader *r)
{
    struct pb_catalog_table *t = pb_catalog_find(c, r->name);
    char buf[PB_CATALOG_NAME];

    if (!t) {
        t = pb_catalog_add(c, r->name, clean(c, r->doc), PB_FROM_RING);
        t->shared = r->flags & PB_RING_SHARED;
    }
    if (t->source != PB_FROM_RING)
        return;
    for (size_t i = 0; i < r->ncolumns; i++) {
        const struct pb_reader_column *col = &r->columns[i];
        const char *name = pb_catalog_column(col->name, buf);

        if (*name && !has_column(t, name))
            pb_catalog_add_column(c, t, name, col->type, clean(c, col->unit), clean(c, col->doc));
    }
}

/* Our own first: what type a column has is said by the first ring that has it. */
static void add_rings(struct pb_catalog *c, const struct pb_stores *stores, bool foreign)
{
    for (size_t i = 0; stores && i < stores->nstores; i++)
        for (size_t k = 0; k < stores->stores[i]->nrings; k++)
            if (stores->stores[i]->foreign == foreign &&
                is_table_name(stores->stores[i]->rings[k]->reader.name))
                add_ring(c, &stores->stores[i]->rings[k]->reader);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct pb_catalog_table *)a)->name,
                  ((const struct pb_catalog_table *)b)->name);
}

static uint64_t sum_files(const struct pb_archive_table *files, size_t n)
{
    uint64_t h = 0xcbf29ce484222325u;

    for (size_t i = 0; i < n; i++) {
        for (const char *p = files[i].name; *p; p++)
            h = (h ^ (unsigned char)*p) * 0x100000001b3u;
        for (const char *p = files[i].glob; *p; p++)
            h = (h ^ (unsigned char)*p) * 0x100000001b3u;
        h = (h ^ (files[i].changes << 1 | files[i].mixed)) * 0x100000001b3u;
    }
    return h;
}

bool pb_catalog_fits(const struct pb_catalog *c, const struct pb_stores *stores,
                     const struct pb_archive_table *files, size_t nfiles)
{
    return c->built && c->stores_changes == (stores ? stores->changes : 0) &&
           c->archive_sum == sum_files(files, nfiles);
}

void pb_catalog_put_files(struct pb_buf *b, const struct pb_archive_table *files)
{
    pb_buf_puts(b, "SELECT * EXCLUDE (_row, date, process) FROM read_parquet(");
    pb_sql_literal(b, files->glob);
    pb_buf_printf(b, ", hive_partitioning = true, hive_types_autocast = false%s)",
                  files->mixed ? ", union_by_name = true" : "");
}

static void put_columns(struct pb_buf *b, const struct pb_catalog_table *t)
{
    for (size_t i = 0; i < t->ncolumns; i++) {
        if (i)
            pb_buf_puts(b, ", ");
        pb_sql_ident(b, t->columns[i].name);
    }
}

static void put_ring_view(struct pb_buf *b, const struct pb_catalog_table *t)
{
    pb_buf_puts(b, "SELECT ");
    put_columns(b, t);
    pb_buf_printf(b, " FROM probing_ring('%s')", t->name);
}

/* The order of columns is the table's; those that only files have come last. */
static void put_view(struct pb_buf *b, const struct pb_catalog_table *t,
                     const struct pb_archive_table *files)
{
    pb_buf_puts(b, "SELECT ");
    put_columns(b, t);
    pb_buf_puts(b, ", * EXCLUDE (");
    put_columns(b, t);
    pb_buf_puts(b, ") FROM (");
    pb_catalog_put_files(b, files);
    pb_buf_puts(b, " WHERE getvariable('scope') IS NULL OR ");
    if (!t->shared)
        pb_buf_puts(b, "process IN getvariable('scope')");
    else
        pb_buf_printf(b, "pid IS NULL OR (pid IN getvariable('pids')%s)",
                      has_column(t, "timestamp") ? " AND timestamp BETWEEN getvariable('since') "
                                                   "AND getvariable('until')"
                                                 : "");
    pb_buf_printf(b, " UNION ALL BY NAME SELECT * FROM probing_ring('%s'))", t->name);
}

static void view_of_ring(struct pb_catalog *c, struct pb_catalog_table *t,
                         const struct pb_archive_table *files)
{
    struct pb_buf b = PB_BUF_INIT;

    /* A view knows the types of its columns: other types, another text. */
    pb_buf_puts(&b, "/* ");
    for (size_t i = 0; i < t->ncolumns; i++)
        pb_buf_printf(&b, "%d", (int)t->columns[i].type);
    pb_buf_printf(&b, " %llu */ ", files ? (unsigned long long)files->changes : 0ull);
    if (files)
        put_view(&b, t, files);
    else
        put_ring_view(&b, t);
    t->sql = pb_arena_strdup(&c->arena, b.data);
    pb_buf_finish(&b);
}

static const struct pb_archive_table *find_files(const struct pb_archive_table *files, size_t n,
                                                 const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(files[i].name, name) == 0)
            return &files[i];
    return NULL;
}

static void finish_table(struct pb_catalog *c, struct pb_catalog_table *t,
                         const struct pb_archive_table *own)
{
    if (t->source == PB_FROM_LIVE) {
        t->sql = pb_arena_printf(&c->arena, "SELECT * FROM probing_live('%s')", t->name);
        return;
    }
    if (t->source != PB_FROM_RING)
        return;
    for (size_t i = 0; i < sizeof common / sizeof *common; i++)
        if (!has_column(t, common[i].name))
            pb_catalog_add_column(c, t, common[i].name, common[i].type, common[i].unit,
                                  common[i].doc);
    t->archived = own != NULL;
    view_of_ring(c, t, own);
}

void pb_catalog_build(struct pb_catalog *c, const struct pb_stores *stores,
                      const struct pb_archive_table *files, size_t nfiles, pb_catalog_learn *learn,
                      void *arg)
{
    pb_arena_finish(&c->arena);
    c->ntables = 0;
    add_known(c);
    add_rings(c, stores, false);
    add_rings(c, stores, true);
    for (size_t i = 0; i < nfiles; i++)
        if (is_table_name(files[i].name) && !pb_catalog_find(c, files[i].name))
            learn(c, pb_catalog_add(c, files[i].name, "", PB_FROM_RING), &files[i], arg);
    pb_catalog_add_views(c);
    for (size_t i = 0; i < c->ntables; i++)
        finish_table(c, &c->tables[i], find_files(files, nfiles, c->tables[i].name));
    qsort(c->tables, c->ntables, sizeof *c->tables, by_name);
    c->stores_changes = stores ? stores->changes : 0;
    c->archive_sum = sum_files(files, nfiles);
    c->built = true;
}
