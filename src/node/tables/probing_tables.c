/*
 * probing.tables - every table there is, how many rows it has and where they are.
 *
 * A ring that is not read (set aside, cut off, nonsense) stands with its reason at its table, also
 * when that is all there is of it.
 */
#include <string.h>

#include "base/home.h"
#include "host/text/buf.h"
#include "node/tables/read/common.h"

static pb_live_fill fill;

#define COLUMNS(X)                                                                                 \
    X(name, NAME, "", "as it is written in SQL")                                                   \
    X(schema, NAME, "", "the part in front of the point")                                          \
    X(table, NAME, "", "the part behind it")                                                       \
    X(source, NAME, "", "ring: written row by row; live: made when asked; view")                   \
    X(rows, INT, "", "rows that can be read now, in rings and in files")                           \
    X(rings, INT, "", "rings of processes in scope")                                               \
    X(dropped, INT, "", "rows that were lost because a writer was too fast")                       \
    X(bytes, INT, "B", "of rings and files")                                                       \
    X(files, INT, "", "files of history, of all processes")                                        \
    X(reason, TEXT, "", "rings of it that are not read, by process, and why")                      \
    X(doc, TEXT, "", "what is in it")                                                              \
    PB_LIVE_COMMON(X)

PB_TABLE_COLUMNS(COLUMNS);

const struct pb_live pb_live_probing_tables = {
    PB_TABLE_SPEC("probing.tables", "every table: rows, losses, bytes, files"),
    .fill = fill,
};

struct counts {
    uint64_t rows, rings, dropped, bytes, files;
};

/* Rows that are in files as well are counted there. */
static void count_rings(const struct pb_stores *stores, const struct pb_scope *scope,
                        const char *name, bool files_too, struct counts *c)
{
    for (size_t i = 0; i < stores->nstores; i++) {
        const struct pb_store *s = stores->stores[i];

        for (size_t k = 0; k < s->nrings; k++) {
            const struct pb_store_ring *r = s->rings[k];
            uint64_t first, next, sealed = files_too ? atomic_load(&r->sealed) : 0;
            bool shared = r->reader.flags & PB_RING_SHARED;

            if (strcmp(r->reader.name, name) != 0 ||
                !(shared || pb_scope_has_id(scope, s->process.id)))
                continue;
            pb_reader_range(&r->reader, &first, &next);
            if (first < sealed)
                first = sealed < next ? sealed : next;
            c->rows += next - first;
            c->rings++;
            c->dropped += pb_reader_dropped(&r->reader);
            c->bytes += r->reader.size;
        }
    }
}

static void count_files(const struct pb_archive_table *v, size_t n, const char *name,
                        struct counts *c)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(v[i].name, name) != 0)
            continue;
        c->rows += v[i].rows;
        c->bytes += v[i].bytes;
        c->files += v[i].files;
    }
}

static void add_reason(struct pb_buf *b, const struct pb_store *s, const char *why)
{
    pb_buf_printf(b, "%s%s: %s", b->len ? "; " : "", s->process.id, why);
}

/* Is it "<table>.<generation>.ring: why"? Then why. */
static const char *ring_reason(const char *line, const char *table)
{
    size_t len = strlen(table);
    const char *rest = line + len;

    if (strncmp(line, table, len) != 0 || *rest++ != '.')
        return NULL;
    rest += strspn(rest, "0123456789");
    return strncmp(rest, PB_HOME_RING ": ", sizeof PB_HOME_RING + 1) == 0
               ? rest + sizeof PB_HOME_RING + 1
               : NULL;
}

/* Rings of this table that were left out when they were opened, or that broke since. */
static const char *reasons(const struct pb_stores *stores, const struct pb_scope *scope,
                           const char *name, struct pb_arena *a)
{
    struct pb_buf b = PB_BUF_INIT;
    const char *text = NULL, *why;

    for (size_t i = 0; i < stores->nstores; i++) {
        const struct pb_store *s = stores->stores[i];
        char *lines = pb_arena_strdup(a, s->troubles), *line;

        if (!pb_scope_has_id(scope, s->process.id))
            continue;
        while ((line = strsep(&lines, "\n")))
            if ((why = ring_reason(line, name)))
                add_reason(&b, s, why);
        for (size_t k = 0; k < s->nrings; k++)
            if (strcmp(s->rings[k]->reader.name, name) == 0 &&
                (why = pb_reader_trouble(&s->rings[k]->reader)))
                add_reason(&b, s, why);
    }
    if (b.len)
        text = pb_arena_strndup(a, b.data, b.len);
    pb_buf_finish(&b);
    return text;
}

static void add_table(struct pb_node *n, struct pb_rows *rows, const struct pb_sql_table *t,
                      const struct counts *c, const char *reason)
{
    struct pb_row_cell *row = pb_rows_add(rows);

    pb_live_table_name(rows, row, AT_name, t->name);
    pb_rows_text(rows, row, AT_source, t->source);
    pb_rows_text(rows, row, AT_reason, reason);
    pb_rows_text(rows, row, AT_doc, t->doc);
    pb_live_common(rows, row, n->host, 0, -1);
    if (strcmp(t->source, "ring") != 0)
        return;
    pb_rows_int(row, AT_rows, (int64_t)c->rows);
    pb_rows_int(row, AT_rings, (int64_t)c->rings);
    pb_rows_int(row, AT_dropped, (int64_t)c->dropped);
    pb_rows_int(row, AT_bytes, (int64_t)c->bytes);
    pb_rows_int(row, AT_files, (int64_t)c->files);
}

/* The table in "<schema>.<table>.<generation>.ring: why"; false when it is no such line. */
static bool table_of(const char *line, char *ret, size_t cap)
{
    const char *end = strstr(line, PB_HOME_RING ": ");
    size_t len;

    while (end && end > line && end[-1] >= '0' && end[-1] <= '9')
        end--;
    if (!end || end <= line || *--end != '.')
        return false;
    len = (size_t)(end - line);
    if (!len || len >= cap || strspn(line, "abcdefghijklmnopqrstuvwxyz0123456789_.") < len)
        return false;
    memcpy(ret, line, len);
    ret[len] = '\0';
    return strchr(ret, '.') != NULL;
}

static bool is_listed(const struct pb_rows *rows, const char *name)
{
    for (size_t i = 0; i < rows->nrows; i++)
        if (strcmp(rows->cells[i * rows->ncolumns + AT_name].v.s, name) == 0)
            return true;
    return false;
}

/* Tables of which there is nothing but rings that are not read. */
static void add_unread(struct pb_node *n, struct pb_rows *rows, const struct pb_stores *stores,
                       const struct pb_scope *scope, struct pb_arena *a)
{
    for (size_t i = 0; i < stores->nstores; i++) {
        char *lines = pb_arena_strdup(a, stores->stores[i]->troubles), *line;
        char name[PB_RING_NAME];

        if (!pb_scope_has_id(scope, stores->stores[i]->process.id))
            continue;
        while ((line = strsep(&lines, "\n"))) {
            struct pb_sql_table t = {.name = name, .source = "ring", .doc = ""};
            struct counts none = {0};

            if (table_of(line, name, sizeof name) && !is_listed(rows, name))
                add_table(n, rows, &t, &none, reasons(stores, scope, name, a));
        }
    }
}

static int fill(struct pb_node *n, const struct pb_scope *scope, const bool *wanted,
                struct pb_rows *rows, struct pb_err *err)
{
    static const struct pb_scope everything = {.all = true};
    struct pb_stores *stores = pb_discover_snapshot(n->discover, 100);
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_archive_table *archived = NULL;
    struct pb_sql_table *v = NULL;
    size_t narchived = n->archive ? pb_archive_tables(n->archive, &a, &archived) : 0;
    size_t count = pb_sql_tables(n->sql, &a, &v);

    (void)wanted;
    (void)err;
    /* Without a target it is about what there is, of ended processes as well. */
    scope = pb_scope_is_node(scope) ? &everything : scope;
    for (size_t i = 0; i < count; i++) {
        struct counts c = {0};

        /* Files are not told apart by process here: with a scope only rings count. */
        count_rings(stores, scope, v[i].name, scope->all, &c);
        if (scope->all)
            count_files(archived, narchived, v[i].name, &c);
        add_table(n, rows, &v[i], &c, reasons(stores, scope, v[i].name, &a));
    }
    add_unread(n, rows, stores, scope, &a);
    pb_stores_unref(stores);
    pb_arena_finish(&a);
    return 0;
}
