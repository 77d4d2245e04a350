#include "node/sql/rewrite.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool fits(const char *pattern, const char *name)
{
    size_t n = strlen(pattern);

    if (pattern[n - 1] == '*')
        return strncasecmp(pattern, name, n - 1) == 0;
    return strcasecmp(pattern, name) == 0;
}

void pb_rewrite_qualify(struct pb_sql_edited *e, const struct pb_catalog *c)
{
    struct pb_sql_token t, before = {PB_SQL_END, 0, 0};
    char name[PB_RING_NAME], full[PB_RING_NAME + 16];
    size_t pos = 0;

    while ((t = pb_sql_next(e->text.data, e->text.len, &pos)).kind != PB_SQL_END) {
        const char *sql = e->text.data;
        size_t after = pos;

        if (pb_sql_name(sql, t, name, sizeof name) && strcasecmp(name, "system") == 0 &&
            !pb_sql_is(sql, before, ".") &&
            pb_sql_is(sql, pb_sql_next(sql, e->text.len, &after), ".") &&
            pb_sql_name(sql, pb_sql_next(sql, e->text.len, &after), name, sizeof name)) {
            bool more = pb_sql_is(sql, pb_sql_peek(sql, e->text.len, after), ".");

            /* system.main.x is the engine's; system.cpuu is a table of ours that is not there. */
            snprintf(full, sizeof full, "system.%s", name);
            if ((!more || pb_catalog_find(c, full)) && pb_sql_insert(e, t.at, "memory.")) {
                pos = after + strlen("memory.");
                t.at += strlen("memory.");
            }
        }
        before = t;
    }
}

/* Names in front of the parentheses that are open; deeper ones are not looked at. */
struct calls {
    struct pb_sql_token names[32];
    size_t depth;
    struct pb_sql_token closed; /* the last call that ended; a FILTER belongs to it */
};

static void follow_calls(struct calls *c, const char *sql, struct pb_sql_token before,
                         struct pb_sql_token t)
{
    enum { DEEPEST = sizeof c->names / sizeof *c->names };

    if (pb_sql_is(sql, t, "(")) {
        if (c->depth < DEEPEST)
            c->names[c->depth] = before;
        c->depth++;
    } else if (pb_sql_is(sql, t, ")") && c->depth > 0) {
        c->depth--;
        if (c->depth < DEEPEST && !pb_sql_is(sql, c->names[c->depth], "filter"))
            c->closed = c->names[c->depth];
    }
}

static bool is_aggregate(const char *sql, struct pb_sql_token name)
{
    static const char *const others[] = {
        "row_number",  "rank",      "dense_rank", "rank_dense", "percent_rank", "cume_dist",
        "ntile",       "lag",       "lead",       "first",      "first_value",  "last",
        "last_value",  "nth_value", "fill",
    };

    if (name.kind != PB_SQL_WORD)
        return false;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (pb_sql_is(sql, name, others[i]))
            return false;
    return true;
}

void pb_rewrite_windows(struct pb_sql_edited *e)
{
    static const char partition[] = "PARTITION BY 1";
    struct pb_sql_token t, before = {PB_SQL_END, 0, 0};
    struct calls calls = {.depth = 0};
    size_t pos = 0, after;

    while ((t = pb_sql_next(e->text.data, e->text.len, &pos)).kind != PB_SQL_END) {
        const char *sql = e->text.data;

        after = pos;
        if (pb_sql_is(sql, t, "over") && is_aggregate(sql, calls.closed) &&
            pb_sql_is(sql, pb_sql_next(sql, e->text.len, &after), "(") &&
            pb_sql_is(sql, pb_sql_peek(sql, e->text.len, after), ")") &&
            pb_sql_insert(e, after, partition))
            pos = after + strlen(partition) + 1;
        else
            follow_calls(&calls, sql, before, t);
        before = t;
    }
}

bool pb_rewrite_has_from(const char *sql, size_t len)
{
    static const char *const words[] = {"from", "join",      "table", "describe", "desc",
                                        "show", "summarize", "pivot", "unpivot"};
    struct pb_sql_token t;
    size_t pos = 0;

    while ((t = pb_sql_next(sql, len, &pos)).kind != PB_SQL_END)
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            if (pb_sql_is(sql, t, words[i]))
                return true;
    return false;
}

/* Only for the notice; the engine decides what is grouped. */
static bool has_aggregate(const char *sql, size_t at, size_t end)
{
    static const char *const names[] = {
        "count*",    "sum*",      "avg",        "mean",         "min*",      "max*",   "median",
        "mode",      "quant*",    "std*",       "var*",         "first*",    "last*",  "any_value",
        "list*",     "array_agg", "string_agg", "group_concat", "histogram", "arg_*",  "approx_*",
        "bool_*",    "bit_*",     "product",    "corr",         "covar*",    "regr_*", "entropy",
        "kurtosis*", "skewness",  "fsum",
    };
    struct pb_sql_token t;
    char name[64];

    while ((t = pb_sql_next(sql, end, &at)).kind != PB_SQL_END)
        if (pb_sql_name(sql, t, name, sizeof name) &&
            pb_sql_is(sql, pb_sql_peek(sql, end, at), "("))
            for (size_t i = 0; i < sizeof names / sizeof *names; i++)
                if (fits(names[i], name))
                    return true;
    return false;
}

static void add_item(struct pb_buf *grouped, const char *sql, size_t at, size_t end)
{
    struct pb_sql_token t;
    size_t pos = at, stop = end;

    if (has_aggregate(sql, at, end))
        return;
    while ((t = pb_sql_next(sql, end, &pos)).kind != PB_SQL_END)
        if (pb_sql_is(sql, t, "as"))
            stop = t.at;
    while (at < stop && strchr(" \t\r\n", sql[at]))
        at++;
    while (stop > at && strchr(" \t\r\n", sql[stop - 1]))
        stop--;
    pb_buf_printf(grouped, "%s%.*s", grouped->len ? ", " : "", (int)(stop - at), sql + at);
}

struct clause {
    size_t items, from, end; /* behind SELECT; FROM, or 0; where the clauses behind it begin */
    bool grouped;
};

/* The SELECT whose list holds byte `at`. */
static bool find_clause(const char *sql, size_t len, size_t at, struct clause *ret)
{
    static const char *const ends[] = {"having", "qualify", "window",    "order",  "limit",
                                       "offset", "union",   "intersect", "except", "fetch"};
    size_t selects[64] = {0}, pos = 0, depth = 0, level = 0;
    struct pb_sql_token t;

    while ((t = pb_sql_next(sql, len, &pos)).kind != PB_SQL_END && t.at <= at) {
        if (pb_sql_is(sql, t, "(") && depth + 1 < 64)
            selects[++depth] = 0;
        else if (pb_sql_is(sql, t, ")") && depth > 0)
            depth--;
        else if (pb_sql_is(sql, t, "select"))
            selects[depth] = pos;
    }
    for (level = depth; level > 0 && !selects[level];)
        level--;
    if (!selects[level])
        return false;
    *ret = (struct clause){.items = selects[level], .end = len};
    for (pos = ret->items, depth = 0; (t = pb_sql_next(sql, len, &pos)).kind != PB_SQL_END;) {
        if (pb_sql_is(sql, t, "("))
            depth++;
        else if (pb_sql_is(sql, t, ")") && depth-- == 0)
            break;
        if (depth > 0)
            continue;
        if (pb_sql_is(sql, t, "from") && !ret->from)
            ret->from = t.at;
        ret->grouped |= pb_sql_is(sql, t, "group");
        for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
            if (pb_sql_is(sql, t, ends[i]) && (ret->from || t.at > at)) {
                ret->end = t.at;
                return true;
            }
    }
    ret->end = t.kind == PB_SQL_END ? len : t.at;
    return true;
}

bool pb_rewrite_group(struct pb_sql_edited *e, size_t at, struct pb_buf *grouped)
{
    const char *sql = e->text.data;
    size_t pos, depth = 0, start, end;
    struct pb_sql_token t;
    struct clause c;

    if (!find_clause(sql, e->text.len, at, &c) || c.grouped || (c.from && at > c.from))
        return false;
    end = c.from ? c.from : c.end;
    for (pos = start = c.items; (t = pb_sql_next(sql, end, &pos)).kind != PB_SQL_END;) {
        if (pb_sql_is(sql, t, "("))
            depth++;
        else if (pb_sql_is(sql, t, ")"))
            depth--;
        else if (depth == 0 && pb_sql_is(sql, t, ",")) {
            add_item(grouped, sql, start, t.at);
            start = pos;
        }
    }
    add_item(grouped, sql, start, end);
    return pb_sql_insert(e, c.end, " GROUP BY ALL ");
}

/* Types as the engine shows them, words as the table's spec has them. */
static void describe(const struct pb_catalog_table *t, struct pb_buf *ret)
{
    pb_buf_printf(ret,
                  "SELECT column_name, column_type, unit, doc FROM (DESCRIBE SELECT * FROM %s) "
                  "LEFT JOIN (VALUES ('', '', '')",
                  t->name);
    for (size_t i = 0; i < t->ncolumns; i++) {
        pb_buf_puts(ret, ", (");
        pb_sql_literal(ret, t->columns[i].name);
        pb_buf_puts(ret, ", ");
        pb_sql_literal(ret, t->columns[i].unit);
        pb_buf_puts(ret, ", ");
        pb_sql_literal(ret, t->columns[i].doc);
        pb_buf_putc(ret, ')');
    }
    pb_buf_puts(ret, ") AS words (name, unit, doc) ON words.name = column_name");
}

/* tail: what stands behind TABLES. False when it is not understood: the engine says so then. */
static bool list_tables(const struct pb_catalog *c, const char *tail, size_t len,
                        struct pb_buf *ret)
{
    struct pb_sql_token t;
    char schema[PB_RING_NAME + 2] = "";
    size_t pos = 0;

    t = pb_sql_next(tail, len, &pos);
    if (pb_sql_is(tail, t, "from") || pb_sql_is(tail, t, "in")) {
        if (!pb_sql_name(tail, pb_sql_next(tail, len, &pos), schema, PB_RING_NAME))
            return false;
        t = pb_sql_next(tail, len, &pos);
    }
    if (t.kind != PB_SQL_END && !pb_sql_is(tail, t, "like") && !pb_sql_is(tail, t, "ilike"))
        return false;

    pb_buf_puts(ret, "SELECT name, doc FROM (VALUES ");
    for (int shorts = 0; shorts < 2; shorts++) {
        for (size_t i = 0; i < c->ntables; i++) {
            if ((c->tables[i].source == PB_FROM_VIEW) != shorts)
                continue;
            pb_buf_puts(ret, ret->data[ret->len - 1] == ')' ? ", (" : "(");
            pb_sql_literal(ret, c->tables[i].name);
            pb_buf_puts(ret, ", ");
            pb_sql_literal(ret, c->tables[i].doc);
            pb_buf_putc(ret, ')');
        }
    }
    pb_buf_puts(ret, ") AS tables (name, doc)");
    if (*schema) {
        strcat(schema, ".");
        pb_buf_puts(ret, " WHERE starts_with(name, ");
        pb_sql_literal(ret, schema);
        pb_buf_putc(ret, ')');
    }
    if (t.kind != PB_SQL_END)
        pb_buf_printf(ret, " %s name %.*s", *schema ? "AND" : "WHERE", (int)(len - t.at),
                      tail + t.at);
    return true;
}

bool pb_rewrite_describe(const char *sql, size_t len, const struct pb_catalog *c,
                         struct pb_buf *ret)
{
    size_t pos = 0, at;
    struct pb_sql_token t = pb_sql_next(sql, len, &pos);
    bool show = pb_sql_is(sql, t, "show");
    const struct pb_catalog_table *table;
    char name[PB_RING_NAME];

    if (!show && !pb_sql_is(sql, t, "describe") && !pb_sql_is(sql, t, "desc"))
        return false;
    at = pos;
    t = pb_sql_next(sql, len, &pos);
    if (pb_sql_is(sql, t, "all"))
        t = pb_sql_next(sql, len, &pos);
    if (t.kind == PB_SQL_END || (show && pb_sql_is(sql, t, "tables")))
        return list_tables(c, sql + pos, len - pos, ret);
    if ((!show && pb_sql_is(sql, t, "table")) ||
        (show && pb_sql_is(sql, t, "columns") &&
         pb_sql_is(sql, pb_sql_next(sql, len, &pos), "from")))
        at = pos;
    pb_sql_name_at(sql, len, at, name, sizeof name);
    table = pb_catalog_find(c, name);
    if (table)
        describe(table, ret);
    return table != NULL;
}
