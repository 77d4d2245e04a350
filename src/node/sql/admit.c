#include "node/sql/admit.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "host/text/alloc.h"
#include "node/sql/internal.h"

enum { DEPTH_MAX = 100000, CELL = 96 };

/* Functions that reach files, run text as SQL, wait or change the engine; * is any end. */
static const char *const refused[] = {
    "read_*",       "parquet_*",      "glob",          "sniff_csv",   "query",
    "query_table",  "json_execute_*", "enable_*",      "disable_*",   "verify_*",
    "checkpoint",   "force_*",        "write_log",     "truncate_*",  "copy_database",
    "nextval",      "currval",        "setseed",       "setvariable", "getenv",
    "load_*",       "probing_ring",   "probing_live",  "which_*",     "json_serialize_plan",
    "json_deser*",  "arrow_scan*",    "seq_scan",      "pandas_*",    "python_map_*",
    "import_*",     "sleep_ms",       "pg_sleep",      "histogram_values",
    "test_all_types", "test_vector_*", "storage_info", "metadata_info",
};

/* What may stand in FROM with arguments. Nothing else: a new engine may bring new ones. */
static const char *const table_functions[] = {
    "range",           "generate_series",     "unnest",            "repeat",
    "repeat_row",      "json_each",           "json_tree",         "summary",
    "duckdb_columns",  "duckdb_constraints",  "duckdb_databases",  "duckdb_dependencies",
    "duckdb_functions", "duckdb_indexes",     "duckdb_keywords",   "duckdb_memory",
    "duckdb_optimizers", "duckdb_schemas",    "duckdb_sequences",  "duckdb_settings",
    "duckdb_tables",   "duckdb_types",        "duckdb_variables",  "duckdb_views",
    "duckdb_extensions", "pragma_collations", "pragma_show",       "pragma_table_info",
    "pragma_version",  "pragma_platform",     "pragma_user_agent", "pg_timezone_names",
    "icu_calendar_names",
};

/* One level of the tree that is open: what is known about it so far. */
struct level {
    bool object, is_key; /* is_key: the next text is a key */
    bool table;          /* the function of a TABLE_FUNCTION */
    char key[24];
    char type[24], function[CELL], schema[CELL], catalog[CELL], table_name[CELL];
    long at;
};

struct tree {
    const char *p, *end;
    struct level *levels;
    size_t depth, cap, nstatements;
    bool error, not_select;
    long *ret_at;
    struct pb_err *err;
};

static bool fits(const char *pattern, const char *name)
{
    size_t n = strlen(pattern);

    if (pattern[n - 1] == '*')
        return strncasecmp(pattern, name, n - 1) == 0;
    return strcasecmp(pattern, name) == 0;
}

static bool is_listed(const char *const *list, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (fits(list[i], name))
            return true;
    return false;
}

static bool refuse_function(struct tree *t, const struct level *l)
{
    *t->ret_at = l->at;
    if (*l->catalog || (*l->schema && strcasecmp(l->schema, "main") != 0)) {
        pb_err_set(t->err, PB_FAIL, "functions have no schema here: leave '%s.' out",
                   *l->catalog && strcmp(l->catalog, "memory") != 0 ? l->catalog : l->schema);
        return true;
    }
    if (is_listed(refused, sizeof refused / sizeof *refused, l->function) ||
        (l->table && !is_listed(table_functions, sizeof table_functions / sizeof *table_functions,
                                l->function))) {
        pb_err_set(t->err, PB_FAIL, "%s() is refused: SQL here reads tables and nothing else",
                   l->function);
        return true;
    }
    return false;
}

/* The engine takes a name that it does not know for that of a file. */
static bool refuse_table(struct tree *t, const struct level *l)
{
    const char *const parts[] = {l->catalog, l->schema, l->table_name};

    for (size_t i = 0; i < 3; i++)
        if (strpbrk(parts[i], "/.\\:*?[")) {
            *t->ret_at = l->at;
            pb_err_set(t->err, PB_FAIL, "'%s' is refused: SQL here reaches no files", parts[i]);
            return true;
        }
    return false;
}

/* Takes a text; what it stands for goes to buf, cut. Names are compared, so escapes may stay. */
static void read_text(struct tree *t, char *buf, size_t cap)
{
    size_t n = 0;

    for (t->p++; t->p < t->end && *t->p != '"'; t->p++) {
        if (*t->p == '\\' && t->p + 1 < t->end && strchr("\"\\/", t->p[1]))
            t->p++;
        else if (*t->p == '\\' && t->p + 1 < t->end && n + 1 < cap)
            buf[n++] = *t->p++;
        if (n + 1 < cap)
            buf[n++] = *t->p;
    }
    buf[n] = 0;
    t->p += t->p < t->end;
}

/* Where a text belongs that stands under a key; cap: its room. */
static char *cell_of(struct level *l, size_t *ret_cap)
{
    *ret_cap = CELL;
    if (strcmp(l->key, "type") == 0) {
        *ret_cap = sizeof l->type;
        return l->type;
    }
    return strcmp(l->key, "function_name") == 0                                      ? l->function
           : strcmp(l->key, "schema") == 0 || strcmp(l->key, "schema_name") == 0     ? l->schema
           : strcmp(l->key, "catalog") == 0 || strcmp(l->key, "catalog_name") == 0   ? l->catalog
           : strcmp(l->key, "table_name") == 0                                       ? l->table_name
                                                                                     : NULL;
}

static void read_string(struct tree *t, struct level *l)
{
    char ignored[CELL], *cell;
    size_t cap;

    if (l->object && l->is_key) {
        read_text(t, l->key, sizeof l->key);
        return;
    }
    cell = l->object ? cell_of(l, &cap) : NULL;
    if (cell)
        read_text(t, cell, cap);
    else
        read_text(t, ignored, sizeof ignored);
    if (t->depth == 1 && strcmp(l->key, "error_type") == 0)
        t->not_select = strcmp(ignored, "not implemented") == 0;
}

/* A number, true, false or null. */
static void read_word(struct tree *t, struct level *l)
{
    const char *from = t->p;
    unsigned long long at;

    while (t->p < t->end && !strchr(",]}", *t->p))
        t->p++;
    if (l->object && strcmp(l->key, "query_location") == 0) {
        at = strtoull(from, NULL, 10);
        l->at = at > INT32_MAX ? -1 : (long)at;
    }
    if (t->depth == 1 && strcmp(l->key, "error") == 0)
        t->error = *from == 't';
}

static int open_level(struct tree *t)
{
    struct level *above = t->depth ? &t->levels[t->depth - 1] : NULL;
    bool table = above && above->object && strcmp(above->key, "function") == 0 &&
                 strcmp(above->type, "TABLE_FUNCTION") == 0;

    if (t->depth == 2 && *t->p == '{' && strcmp(t->levels[0].key, "statements") == 0)
        t->nstatements++;
    if (t->depth == DEPTH_MAX)
        return -1;
    if (t->depth == t->cap) {
        t->cap = t->cap ? t->cap * 2 : 64;
        t->levels = pb_alloc_resize(t->levels, t->cap * sizeof *t->levels);
    }
    t->levels[t->depth++] =
        (struct level){.object = *t->p == '{', .is_key = *t->p == '{', .table = table, .at = -1};
    t->p++;
    return 0;
}

static bool close_level(struct tree *t)
{
    const struct level *l = &t->levels[--t->depth];

    t->p++;
    return (*l->function && refuse_function(t, l)) ||
           (strcmp(l->type, "BASE_TABLE") == 0 && refuse_table(t, l));
}

/* False when something in it is refused, or it is no tree. */
static bool walk(struct tree *t)
{
    do {
        struct level *l = t->depth ? &t->levels[t->depth - 1] : NULL;

        if (t->p >= t->end || !*t->p || (!l && *t->p != '{'))
            return false;
        switch (*t->p) {
        case '{':
        case '[':
            if (open_level(t) < 0)
                return false;
            break;
        case '}':
        case ']':
            if (close_level(t))
                return false;
            break;
        case '"':
            read_string(t, l);
            break;
        case ':':
        case ',':
            l->is_key = *t->p == ',';
            t->p++;
            break;
        default:
            read_word(t, l);
        }
    } while (t->depth > 0);
    return true;
}

enum pb_admit pb_admit_tree(const char *json, size_t len, long *ret_at, struct pb_err *err)
{
    struct tree t = {.p = json, .end = json + len, .ret_at = ret_at, .err = err};
    bool whole;

    *ret_at = -1;
    whole = walk(&t);
    free(t.levels);
    if (err->code != PB_OK)
        return PB_ADMIT_NO;
    if (whole && t.error && !t.not_select)
        return PB_ADMIT_NOT_SQL;
    if (whole && !t.error && t.nstatements == 1)
        return PB_ADMIT_YES;
    *ret_at = -1;
    pb_err_set(err, PB_FAIL, whole ? "this statement is refused: SQL here only reads"
                                   : "this statement is refused: it is nested too deeply");
    return PB_ADMIT_OTHER;
}

/* Kept by the connection: to plan it each time would take longer than to run it. */
static int prepare(struct pb_sql *s, struct pb_sql_conn *c)
{
    return pb_sql_conn_prepare(s, c, &c->parser, "SELECT json_serialize_sql($1::VARCHAR)");
}

enum pb_admit pb_admit_check(struct pb_sql *s, struct pb_sql_conn *c, const char *sql,
                             long *ret_at, struct pb_err *err)
{
    const struct pb_duck *d = s->duck;
    duckdb_data_chunk chunk = NULL;
    duckdb_result r = {.internal_data = NULL};
    enum pb_admit admit = PB_ADMIT_OTHER;
    bool ran = false;

    *ret_at = -1;
    if (prepare(s, c) == 0 && d->bind_varchar(c->parser, 1, sql) == 0) {
        ran = true;
        if (d->execute_prepared(c->parser, &r) == 0)
            chunk = d->fetch_chunk(r);
    }
    if (chunk && d->data_chunk_get_size(chunk) == 1) {
        size_t len;
        const char *text =
            pb_duck_text(d->vector_get_data(d->data_chunk_get_vector(chunk, 0)), &len);

        admit = pb_admit_tree(text, len, ret_at, err);
    } else {
        pb_err_set(err, PB_FAIL, "this statement is refused: the engine cannot show what it is");
    }
    if (chunk)
        d->destroy_data_chunk(&chunk);
    if (ran)
        d->destroy_result(&r);
    return admit;
}
