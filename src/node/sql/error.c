#include "node/sql/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "host/arena.h"
#include "host/json.h"
#include "host/nearest.h"

enum { NEAREST_SHOWN = 3 };

/* What the engine said, taken apart. */
struct said {
    const char *message, *subtype, *kind, *name, *type;
    long at; /* in the edited text, or -1 */
};

static void take_apart(struct pb_arena *a, const char *text, struct said *ret)
{
    const char *brace = strchr(text, '{');
    const char *at;
    struct pb_json json;
    struct pb_err ignored = {0};

    *ret = (struct said){text, "", "", "", "", -1};
    if (!brace || pb_json_parse(a, brace, strlen(brace), &json, &ignored) < 0)
        return;
    ret->message = pb_json_str(&json, "exception_message", text);
    ret->kind = pb_json_str(&json, "exception_type", "");
    ret->subtype = pb_json_str(&json, "error_subtype", "");
    ret->name = pb_json_str(&json, "name", "");
    ret->type = pb_json_str(&json, "type", "");
    at = pb_json_str(&json, "position", NULL);
    ret->at = at ? strtol(at, NULL, 10) : -1;
}

long pb_sql_error_at(const char *text)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct said said;

    take_apart(&a, text, &said);
    pb_arena_finish(&a);
    return said.at;
}

void pb_sql_plain(const char *text, char *buf, size_t cap)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct said said;

    take_apart(&a, text ? text : "failed", &said);
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
static void offer(struct ranking *r, const char *name, const char *like)
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
            offer(&r, t->columns[k].name, t->columns[k].name);
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

        offer(&r, full, dot && !strchr(name, '.') ? dot + 1 : full);
    }
    write_nearest(&r, ret);
    pb_err_set(&ret->err, PB_FAIL, "no table '%s'%s%s", name,
               *ret->nearest ? "; nearest: " : "; `SHOW TABLES` lists them", ret->nearest);
}

/* Text between the first pair of quotes behind a place; false when there is none. */
static bool quoted(const char *text, const char *after, char *buf, size_t cap)
{
    const char *at = strstr(text, after), *end;

    at = at ? strchr(at, '"') : NULL;
    end = at ? strchr(at + 1, '"') : NULL;
    if (!end || (size_t)(end - at) > cap)
        return false;
    memcpy(buf, at + 1, (size_t)(end - at - 1));
    buf[end - at - 1] = 0;
    return true;
}

/* The engine's own first line, without what only its developers understand. */
static void pass_on(const struct said *said, struct pb_sql_error *ret)
{
    size_t n = strcspn(said->message, "\n");
    char name[PB_RING_NAME * 2];

    if (strncmp(said->message, "No function matches", 19) == 0) {
        const char *from = strchr(said->message, '\''), *to = from ? strchr(from + 1, '\'') : NULL;

        if (to) {
            pb_err_set(&ret->err, PB_FAIL, "no function %.*s", (int)(to - from - 1), from + 1);
            return;
        }
    }
    if (strncmp(said->message, "Could not choose a best candidate function", 42) == 0 &&
        quoted(said->message, "call", name, sizeof name)) {
        pb_err_set(&ret->err, PB_FAIL, "%s fits several functions; add a cast", name);
        return;
    }
    if (strncmp(said->message, "Macro ", 6) == 0 && strstr(said->message, "supplied arguments")) {
        pb_err_set(&ret->err, PB_FAIL, "no %.*s for such arguments; add a cast",
                   (int)strcspn(said->message + 6, " "), said->message + 6);
        return;
    }
    if (strncmp(said->message, "Referenced table ", 17) == 0 &&
        quoted(said->message, "table", name, sizeof name)) {
        pb_err_set(&ret->err, PB_FAIL, "no table '%s' in this statement's FROM", name);
        return;
    }
    if (strstr(said->message, "errhint NOT IMPLEMENTED")) {
        pb_err_set(&ret->err, PB_FAIL,
                   "syntax error: LIMIT takes one number; the rows to skip are "
                   "its OFFSET");
        return;
    }
    if (strncmp(said->message, "Interrupted", 11) == 0) {
        pb_err_set(&ret->err, PB_FAIL, "the engine stopped it, and not when it was run again");
        return;
    }
    while (n > 0 && strchr(" .!", said->message[n - 1]))
        n--;
    pb_err_set(&ret->err, PB_FAIL, "%.*s", (int)(n < 400 ? n : 400), said->message);
}

void pb_sql_explain(struct pb_sql *s, const char *text, const struct pb_sql_edited *e, size_t base,
                    struct pb_sql_error *ret)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct said said;
    char name[PB_RING_NAME * 2];

    take_apart(&a, text, &said);
    if (said.at >= 0 && (size_t)said.at <= e->text.len)
        ret->at = (long)(base + pb_sql_origin(e, (size_t)said.at));
    if (strcmp(said.subtype, "COLUMN_NOT_FOUND") == 0) {
        no_column(s, e, said.name, ret);
    } else if (quoted(said.message, "does not have a column named", name, sizeof name)) {
        no_column(s, e, name, ret);
    } else if (said.at >= 0 && (strcmp(said.type, "Table") == 0 ||
                                strncmp(said.message, "Table with name", 15) == 0)) {
        pb_sql_name_at(e->text.data, e->text.len, (size_t)said.at, name, sizeof name);
        if (strncasecmp(name, "memory.", 7) == 0)
            memmove(name, name + 7, strlen(name + 7) + 1);
        no_table(s, *name ? name : said.name, ret);
    } else if (strstr(said.type, "Function") && *said.name) {
        const char *near = strstr(said.message, "Did you mean \"");

        if (near && quoted(near, "Did", ret->nearest, sizeof ret->nearest - 1))
            near = ret->nearest;
        pb_err_set(&ret->err, PB_FAIL, "no function '%s'%s%s", said.name,
                   *ret->nearest ? "; nearest: " : "", ret->nearest);
    } else {
        pass_on(&said, ret);
    }
    pb_arena_finish(&a);
}
