#include "node/sql/catalog.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/hash.h"
#include "host/text/alloc.h"
#include "node/sql/elsewhere.h"
#include "node/sql/internal.h"
#include "node/sql/text/text.h"

static const struct pb_column_spec common[] = {PB_LIVE_COMMON(PB_TABLE_COLUMN)};

static const char *name_of(const struct pb_known_table *k)
{
    return k->ring ? k->ring->name : k->live ? k->live->name : NULL;
}

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
    for (const struct pb_known_table *k = pb_known_tables; name_of(k); k++)
        if (strcasecmp(name_of(k), name) == 0)
            return true;
    return false;
}

static struct pb_column_spec *find_column(const struct pb_catalog_table *t, const char *name)
{
    for (size_t i = 0; i < t->ncolumns; i++)
        if (strcasecmp(t->columns[i].name, name) == 0)
            return &t->columns[i];
    return NULL;
}

static bool has_column(const struct pb_catalog_table *t, const char *name)
{
    return find_column(t, name) != NULL;
}

bool pb_catalog_widen(struct pb_catalog_table *t, const char *name, enum pb_type type)
{
    struct pb_column_spec *there = find_column(t, name);

    if (there && there->type == PB_INT && type == PB_REAL)
        there->type = PB_REAL;
    return there != NULL;
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
    for (const struct pb_known_table *k = pb_known_tables; name_of(k); k++) {
        struct pb_catalog_table *t = pb_catalog_add(c, name_of(k), k->ring ? k->ring->doc
                                                                           : k->live->doc,
                                                    k->ring ? PB_FROM_RING : PB_FROM_LIVE);

        t->live = k->live;
        if (k->ring)
            add_spec(c, t, k->ring->columns, k->ring->ncolumns);
        /* Who writes of others says of whom. */
        t->shared = k->ring && (k->ring->flags & PB_RING_SHARED || has_column(t, "pid"));
        for (size_t i = 0; k->live && i < k->live->ncolumns; i++)
            pb_catalog_add_column(c, t, k->live->columns[i].name, k->live->columns[i].type,
                                  k->live->columns[i].unit, k->live->columns[i].doc);
    }
}

bool pb_catalog_is_table_name(const char *name)
{
    const char *dot = strchr(name, '.');

    return dot && dot > name && dot[1] && !strchr(dot + 1, '.') &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_.") == strlen(name);
}

/*
 * What one other user has added to the tables. Each is a view and takes its time, and all who ask
 * what tables there are wait for all of them.
 */
struct added {
    uid_t uid;
    unsigned tables, columns;
};
enum { FOREIGN_TABLES_MAX = 64, FOREIGN_COLUMNS_MAX = 4096 };

/*
 * A column of an older or newer process: those that are not known yet go to the end; whole numbers
 * become floating point when another process has that. `by`: whose ring it is; NULL: our own.
 */
static void add_ring(struct pb_catalog *c, const struct pb_reader *r, struct added *by)
{
    struct pb_catalog_table *t = pb_catalog_find(c, r->name);
    char buf[PB_CATALOG_NAME];

    if (!t && by && by->tables++ >= FOREIGN_TABLES_MAX)
        return;
    if (!t) {
        t = pb_catalog_add(c, r->name, clean(c, r->doc), PB_FROM_RING);
        t->shared = r->flags & PB_RING_SHARED;
    }
    if (t->source != PB_FROM_RING)
        return;
    for (size_t i = 0; i < r->ncolumns; i++) {
        const struct pb_reader_column *col = &r->columns[i];
        const char *name = pb_catalog_column(col->name, buf);

        if (!*name || pb_catalog_widen(t, name, by ? PB_INT : col->type) ||
            (by && by->columns++ >= FOREIGN_COLUMNS_MAX))
            continue;
        pb_catalog_add_column(c, t, name, col->type, clean(c, col->unit), clean(c, col->doc));
    }
}

static struct added *added_by(struct added *v, size_t *n, uid_t uid)
{
    for (size_t i = 0; i < *n; i++)
        if (v[i].uid == uid)
            return &v[i];
    v[*n] = (struct added){.uid = uid};
    return &v[(*n)++];
}

/* Our own first: what type a column has is said by the first ring that has it. */
static void add_rings(struct pb_catalog *c, const struct pb_stores *stores, bool foreign)
{
    size_t n = 0, most = stores ? stores->nstores : 0;
    struct added *v = foreign ? PB_NEW_N(&c->arena, struct added, most + 1) : NULL;

    for (size_t i = 0; i < most; i++) {
        const struct pb_store *s = stores->stores[i];
        struct added *by = foreign && s->foreign ? added_by(v, &n, s->uid) : NULL;

        for (size_t k = 0; s->foreign == foreign && k < s->nrings; k++)
            if (pb_catalog_is_table_name(s->rings[k]->reader.name))
                add_ring(c, &s->rings[k]->reader, by);
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct pb_catalog_table *)a)->name,
                  ((const struct pb_catalog_table *)b)->name);
}

static uint64_t sum_files(const struct pb_archive_table *files, size_t n)
{
    uint64_t h = PB_HASH_SEED;

    for (size_t i = 0; i < n; i++) {
        h = pb_hash_text(pb_hash_text(h, files[i].name), files[i].glob);
        h = pb_hash_step(h, files[i].changes << 1 | files[i].mixed);
    }
    return h;
}

bool pb_catalog_fits(const struct pb_catalog *c, const struct pb_stores *stores,
                     const struct pb_archive_table *files, size_t nfiles,
                     const struct pb_elsewhere *elsewhere)
{
    return c->built && c->stores_changes == (stores ? stores->changes : 0) &&
           c->archive_sum == sum_files(files, nfiles) &&
           c->elsewhere_changes == elsewhere->changes;
}

void pb_catalog_put_files(struct pb_buf *b, const struct pb_archive_table *files)
{
    pb_buf_printf(b, "SELECT * EXCLUDE (_row, date, process%s) FROM read_parquet([",
                  files->fleet ? ", hour, _ring, _batch" : "");
    for (const char *line = files->glob; *line;) {
        size_t n = strcspn(line, "\n");
        struct pb_buf glob = PB_BUF_INIT;

        pb_buf_add(&glob, line, n);
        pb_sql_literal(b, glob.data);
        pb_buf_finish(&glob);
        line += n + (line[n] == '\n');
        if (*line)
            pb_buf_putc(b, ',');
    }
    pb_buf_putc(b, ']');
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
                      const struct pb_archive_table *files, size_t nfiles,
                      const struct pb_elsewhere *elsewhere, pb_catalog_learn *learn, void *arg)
{
    pb_arena_finish(&c->arena);
    c->ntables = 0;
    add_known(c);
    add_rings(c, stores, false);
    add_rings(c, stores, true);
    for (size_t i = 0; i < nfiles; i++)
        if (pb_catalog_is_table_name(files[i].name) && !pb_catalog_find(c, files[i].name))
            learn(c, pb_catalog_add(c, files[i].name, "", PB_FROM_RING), &files[i], arg);
    pb_elsewhere_add(c, elsewhere);
    pb_catalog_add_views(c);
    for (size_t i = 0; i < c->ntables; i++)
        finish_table(c, &c->tables[i], find_files(files, nfiles, c->tables[i].name));
    qsort(c->tables, c->ntables, sizeof *c->tables, by_name);
    pb_views_sign(c);
    c->stores_changes = stores ? stores->changes : 0;
    c->archive_sum = sum_files(files, nfiles);
    c->elsewhere_changes = elsewhere->changes;
    c->built = true;
}
