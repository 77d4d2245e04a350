#include "node/sql/answer/units.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "node/sql/text/text.h"

void pb_units_init(struct pb_units *u, const struct pb_catalog *c, const char *sql, size_t len)
{
    static const char *const others[] = {"with", "union", "intersect", "except", "values"};
    struct pb_sql_token t;
    size_t pos = 0, selects = 0;

    *u = (struct pb_units){.sql = sql, .len = len, .catalog = c};
    while ((t = pb_sql_next(sql, len, &pos)).kind != PB_SQL_END) {
        bool is_from = pb_sql_is(sql, t, "from") && !u->from;

        if (pb_sql_is(sql, t, "select") && ++selects == 1)
            u->list = pos;
        if (is_from)
            u->from = t.at;
        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
            if (pb_sql_is(sql, t, others[i]))
                u->sql = NULL;
    }
    if (selects != 1 || !u->from || u->from < u->list)
        u->sql = NULL;
}

/* An item of the list: how it ends, and whether it is only a name or a star. */
struct item {
    size_t tokens;
    bool dotted; /* names with dots between them, and nothing else */
    bool star;
    char last[PB_RING_NAME];
};

static void add_token(const struct pb_units *u, struct item *item, struct pb_sql_token t)
{
    bool is_dot = pb_sql_is(u->sql, t, "."), is_name;

    if (item->tokens == 0 && (pb_sql_is(u->sql, t, "distinct") || pb_sql_is(u->sql, t, "all")))
        return;
    is_name = pb_sql_name(u->sql, t, item->last, sizeof item->last);
    item->star = pb_sql_is(u->sql, t, "*");
    item->dotted = (item->tokens == 0 || item->dotted) &&
                   (item->tokens % 2 ? is_dot : is_name || item->star);
    item->tokens++;
}

/* Is the column asked for once as it is, "allocated", "t.allocated" or by a star, and never so
 * called without being it? */
static bool is_plain(const struct pb_units *u, const char *column)
{
    struct item item = {0};
    size_t pos = u->list, plain = 0, other = 0;
    struct pb_sql_token t;
    int depth = 0;

    do {
        t = pb_sql_next(u->sql, u->from, &pos);
        if (t.kind == PB_SQL_END || (depth == 0 && pb_sql_is(u->sql, t, ","))) {
            bool same = !item.star && strcasecmp(item.last, column) == 0;

            plain += item.dotted && (item.star || same);
            other += !item.dotted && same;
            item = (struct item){0};
            continue;
        }
        depth += pb_sql_is(u->sql, t, "(") - pb_sql_is(u->sql, t, ")");
        add_token(u, &item, t);
    } while (t.kind != PB_SQL_END);
    return plain == 1 && other == 0;
}

/* The unit that all tables of the statement which have the column agree on. */
static const char *unit_of_tables(const struct pb_units *u, const char *column)
{
    const char *unit = NULL;
    struct pb_sql_token t;
    size_t pos = u->from;
    char name[2 * PB_RING_NAME];

    while ((t = pb_sql_next(u->sql, u->len, &pos)).kind != PB_SQL_END) {
        const struct pb_catalog_table *table;

        pb_sql_name_at(u->sql, u->len, t.at, name, sizeof name);
        table = *name ? pb_catalog_find(u->catalog, name) : NULL;
        for (size_t i = 0; table && i < table->ncolumns; i++) {
            if (strcasecmp(table->columns[i].name, column) != 0)
                continue;
            if (unit && strcmp(unit, table->columns[i].unit) != 0)
                return NULL;
            unit = table->columns[i].unit;
        }
    }
    return unit && *unit ? unit : NULL;
}

/* step_ms, read_mb_s and data_pct say it themselves. */
static bool says_unit(const char *column, const char *unit)
{
    static const struct {
        const char *unit, *ending;
    } endings[] = {{"%", "pct"}, {"MB/s", "mb_s"}, {"1/s", "s"}, {"B", "bytes"}};
    size_t len = strlen(column), n;

    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (strcmp(unit, endings[i].unit) == 0)
            unit = endings[i].ending;
    n = strlen(unit);
    return strcasecmp(column, unit) == 0 ||
           (len > n && strcasecmp(column + len - n, unit) == 0 && column[len - n - 1] == '_') ||
           strncasecmp(column, "mb_per_", 7) == 0;
}

/* "max(allocated)": the column inside; false when it is no such thing. */
static bool inside_aggregate(const char *name, char column[PB_RING_NAME])
{
    static const char *const kept[] = {"min", "max", "avg", "sum", "median", "mode", "any_value"};
    size_t word = strcspn(name, "("), len = strlen(name);

    if (!name[word] || name[len - 1] != ')' || len - word - 2 >= PB_RING_NAME)
        return false;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (strlen(kept[i]) == word && strncasecmp(name, kept[i], word) == 0) {
            snprintf(column, PB_RING_NAME, "%.*s", (int)(len - word - 2), name + word + 1);
            for (const char *p = column; *p; p++)
                if (!isalnum((unsigned char)*p) && *p != '_')
                    return false;
            return *column != '\0';
        }
    return false;
}

const char *pb_units_of(const struct pb_units *u, const char *name)
{
    char column[PB_RING_NAME];
    const char *unit;

    if (!u->sql)
        return NULL;
    if (!inside_aggregate(name, column)) {
        if (strlen(name) >= sizeof column || !is_plain(u, name))
            return NULL;
        strcpy(column, name);
    }
    unit = unit_of_tables(u, column);
    return unit && !says_unit(column, unit) ? unit : NULL;
}
