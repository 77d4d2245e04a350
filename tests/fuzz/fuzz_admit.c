/*
 * Our words against the engine's own parser: they split a text into as many statements, and find
 * every name of a table and of a function in it; what the engine does not take for one SELECT is
 * never admitted; the walk over its tree stays inside of whatever bytes it is given.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "host/text/json.h"
#include "node/sql/admit.h"
#include "node/sql/duck.h"
#include "node/sql/text/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t pb_fuzz_seed(int index, uint8_t *buf, size_t cap);

size_t pb_fuzz_seed(int index, uint8_t *buf, size_t cap)
{
    static const char *const seeds[] = {
        "select a, 'it''s', \"q\"\"x\", avg(x) from system.cpu where t > now() - 60 order by 1",
        "explain analyze\u00a0copy (select 1) to 'x' --\r; select 1 -- \n ; \u3000 from t",
        "with a as (select $a$ ; $a$ /* x /* y */ */ from read_csv('x')) select E'\\'' , 1e+5 from "
        "\"s\".\"t\" join u using (k)\ufeff",
        "pivot x on b using sum(a); from x pivot (sum(a) for b in (1, 2)); describe y",
        "drop view python.memory; create or replace macro m() as 1; select\v1, x'00', $1, "
        "$tag$;$tag$",
    };
    size_t n;

    if (index < 0 || (size_t)index >= sizeof seeds / sizeof *seeds)
        return 0;
    n = strlen(seeds[index]);
    memcpy(buf, seeds[index], n < cap ? n : cap);
    return n < cap ? n : cap;
}

static void must(int what, const char *why, const char *sql)
{
    if (what)
        return;
    fprintf(stderr, "%s: %s\n", why, sql);
    abort();
}

/* A parser of the engine's, made with the first input. */
static struct {
    duckdb_database db;
    duckdb_connection connection;
    duckdb_prepared_statement parser;
} made;

static void close_engine(void)
{
    pb_duck()->destroy_prepare(&made.parser);
    pb_duck()->disconnect(&made.connection);
    pb_duck()->close(&made.db);
}

static duckdb_prepared_statement parser(void)
{
    const struct pb_duck *d = pb_duck();
    struct pb_err err = {0};

    if (made.parser)
        return made.parser;
    must(pb_duck_load(&err) == 0, "engine", err.msg);
    must(d->open_ext(NULL, &made.db, NULL, NULL) == 0 &&
             d->connect(made.db, &made.connection) == 0 &&
             d->prepare(made.connection, "SELECT json_serialize_sql($1::VARCHAR)",
                        &made.parser) == 0,
         "engine", "does not start");
    atexit(close_engine);
    return made.parser;
}

/* The engine's tree of a text, in the arena; NULL when the text is not UTF-8. */
static const char *tree_of(struct pb_arena *a, const char *sql, size_t *ret_len)
{
    const struct pb_duck *d = pb_duck();
    duckdb_prepared_statement p = parser();
    duckdb_result r;
    duckdb_data_chunk chunk;
    const char *text = NULL;

    if (d->bind_varchar(p, 1, sql) != 0)
        return NULL;
    if (d->execute_prepared(p, &r) == 0 && (chunk = d->fetch_chunk(r))) {
        text = pb_duck_text(d->vector_get_data(d->data_chunk_get_vector(chunk, 0)), ret_len);
        text = pb_arena_strndup(a, text, *ret_len);
        d->destroy_data_chunk(&chunk);
    }
    d->destroy_result(&r);
    return text;
}

static bool is_named(const char *sql, size_t len, const char *name)
{
    struct pb_sql_token t;
    size_t pos = 0;
    char word[256];

    while ((t = pb_sql_next(sql, len, &pos)).kind != PB_SQL_END) {
        if (pb_sql_name(sql, t, word, sizeof word) && strcasecmp(word, name) == 0)
            return true;
        /* FROM 'x' is a name, too. */
        if (t.kind == PB_SQL_STRING && t.len > 2)
            return true;
    }
    return false;
}

/* Every table that the engine sees is among our words. */
static void compare(const struct pb_json *node, const char *sql, size_t len)
{
    const char *type = pb_json_str(node, "type", ""), *name = pb_json_str(node, "table_name", "");

    if (strcmp(type, "BASE_TABLE") == 0 && *name && strlen(name) < 200)
        must(is_named(sql, len, name), name, sql);
    for (size_t i = 0; i < node->n; i++)
        compare(&node->items[i], sql, len);
}

static void check(struct pb_arena *a, char *sql, size_t len)
{
    struct pb_json tree;
    struct pb_err err = {0};
    size_t size = 0, pos = 0, at, n = 0;
    const char *json;
    enum pb_admit admit;
    long where;

    pb_sql_plain_blanks(sql, len);
    json = tree_of(a, sql, &size);
    if (!json)
        return;
    admit = pb_admit_tree(json, size, &where, &err);
    must((admit == PB_ADMIT_NO || admit == PB_ADMIT_OTHER) == (err.code != PB_OK), "reason", sql);
    must(where < (long)len + 1, "place", sql);
    if (pb_json_parse(a, json, size, &tree, NULL) < 0)
        return;
    if (pb_json_flag(&tree, "error", true)) {
        must(admit == PB_ADMIT_NOT_SQL || admit == PB_ADMIT_OTHER, "admitted", sql);
        return;
    }
    while (pb_sql_statement(sql, len, &pos, &at) > 0)
        n++;
    must(n == pb_json_get(&tree, "statements")->n, "statements", sql);
    must(admit != PB_ADMIT_YES || n == 1, "several admitted", sql);
    compare(&tree, sql, len);
}

/* Bytes as words: most texts of random letters are no SQL, and nobody compares those. */
static void put_words(struct pb_buf *b, const uint8_t *data, size_t size)
{
    static const char *const words[] = {
        "select ", "1",      " from ",  "t",       ".",       "\"q \"\"\"", "'s''; '", "(",
        ")",       ", ",     ";",       "--x\n",   "--\r",    "/* ; */",    "/*",      "*/",
        "\u00a0",  "\u3000", "\ufeff",  "\u2028",  "\v",      "e'\\';'",    "$$ ; $$", "$a$;$a$",
        "explain ", "analyze ", " where ", "a",     " + ",     "with x as (", " union ", "f(",
        "describe ", "drop view v", "copy (select 1) to 'f'", " order by ", "$1", "x'00'", " as ",
        "\u200b",  "é",      "\f",      "\r\n",    "'",       "\"",         "$",       "- -",
        "1e5",     ".5",     "::int",   "[1:2]",   "{'a': 1}", "U&\"\\0061\"", " b'1' ",
    };

    pb_buf_puts(b, size > 0 && data[0] & 1 ? "select 1" : "");
    for (size_t i = 1; i < size && i < 3u + (data[0] >> 1) % 32; i++)
        pb_buf_puts(b, words[data[i] % (sizeof words / sizeof *words)]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pb_buf words = PB_BUF_INIT;
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_err err = {0};
    char *sql = malloc(size + 1);
    long at;

    memcpy(sql, data, size);
    sql[size] = 0;
    pb_admit_tree(sql, size, &at, &err);
    check(&a, sql, strlen(sql));
    put_words(&words, data, size);
    if (words.len)
        check(&a, words.data, words.len);
    pb_buf_finish(&words);
    pb_arena_finish(&a);
    free(sql);
    return 0;
}
