/*
 * Views, made when a statement first names them and again when their text has changed. Making one
 * takes a third of a millisecond and there are dozens: a node that is asked one thing should not
 * make them all.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/hash.h"
#include "host/text/alloc.h"
#include "node/sql/internal.h"
#include "node/sql/rewrite.h"
#include "node/sql/settings.h"
#include "node/sql/text/text.h"

enum { VIEW_DEPTH = 4 }; /* views over views over tables */

static struct pb_catalog_made *find_made(struct pb_catalog *c, const char *name)
{
    for (size_t i = 0; i < c->nmade; i++)
        if (strcmp(c->made[i].name, name) == 0)
            return &c->made[i];
    return NULL;
}

static bool is_made(struct pb_catalog *c, const struct pb_catalog_table *t)
{
    const struct pb_catalog_made *m = find_made(c, t->name);

    return m && strcmp(m->sql, t->sql) == 0;
}

/* Which tables a statement may mean, by its words alone: too many does no harm. */
static bool names(const char *sql, size_t len, const char *table)
{
    const char *dot = strchr(table, '.');
    const char *last = dot ? dot + 1 : table;
    struct pb_sql_token t;
    size_t pos = 0;
    char word[PB_RING_NAME];

    while ((t = pb_sql_next(sql, len, &pos)).kind != PB_SQL_END)
        if (pb_sql_name(sql, t, word, sizeof word) && strcasecmp(word, last) == 0)
            return true;
    return false;
}

/* parts[i]: the text of a view may mean table i. */
static void find_parts(const struct pb_catalog *c, const char *sql, bool *parts)
{
    struct pb_sql_token t;
    size_t pos = 0, len = strlen(sql);
    char word[PB_RING_NAME];

    while ((t = pb_sql_next(sql, len, &pos)).kind != PB_SQL_END) {
        if (!pb_sql_name(sql, t, word, sizeof word))
            continue;
        for (size_t i = 0; i < c->ntables; i++) {
            const char *dot = strchr(c->tables[i].name, '.');

            parts[i] |= strcasecmp(word, dot ? dot + 1 : c->tables[i].name) == 0;
        }
    }
}

/* Hashes of all texts as they are, then of those of views with what they are made of. */
void pb_views_sign(struct pb_catalog *c)
{
    uint64_t *plain = PB_NEW_N(&c->arena, uint64_t, c->ntables + 1);
    uint64_t *whole = PB_NEW_N(&c->arena, uint64_t, c->ntables + 1);
    bool *parts = PB_NEW_N(&c->arena, bool, c->ntables * c->ntables + 1);

    for (size_t i = 0; i < c->ntables; i++) {
        plain[i] = whole[i] = pb_hash_text(PB_HASH_SEED, c->tables[i].sql);
        if (c->tables[i].source == PB_FROM_VIEW)
            find_parts(c, c->tables[i].sql, parts + i * c->ntables);
    }
    for (int depth = 0; depth < VIEW_DEPTH; depth++)
        for (size_t i = 0; i < c->ntables; i++) {
            uint64_t h = plain[i];

            for (size_t k = 0; k < c->ntables; k++)
                if (parts[i * c->ntables + k] && k != i)
                    h = (h ^ whole[k]) * 0x9e3779b97f4a7c15u;
            whole[i] = h;
        }
    for (size_t i = 0; i < c->ntables; i++)
        if (c->tables[i].source == PB_FROM_VIEW)
            c->tables[i].sql = pb_arena_printf(&c->arena, "/* %016llx */ %s",
                                               (unsigned long long)whole[i], c->tables[i].sql);
}

/* Does it ask about tables in general? Then all must be there, with their words. */
static bool asks_for_all(const char *sql, size_t len)
{
    static const char *const words[] = {
        "information_schema", "duckdb_views",  "duckdb_columns", "duckdb_tables",     "pg_catalog",
        "sqlite_master",      "sqlite_schema", "pragma_show",    "pragma_table_info", "show_tables",
    };
    struct pb_sql_token t;
    size_t pos = 0;
    char word[PB_RING_NAME];

    while ((t = pb_sql_next(sql, len, &pos)).kind != PB_SQL_END) {
        if (!pb_sql_name(sql, t, word, sizeof word))
            continue;
        for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
            if (strcasecmp(word, words[i]) != 0)
                continue;
            pb_sql_name_at(sql, len, t.at, word, sizeof word);
            return strcasecmp(word, pb_live_df_settings.name) != 0;
        }
    }
    return false;
}

bool pb_views_missing(struct pb_sql *s, const char *sql, size_t len)
{
    struct pb_catalog *c = &s->catalog;
    bool all = asks_for_all(sql, len);

    for (size_t i = 0; i < c->ntables; i++) {
        const struct pb_catalog_made *m = find_made(c, c->tables[i].name);

        if ((all && (!m || !m->commented || !is_made(c, &c->tables[i]))) ||
            (!is_made(c, &c->tables[i]) && names(sql, len, c->tables[i].name)))
            return true;
    }
    return false;
}

static void put_name(struct pb_buf *b, const char *name)
{
    const char *dot = strchr(name, '.');

    if (dot)
        pb_buf_printf(b, "memory.\"%.*s\".\"%s\"", (int)(dot - name), name, dot + 1);
    else
        pb_buf_printf(b, "memory.main.\"%s\"", name);
}

static void remember(struct pb_catalog *c, const struct pb_catalog_table *t)
{
    struct pb_catalog_made *m = find_made(c, t->name);

    if (!m) {
        if (c->nmade == c->made_cap) {
            c->made_cap = c->made_cap ? c->made_cap * 2 : 32;
            c->made = pb_alloc_resize(c->made, c->made_cap * sizeof *c->made);
        }
        m = &c->made[c->nmade++];
        *m = (struct pb_catalog_made){.name = strdup(t->name)};
    }
    free(m->sql);
    m->sql = strdup(t->sql);
    m->commented = false;
}

static int make(struct pb_sql *s, struct pb_sql_conn *conn, struct pb_catalog_table *t,
                struct pb_err *err)
{
    const char *dot = strchr(t->name, '.');
    struct pb_sql_edited text = {0};
    struct pb_buf b = PB_BUF_INIT;
    int rc;

    pb_buf_puts(&text.text, t->sql);
    pb_rewrite_qualify(&text, &s->catalog);
    if (dot)
        pb_buf_printf(&b, "CREATE SCHEMA IF NOT EXISTS memory.\"%.*s\"; ", (int)(dot - t->name),
                      t->name);
    pb_buf_puts(&b, "CREATE OR REPLACE VIEW ");
    put_name(&b, t->name);
    pb_buf_printf(&b, " AS %s", text.text.data);
    rc = pb_sql_exec(s, conn, b.data, err);
    if (rc == 0)
        remember(&s->catalog, t);
    pb_buf_finish(&b);
    pb_sql_edited_finish(&text);
    return rc < 0 ? pb_err_prefix(err, "%s", t->name) : 0;
}

static int comment(struct pb_sql *s, struct pb_sql_conn *conn, const struct pb_catalog_table *t,
                   struct pb_err *err)
{
    struct pb_catalog_made *m = find_made(&s->catalog, t->name);
    struct pb_buf b = PB_BUF_INIT;
    int rc;

    if (!m || m->commented)
        return 0;
    pb_buf_puts(&b, "BEGIN; COMMENT ON VIEW ");
    put_name(&b, t->name);
    pb_buf_puts(&b, " IS ");
    pb_sql_literal(&b, t->doc);
    for (size_t i = 0; i < t->ncolumns; i++) {
        pb_buf_puts(&b, "; COMMENT ON COLUMN ");
        put_name(&b, t->name);
        pb_buf_putc(&b, '.');
        pb_sql_ident(&b, t->columns[i].name);
        pb_buf_puts(&b, " IS ");
        pb_sql_literal(&b, t->columns[i].doc);
    }
    pb_buf_puts(&b, "; COMMIT");
    rc = pb_sql_exec(s, conn, b.data, err);
    m->commented = rc == 0;
    pb_buf_finish(&b);
    return rc;
}

/* What a short name is made of comes first; depth: a view that named itself would never end. */
static int make_with_parts(struct pb_sql *s, struct pb_sql_conn *conn, struct pb_catalog_table *t,
                           int depth, struct pb_err *err)
{
    struct pb_catalog *c = &s->catalog;

    if (is_made(c, t))
        return 0;
    for (size_t i = 0; t->source == PB_FROM_VIEW && depth > 0 && i < c->ntables; i++) {
        struct pb_catalog_table *part = &c->tables[i];

        if (part != t && names(t->sql, strlen(t->sql), part->name) &&
            make_with_parts(s, conn, part, depth - 1, err) < 0)
            return -1;
    }
    return make(s, conn, t, err);
}

int pb_views_make(struct pb_sql *s, struct pb_sql_conn *conn, const char *sql, size_t len,
                  struct pb_err *err)
{
    struct pb_catalog *c = &s->catalog;
    bool all = asks_for_all(sql, len);

    for (size_t i = 0; i < c->ntables; i++) {
        if (!all && !names(sql, len, c->tables[i].name))
            continue;
        if (make_with_parts(s, conn, &c->tables[i], VIEW_DEPTH, err) < 0 ||
            (all && comment(s, conn, &c->tables[i], err) < 0))
            return -1;
    }
    return 0;
}

int pb_views_drop_stale(struct pb_sql *s, struct pb_sql_conn *conn, struct pb_err *err)
{
    struct pb_catalog *c = &s->catalog;

    for (size_t i = 0; i < c->nmade;) {
        struct pb_buf b = PB_BUF_INIT;
        int rc;

        if (pb_catalog_find(c, c->made[i].name)) {
            i++;
            continue;
        }
        pb_buf_puts(&b, "DROP VIEW IF EXISTS ");
        put_name(&b, c->made[i].name);
        rc = pb_sql_exec(s, conn, b.data, err);
        pb_buf_finish(&b);
        if (rc < 0)
            return -1;
        free(c->made[i].name);
        free(c->made[i].sql);
        c->made[i] = c->made[--c->nmade];
    }
    return 0;
}

static enum pb_type type_of(int id)
{
    return id == DUCKDB_TYPE_TIMESTAMP_TZ ? PB_TIME
           : id == DUCKDB_TYPE_BIGINT     ? PB_INT
           : id == DUCKDB_TYPE_DOUBLE     ? PB_REAL
           : id == DUCKDB_TYPE_BOOLEAN    ? PB_BOOL
                                   : PB_TEXT;
}

/* The columns of files, in their order; host, pid and rank come last as everywhere. */
void pb_views_learn(struct pb_catalog *c, struct pb_catalog_table *t,
                    const struct pb_archive_table *files, void *arg)
{
    const struct pb_views_learner *l = arg;
    const struct pb_duck *d = l->sql->duck;
    duckdb_extracted_statements extracted = NULL;
    duckdb_prepared_statement p = NULL;
    struct pb_buf b = PB_BUF_INIT;

    pb_catalog_put_files(&b, files);
    if (d->extract_statements(l->conn->duck, b.data, &extracted) == 1 &&
        d->prepare_extracted_statement(l->conn->duck, extracted, 0, &p) == 0) {
        for (uint64_t i = 0; i < d->prepared_statement_column_count(p); i++) {
            const char *name = d->prepared_statement_column_name(p, i);
            duckdb_logical_type type = d->prepared_statement_column_logical_type(p, i);

            if (strcmp(name, "host") != 0 && strcmp(name, "pid") != 0 && strcmp(name, "rank") != 0)
                pb_catalog_add_column(c, t, name, type_of(d->get_type_id(type)), "", "");
            d->destroy_logical_type(&type);
            d->free((char *)name);
        }
    }
    if (p)
        d->destroy_prepare(&p);
    if (extracted)
        d->destroy_extracted(&extracted);
    pb_buf_finish(&b);
}
