/* One table of a global statement: what its nodes are asked. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "node/sql/error.h"
#include "node/sql/global/plan.h"
#include "node/sql/text/text.h"
#include "node/sql/answer/value.h"

#define LIMIT_MAX 1000000000

/*
 * As what a type travels that Parquet does not have: it would make floating point of integers of
 * 128 bits, and keeps milliseconds of intervals.
 */
static const char *carrier(int type)
{
    return type == DUCKDB_TYPE_HUGEINT    ? "DECIMAL(38,0)"
           : type == DUCKDB_TYPE_INTERVAL ? "VARCHAR"
                                          : NULL;
}

static bool is_exact(const struct pb_value_type *t)
{
    static const int lost[] = {DUCKDB_TYPE_HUGEINT, DUCKDB_TYPE_UHUGEINT, DUCKDB_TYPE_INTERVAL,
                               DUCKDB_TYPE_ENUM,    DUCKDB_TYPE_UNION,    DUCKDB_TYPE_BIT,
                               DUCKDB_TYPE_TIME_TZ};

    for (size_t i = 0; i < sizeof lost / sizeof *lost; i++)
        if (t->id == lost[i])
            return false;
    for (size_t i = 0; i < t->nchildren; i++)
        if (!is_exact(&t->children[i]))
            return false;
    return t->id <= DUCKDB_TYPE_ARRAY || t->id == DUCKDB_TYPE_SQLNULL;
}

bool pb_plan_travels(duckdb_logical_type type)
{
    struct pb_value_type t;
    bool travels;

    pb_value_type_init(&t, type);
    travels = carrier(t.id) || is_exact(&t);
    pb_value_type_finish(&t);
    return travels;
}

/* How the answer is written by nodes, and what it is turned back to here. */
struct casts {
    struct pb_buf there, here, nothing, types;
    bool carried; /* some column travels as another type */
    bool odd;     /* some column does not travel */
};

/* A node whose column has another type than here says so, instead of rounding what is in it. */
static void put_carried(struct pb_buf *b, const char *name, const char *type, const char *as)
{
    pb_buf_puts(b, "CASE WHEN typeof(");
    pb_sql_ident(b, name);
    pb_buf_printf(b, ") = '%s' THEN CAST(", type);
    pb_sql_ident(b, name);
    pb_buf_printf(b, " AS %s) ELSE error('" PB_SQL_OTHER_COLUMNS "') END AS ", as);
    pb_sql_ident(b, name);
}

static void put_column(const struct pb_duck *d, duckdb_prepared_statement prepared, uint64_t i,
                       struct casts *c)
{
    duckdb_logical_type type = d->prepared_statement_column_logical_type(prepared, i);
    const char *name = d->prepared_statement_column_name(prepared, i);
    const char *as = carrier((int)d->get_type_id(type));
    struct pb_buf is = PB_BUF_INIT;
    struct pb_value_type t;

    pb_value_type_init(&t, type);
    c->carried |= as != NULL;
    c->odd |= !pb_plan_travels(type);
    pb_buf_puts(&c->nothing, i ? ", NULL AS " : "NULL AS ");
    pb_sql_ident(&c->nothing, name);
    if (pb_value_type_is_common(&t))
        pb_value_type_cast(&t, &is);
    else
        pb_value_type_name(&t, &is);
    pb_buf_printf(&c->types, "%s%s", i ? ", " : "", as ? as : is.data);
    pb_buf_puts(&c->there, i ? ", " : "");
    if (as)
        put_carried(&c->there, name, is.data, as);
    else
        pb_sql_ident(&c->there, name);
    pb_buf_puts(&c->here, i ? ", CAST(" : "CAST(");
    pb_sql_ident(&c->here, name);
    pb_buf_printf(&c->here, " AS %s) AS ", is.data);
    pb_sql_ident(&c->here, name);
    pb_buf_finish(&is);
    pb_value_type_finish(&t);
    d->free((void *)(uintptr_t)name);
    d->destroy_logical_type(&type);
}

/* Binds it here: for its columns and their types, and to know that it can be bound. */
static int bind_part(struct pb_plan *p, const char *sql, struct casts *c)
{
    const struct pb_duck *d = p->sql->duck;
    duckdb_extracted_statements extracted = NULL;
    duckdb_prepared_statement prepared = NULL;
    char why[200] = "";
    int rc = -1;

    if (d->extract_statements(p->conn->duck, sql, &extracted) == 1) {
        rc = d->prepare_extracted_statement(p->conn->duck, extracted, 0, &prepared) == 0 ? 0 : -1;
        if (rc < 0)
            pb_sql_plain(d->prepare_error(prepared), why, sizeof why);
    }
    for (uint64_t i = 0; rc == 0 && i < d->prepared_statement_column_count(prepared); i++)
        put_column(d, prepared, i, c);
    if (prepared)
        d->destroy_prepare(&prepared);
    if (extracted)
        d->destroy_extracted(&extracted);
    if (rc == 0 && c->odd)
        return pb_err_set(p->err, PB_FAIL, "a column of a type that cannot be sent");
    return rc == 0 ? 0 : pb_err_set(p->err, PB_FAIL, "part of a node: %s", why);
}

bool pb_plan_has_types(struct pb_plan *p, const struct pb_global_part *part, const char *sql)
{
    const struct pb_duck *d = p->sql->duck;
    const char *text = pb_arena_printf(p->arena, "WITH %s AS (SELECT %s FROM (SELECT %s)) %s",
                                       part->name, part->columns, part->nothing, sql);
    struct pb_buf wanted = PB_BUF_INIT, got = PB_BUF_INIT;
    duckdb_prepared_statement prepared = NULL;
    bool same = d->prepare(p->conn->duck, text, &prepared) == 0;

    if (same) {
        pb_value_types(p->statement, &wanted);
        pb_value_types(prepared, &got);
        same = got.data && strcmp(wanted.data, got.data) == 0;
    }
    pb_buf_finish(&wanted);
    pb_buf_finish(&got);
    if (prepared)
        d->destroy_prepare(&prepared);
    return same;
}

struct pb_global_part *pb_plan_part(struct pb_plan *p, const char *table, const char *node)
{
    struct pb_global_part *part = &p->ret->parts[p->ret->nparts];
    struct casts c = {.carried = false};
    const char *sql;

    if (p->ret->nparts == PB_PLAN_PARTS) {
        pb_err_set(p->err, PB_FAIL, "a statement over the cluster names at most %d tables",
                   PB_PLAN_PARTS);
        return NULL;
    }
    if (pb_stmt_text(p->sql, p->conn, node, p->arena, &sql, p->err) < 0 ||
        bind_part(p, sql, &c) < 0) {
        part = NULL;
    } else {
        if (c.carried)
            sql = pb_arena_printf(p->arena, "SELECT %s FROM (%s)", c.there.data, sql);
        for (size_t i = 0; i < p->ret->nparts; i++)
            if (strcmp(p->ret->parts[i].sql, sql) == 0)
                part = &p->ret->parts[i];
        if (part == &p->ret->parts[p->ret->nparts])
            *part = (struct pb_global_part){
                .name = pb_arena_printf(p->arena, "probing_part_%zu", p->ret->nparts++),
                .table = table,
                .sql = sql,
                .columns = pb_arena_strdup(p->arena, c.here.data ? c.here.data : ""),
                .nothing = pb_arena_strdup(p->arena, c.nothing.data ? c.nothing.data : ""),
                .types = pb_arena_strdup(p->arena, c.types.data ? c.types.data : ""),
            };
    }
    pb_buf_finish(&c.there);
    pb_buf_finish(&c.here);
    pb_buf_finish(&c.nothing);
    pb_buf_finish(&c.types);
    return part;
}

/* The columns of a table that are spoken of somewhere; one at least, so that rows are counted. */
static void put_columns(struct pb_plan *p, const struct pb_plan_table *t, struct pb_buf *b)
{
    size_t n = 0;

    for (size_t i = 0; i < t->ncolumns; i++) {
        bool wanted = p->all_columns;

        for (size_t k = 0; k < p->nnames && !wanted; k++)
            wanted = strcasecmp(p->names[k], t->columns[i]) == 0;
        if (wanted)
            pb_buf_printf(b, "%s%s", n++ ? "," : "", pb_plan_column(p, t->columns[i], ""));
    }
    if (!n && t->ncolumns)
        pb_buf_puts(b, pb_plan_column(p, t->columns[t->ncolumns - 1], ""));
}

/* What of WHERE is about this table alone. True when that is all of it. */
static bool put_filters(struct pb_plan *p, const struct pb_json *select, const struct pb_json *ref,
                        const struct pb_plan_table *t, struct pb_buf *b)
{
    const struct pb_json *where = pb_json_get(select, "where_clause"), *one;
    bool several = pb_stmt_is(where, "type", "CONJUNCTION_AND"), all = true;
    const struct pb_json *children = several ? pb_json_get(where, "children") : NULL;
    size_t n = 0;

    if (!where || where->type != PB_J_OBJECT)
        return true;
    for (size_t i = 0; i < (several ? children->n : 1); i++) {
        one = several ? &children->items[i] : where;
        if (!pb_plan_is_local(p, one, t, pb_plan_alias(ref))) {
            all = false;
            continue;
        }
        pb_buf_puts(b, n++ ? ","
                           : "{\"class\":\"CONJUNCTION\",\"type\":\"CONJUNCTION_AND\",\"alias\":"
                             "\"\",\"query_location\":" PB_PLAN_NOWHERE ",\"children\":[");
        pb_stmt_write(b, one, NULL, NULL);
    }
    if (n)
        pb_buf_puts(b, "]}");
    return all;
}

static bool read_count(const struct pb_json *limit, int64_t *ret)
{
    *ret = 0;
    if (!limit || limit->type == PB_J_NULL)
        return true;
    *ret = pb_json_whole(pb_json_get(limit, "value"), "value", -1);
    return pb_stmt_is(limit, "class", "CONSTANT") && *ret >= 0 && *ret < LIMIT_MAX;
}

/* Does ORDER BY speak of columns of the table alone, and mean them and no name given by AS? */
static bool orders_by_columns(const struct pb_plan *p, const struct pb_json *order,
                              const struct pb_json *select, const struct pb_plan_table *t,
                              const char *alias)
{
    const struct pb_json *orders = pb_json_get(order, "orders");
    const struct pb_json *list = pb_json_get(select, "select_list");

    for (size_t i = 0; orders && i < orders->n; i++) {
        const struct pb_json *one = pb_json_get(&orders->items[i], "expression");

        if (!one || pb_stmt_is(one, "class", "CONSTANT") || !pb_plan_is_local(p, one, t, alias))
            return false;
    }
    for (size_t i = 0; list && i < list->n; i++) {
        const char *given = pb_json_str(&list->items[i], "alias", "");

        if (*given && pb_plan_has_column(t, given))
            return false;
    }
    return orders != NULL;
}

/*
 * ORDER BY with LIMIT, or LIMIT alone: of the rows of one node only as many can be among the first.
 * The limit of a node is the whole one and what is skipped.
 */
static void put_modifiers(struct pb_plan *p, const struct pb_json *select,
                          const struct pb_plan_table *t, const char *alias, struct pb_buf *b)
{
    const struct pb_json *m = pb_json_get(select, "modifiers"), *order = NULL, *last;
    int64_t limit, offset;

    if (!m || !m->n || m->n > 2 || pb_plan_any(p, pb_json_get(select, "select_list"),
                                               pb_plan_is_aggregate))
        return;
    last = &m->items[m->n - 1];
    if (m->n == 2)
        order = &m->items[0];
    if (!pb_stmt_is(last, "type", "LIMIT_MODIFIER") || !pb_json_get(last, "limit") ||
        pb_json_get(last, "limit")->type != PB_J_OBJECT ||
        !read_count(pb_json_get(last, "limit"), &limit) ||
        !read_count(pb_json_get(last, "offset"), &offset) ||
        (order && (!pb_stmt_is(order, "type", "ORDER_MODIFIER") ||
                   !orders_by_columns(p, order, select, t, alias))))
        return;
    if (order) {
        pb_stmt_write(b, order, NULL, NULL);
        pb_buf_putc(b, ',');
    }
    pb_buf_printf(b, "{\"type\":\"LIMIT_MODIFIER\",\"limit\":%s,\"offset\":null}",
                  pb_plan_number(p, limit + offset));
}

struct pb_global_part *pb_plan_rows(struct pb_plan *p, const struct pb_json *select,
                                    const struct pb_json *ref, const struct pb_plan_table *t,
                                    bool top)
{
    struct pb_buf b = PB_BUF_INIT, where = PB_BUF_INIT, modifiers = PB_BUF_INIT;
    struct pb_global_part *part;
    bool plain = select && pb_plan_is_plain(ref) && pb_plan_is_empty(select, "sample");
    bool all = plain && put_filters(p, select, ref, t, &where);

    if (all && top && pb_plan_is_empty(select, "group_expressions") &&
        pb_plan_is_empty(select, "qualify") && pb_plan_is_empty(select, "having") &&
        !pb_plan_any(p, pb_json_get(select, "select_list"), pb_plan_is_nested))
        put_modifiers(p, select, t, pb_plan_alias(ref), &modifiers);
    pb_buf_printf(&b, "{\"type\":\"SELECT_NODE\",\"modifiers\":[%s],\"cte_map\":{\"map\":[]},"
                      "\"select_list\":[", modifiers.data ? modifiers.data : "");
    put_columns(p, t, &b);
    pb_buf_printf(&b, "],\"from_table\":%s", pb_plan_bare(p, ref));
    pb_buf_printf(&b, ",\"where_clause\":%s,\"group_expressions\":[],\"group_sets\":[],"
                      "\"aggregate_handling\":\"STANDARD_HANDLING\",\"having\":null,\"sample\":"
                      "null,\"qualify\":null}", where.data ? where.data : "null");
    part = pb_plan_part(p, t->name, b.data);
    pb_buf_finish(&b);
    pb_buf_finish(&where);
    pb_buf_finish(&modifiers);
    return part;
}
