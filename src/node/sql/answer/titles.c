#include "node/sql/answer/titles.h"

#include <stdbool.h>
#include <string.h>

#include "host/text/buf.h"
#include "node/sql/text/text.h"

enum { ITEMS_MAX = 1024 };

/* One expression of a SELECT's list. */
struct item {
    size_t at, end;
    bool spreads; /* into any number of columns */
    bool unnests; /* so may this; into one, mostly */
};

static bool is_one_of(const char *sql, struct pb_sql_token t, const char *const *words)
{
    for (; *words; words++)
        if (pb_sql_is(sql, t, *words))
            return true;
    return false;
}

static int depth_change(const char *sql, struct pb_sql_token t)
{
    if (t.kind != PB_SQL_SYMBOL)
        return 0;
    return strchr("([{", sql[t.at]) ? 1 : strchr(")]}", sql[t.at]) ? -1 : 0;
}

/* Behind SELECT and DISTINCT ON (…) of the outermost SELECT; 0 when there is none. */
static size_t find_list(const char *sql, size_t len)
{
    static const char *const starts[] = {"select", "with", "from", NULL};
    struct pb_sql_token t;
    size_t pos = 0;
    int depth = 0;

    if (!is_one_of(sql, pb_sql_peek(sql, len, 0), starts))
        return 0;
    while (!pb_sql_is(sql, t = pb_sql_next(sql, len, &pos), "select") || depth != 0) {
        if (t.kind == PB_SQL_END)
            return 0;
        depth += depth_change(sql, t);
    }
    t = pb_sql_peek(sql, len, pos);
    if (pb_sql_is(sql, t, "all") || pb_sql_is(sql, t, "distinct"))
        pb_sql_next(sql, len, &pos);
    if (pb_sql_is(sql, t, "distinct") && pb_sql_is(sql, pb_sql_peek(sql, len, pos), "on")) {
        pb_sql_next(sql, len, &pos);
        do
            depth += depth_change(sql, t = pb_sql_next(sql, len, &pos));
        while (depth > 0 && t.kind != PB_SQL_END);
    }
    return pos;
}

/* Does the list end before this word? x IS DISTINCT FROM y and WITHIN GROUP go on. */
static bool ends_list(const char *sql, struct pb_sql_token t, struct pb_sql_token before)
{
    static const char *const ends[] = {"from",   "where",     "group",  "having", "window",
                                       "order",  "limit",     "offset", "union",  "qualify",
                                       "sample", "intersect", "except", "using",  NULL};

    if (pb_sql_is(sql, before, ".") ||
        (pb_sql_is(sql, t, "from") && pb_sql_is(sql, before, "distinct")) ||
        (pb_sql_is(sql, t, "group") && pb_sql_is(sql, before, "within")))
        return false;
    return is_one_of(sql, t, ends);
}

/* The items of the list; 0 when they cannot be told. */
static size_t split(const char *sql, size_t len, size_t pos, struct item *items)
{
    struct pb_sql_token t, before = {PB_SQL_END, 0, 0};
    struct item item = {0};
    bool empty = true;
    size_t n = 0;
    int depth = 0;

    for (;; before = t) {
        t = pb_sql_next(sql, len, &pos);
        if (t.kind == PB_SQL_END ||
            (depth == 0 && (pb_sql_is(sql, t, ",") || ends_list(sql, t, before)))) {
            if (!empty && n < ITEMS_MAX)
                items[n++] = item;
            else if (!empty || pb_sql_is(sql, t, ","))
                return 0;
            if (!pb_sql_is(sql, t, ","))
                return n;
            empty = true;
            continue;
        }
        depth += depth_change(sql, t);
        if (depth < 0)
            return 0;
        /* A star is a column list at the beginning and behind a dot, else a product. */
        if (empty)
            item = (struct item){.at = t.at, .spreads = pb_sql_is(sql, t, "*")};
        item.spreads |= pb_sql_is(sql, t, "*") && pb_sql_is(sql, before, ".");
        item.spreads |= pb_sql_is(sql, before, "columns") && pb_sql_is(sql, t, "(");
        item.unnests |= pb_sql_is(sql, before, "unnest") && pb_sql_is(sql, t, "(");
        item.end = t.at + t.len;
        empty = false;
    }
}

/* Is it a column's own name, or has it been given one? */
static bool has_name(const char *sql, const struct item *item)
{
    static const char *const no_alias[] = {"end", "null", "true", "false", NULL};
    static const char *const operators[] = {"and",   "or",      "not",     "is",   "in", "like",
                                            "ilike", "between", "collate", "from", NULL};
    struct pb_sql_token t, last = {PB_SQL_END, 0, 0}, before = last;
    size_t pos = item->at;
    bool dotted = true; /* nothing but names and dots */
    int depth = 0;

    for (size_t n = 0; (t = pb_sql_next(sql, item->end, &pos)).kind != PB_SQL_END; n++) {
        depth += depth_change(sql, t);
        if (depth == 0 && pb_sql_is(sql, t, "as"))
            return true;
        if (n == 1 && pb_sql_is(sql, t, ":") && sql[t.at + 1] != ':')
            return true; /* name: expression */
        dotted &= t.kind == PB_SQL_WORD || t.kind == PB_SQL_QUOTED || pb_sql_is(sql, t, ".");
        before = last;
        last = t;
    }
    if (last.kind != PB_SQL_QUOTED && (last.kind != PB_SQL_WORD || is_one_of(sql, last, no_alias)))
        return false;
    if (before.kind == PB_SQL_END || (dotted && pb_sql_is(sql, before, ".")))
        return true;
    return before.kind == PB_SQL_SYMBOL ? strchr(")]}", sql[before.at]) != NULL
                                        : !is_one_of(sql, before, operators);
}

/* On one line: blanks and comments between words become one blank. */
static const char *text_of(struct pb_arena *a, const char *sql, const struct item *item)
{
    struct pb_buf b = PB_BUF_INIT;
    struct pb_sql_token t;
    size_t pos = item->at, behind = item->at;
    const char *text;

    while ((t = pb_sql_next(sql, item->end, &pos)).kind != PB_SQL_END) {
        if (t.at > behind)
            pb_buf_putc(&b, ' ');
        pb_buf_add(&b, sql + t.at, t.len);
        behind = t.at + t.len;
    }
    text = pb_arena_strndup(a, b.data ? b.data : "", b.len);
    pb_buf_finish(&b);
    return text;
}

const char **pb_titles_find(struct pb_arena *a, const char *sql, size_t len, size_t n)
{
    struct item *items = PB_NEW_N(a, struct item, ITEMS_MAX);
    size_t pos = find_list(sql, len), nitems = pos ? split(sql, len, pos, items) : 0;
    size_t spreading = 0, column = 0;
    const char **titles = PB_NEW_N(a, const char *, n + 1);

    for (size_t i = 0; i < nitems; i++) {
        items[i].spreads |= items[i].unnests && nitems != n;
        spreading += items[i].spreads;
    }
    if (nitems == 0 || spreading > 1 || nitems > n + spreading || (!spreading && nitems != n))
        return NULL;
    for (size_t i = 0; i < nitems; i++) {
        if (items[i].spreads)
            column += n + 1 - nitems;
        else
            titles[column++] = has_name(sql, &items[i]) ? NULL : text_of(a, sql, &items[i]);
    }
    return titles;
}
