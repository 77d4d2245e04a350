#include "node/sql/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "host/text/arena.h"
#include "host/text/json.h"
#include "host/text/nearest.h"

enum { NEAREST_SHOWN = 3 };

/* What the engine said, taken apart. */
struct said {
    const char *message, *subtype, *kind, *name, *type, *call, *candidates;
    long at; /* in the edited text, or -1 */
};

static void parse_error(struct pb_arena *a, const char *text, struct said *ret)
{
    const char *brace = strchr(text, '{');
    const char *at;
    struct pb_json json;
    struct pb_err ignored = {0};

    *ret = (struct said){text, "", "", "", "", "", "", -1};
    if (!brace || pb_json_parse(a, brace, strlen(brace), &json, &ignored) < 0)
        return;
    ret->message = pb_json_str(&json, "exception_message", text);
    ret->kind = pb_json_str(&json, "exception_type", "");
    ret->subtype = pb_json_str(&json, "error_subtype", "");
    ret->name = pb_json_str(&json, "name", "");
    ret->type = pb_json_str(&json, "type", "");
    ret->call = pb_json_str(&json, "call", "");
    ret->candidates = pb_json_str(&json, "candidates", "");
    at = pb_json_str(&json, "position", NULL);
    ret->at = at ? strtol(at, NULL, 10) : -1;
}

long pb_sql_error_at(const char *text)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct said said;

    parse_error(&a, text, &said);
    pb_arena_finish(&a);
    return said.at;
}

void pb_sql_plain(const char *text, char *buf, size_t cap)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct said said;

    parse_error(&a, text ? text : "failed", &said);
    snprintf(buf, cap, "%.*s", (int)strcspn(said.message, "\n"), said.message);
    pb_arena_finish(&a);
}

/* The nearest of many names, best first. */
struct ranking {
    const char *word;
    const char *names[NEAREST_SHOWN];
    size_t distances[NEAREST_SHOWN];
};

/* name: what is shown; like: the part of it that the word is compared with. */
static void rank_name(struct ranking *r, const char *name, const char *like)
{
    size_t len = strlen(r->word), d = pb_nearest_distance(r->word, like), i;

    /* A part that was typed is nearer than its length says. */
    if (len >= 3 && strcasestr(like, r->word))
        d = d < 2 ? d : 2;
    if (d > (len < 3 ? 1 : len < 7 ? 2 : 3) || d >= len)
        return;
    for (i = 0; i < NEAREST_SHOWN; i++)
        if (r->names[i] && strcasecmp(r->names[i], name) == 0)
            return;
    for (i = NEAREST_SHOWN; i > 0 && (!r->names[i - 1] || r->distances[i - 1] > d); i--) {
        if (i < NEAREST_SHOWN) {
            r->names[i] = r->names[i - 1];
            r->distances[i] = r->distances[i - 1];
        }
    }
    if (i < NEAREST_SHOWN) {
        r->names[i] = name;
        r->distances[i] = d;
    }
}

static void write_nearest(const struct ranking *r, struct pb_sql_error *ret)
{
    size_t n = 0;

    for (size_t i = 0; i < NEAREST_SHOWN && r->names[i]; i++) {
        int k;

        if (r->distances[0] == 0 && r->distances[i] > 0)
            return; /* only the schema was missing */
        k = snprintf(ret->nearest + n, sizeof ret->nearest - n, "%s%s", i ? ", " : "", r->names[i]);
        if (k < 0 || (size_t)k >= sizeof ret->nearest - n) {
            ret->nearest[n] = 0;
            return;
        }
        n += (size_t)k;
    }
}

/* The tables that a statement names, by their full names. */
static bool is_named(const char *sql, size_t len, const char *table)
{
    struct pb_sql_token t;
    size_t pos = 0;
    char name[PB_RING_NAME];

    while ((t = pb_sql_next(sql, len, &pos)).kind != PB_SQL_END) {
        pb_sql_name_at(sql, len, t.at, name, sizeof name);
        if (strncasecmp(name, "memory.system.", 14) == 0)
            memmove(name, name + 7, strlen(name + 7) + 1);
        if (strcasecmp(name, table) == 0)
            return true;
    }
    return false;
}

static void no_column(struct pb_sql *s, const struct pb_sql_edited *e, const char *name,
                      struct pb_sql_error *ret)
{
    struct ranking r = {.word = name};
    const struct pb_catalog_table *only = NULL;
    size_t ntables = 0;

    for (size_t i = 0; i < s->catalog.ntables; i++) {
        const struct pb_catalog_table *t = &s->catalog.tables[i];

        if (!is_named(e->text.data, e->text.len, t->name))
            continue;
        ntables++;
        only = t;
        for (size_t k = 0; k < t->ncolumns; k++)
            rank_name(&r, t->columns[k].name, t->columns[k].name);
    }
    write_nearest(&r, ret);
    pb_err_set(&ret->err, PB_FAIL, "no column '%s'%s%s%s%s", name, ntables == 1 ? " in " : "",
               ntables == 1 ? only->name : "", *ret->nearest ? "; nearest: " : "", ret->nearest);
}

static void no_table(struct pb_sql *s, const char *name, struct pb_sql_error *ret)
{
    struct ranking r = {.word = name};

    for (size_t i = 0; i < s->catalog.ntables; i++) {
        const char *full = s->catalog.tables[i].name, *dot = strchr(full, '.');

        rank_name(&r, full, dot && !strchr(name, '.') ? dot + 1 : full);
    }
    write_nearest(&r, ret);
    pb_err_set(&ret->err, PB_FAIL, "no table '%s'%s%s", name,
               *ret->nearest ? "; nearest: " : "; `SHOW TABLES` lists them", ret->nearest);
}

/* Does the engine name it in quotes? */
static bool quotes(const char *message, const char *name, size_t len)
{
    for (const char *p = message; len && (p = strchr(p, '"')); p++)
        if (strncasecmp(p + 1, name, len) == 0 && p[1 + len] == '"')
            return true;
    return false;
}

/* LIMIT 1, 2 is a syntax error that the engine has no place and no words for. */
static bool limits_twice(const struct pb_sql_edited *e)
{
    struct pb_sql_token t, before = {PB_SQL_END, 0, 0}, first = before;
    size_t pos = 0;

    for (; (t = pb_sql_next(e->text.data, e->text.len, &pos)).kind != PB_SQL_END;
         first = before, before = t)
        if (pb_sql_is(e->text.data, t, ",") && pb_sql_is(e->text.data, first, "limit"))
            return true;
    return false;
}

/* a.b, where the engine misses one of the two: it says which only in words. */
static bool explain_qualified(struct pb_sql *s, const struct said *said,
                              const struct pb_sql_edited *e, struct pb_sql_error *ret)
{
    char name[PB_RING_NAME * 2];
    const char *dot, *last;
    bool first_quoted;

    if (said->at < 0 || *said->subtype)
        return false;
    pb_sql_name_at(e->text.data, e->text.len, (size_t)said->at, name, sizeof name);
    dot = strchr(name, '.');
    last = strrchr(name, '.');
    first_quoted = dot && quotes(said->message, name, (size_t)(dot - name));
    if (!first_quoted)
        return false;
    if (quotes(said->message, last + 1, strlen(last + 1)))
        no_column(s, e, last + 1, ret);
    else
        pb_err_set(&ret->err, PB_FAIL, "no table '%.*s' in this statement's FROM",
                   (int)(dot - name), name);
    return true;
}

/* The engine's own first line. */
static void copy_first_line(const struct said *said, struct pb_sql_error *ret)
{
    size_t n = strcspn(said->message, "\n");

    while (n > 0 && strchr(" .!", said->message[n - 1]))
        n--;
    pb_err_set(&ret->err, PB_FAIL, "%.*s", (int)(n < 400 ? n : 400), said->message);
}

static void no_function(const struct said *said, struct pb_sql_error *ret)
{
    size_t n = strcspn(said->candidates, ",");

    if (n < sizeof ret->nearest)
        snprintf(ret->nearest, sizeof ret->nearest, "%.*s", (int)n, said->candidates);
    pb_err_set(&ret->err, PB_FAIL, "no function '%s'%s%s", said->name,
               *ret->nearest ? "; nearest: " : "", ret->nearest);
}

void pb_sql_explain(struct pb_sql *s, const char *text, const struct pb_sql_edited *e, size_t base,
                    struct pb_sql_error *ret)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct said said;
    char name[PB_RING_NAME * 2];

    parse_error(&a, text, &said);
    if (said.at >= 0 && (size_t)said.at <= e->text.len)
        ret->at = (long)(base + pb_sql_origin(e, (size_t)said.at));
    if (strcmp(said.subtype, "COLUMN_NOT_FOUND") == 0) {
        no_column(s, e, said.name, ret);
    } else if (said.at >= 0 && (strcmp(said.type, "Table") == 0 ||
                                (!*said.type && strcmp(said.kind, "Catalog") == 0))) {
        pb_sql_name_at(e->text.data, e->text.len, (size_t)said.at, name, sizeof name);
        if (strncasecmp(name, "memory.", 7) == 0)
            memmove(name, name + 7, strlen(name + 7) + 1);
        no_table(s, *name ? name : said.name, ret);
    } else if (strstr(said.type, "Function") && *said.name) {
        no_function(&said, ret);
    } else if (*said.call) {
        pb_err_set(&ret->err, PB_FAIL, "no function %s", said.call);
    } else if (strcmp(said.kind, "INTERRUPT") == 0) {
        pb_err_set(&ret->err, PB_FAIL, "the engine stopped it, and not when it was run again");
    } else if (strcmp(said.subtype, "SYNTAX_ERROR") == 0 && said.at < 0 && limits_twice(e)) {
        pb_err_set(&ret->err, PB_FAIL,
                   "syntax error: LIMIT takes one number; the rows to skip are its OFFSET");
    } else if (!explain_qualified(s, &said, e, ret)) {
        copy_first_line(&said, ret);
    }
    pb_arena_finish(&a);
}
