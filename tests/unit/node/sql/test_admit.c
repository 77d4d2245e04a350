/* What runs is decided by the engine's own parser, whatever our words make of the text. */
#include "node/sql/fixture.h"

#include "node/sql/internal.h"

/* Unicode's blanks, and those without width that the engine takes for blanks. */
static const char *const blanks[] = {
    " ",            "\t",           "\v",           "\r",           "\u00a0",       "\u1680",
    "\u2000",       "\u2001",       "\u2002",       "\u2003",       "\u2004",       "\u2005",
    "\u2006",       "\u2007",       "\u2008",       "\u2009",       "\u200a",       "\u200b",
    "\u2028",       "\u2029",       "\u202f",       "\u205f",       "\u2060",       "\u3000",
    "\ufeff",       "\xc2\x85",     "/* x */",      "/* /* */ */",  "--\n",         "--x\r",
};

/* %s: a blank; %p: the folder of history. */
static void fill(struct sql_fixture *f, const char *form, const char *blank, char *buf, size_t cap)
{
    size_t n = 0;

    for (; *form && n + 1 < cap; form++) {
        if (form[0] == '%' && (form[1] == 's' || form[1] == 'p')) {
            const char *piece = *++form == 's' ? blank : f->data;

            n += (size_t)snprintf(buf + n, cap - n, "%s", piece);
        } else {
            buf[n++] = *form;
        }
    }
    buf[n] = 0;
}

static void is_refused(struct sql_fixture *f, const char *form, const char *blank)
{
    char sql[512];

    fill(f, form, blank, sql, sizeof sql);
    if (sql_run(f, PB_FORMAT_JSON, sql) == 0)
        fail_msg("was let through: %s", sql);
    assert_true(*f->err.err.msg);
    assert_null(strchr(f->err.err.msg, '\n'));
}

/* A file below the folder of history that only its tables may show. */
static void put_file(struct sql_fixture *f)
{
    char path[128];
    FILE *file;

    snprintf(path, sizeof path, "%s/lake", f->data);
    mkdir(path, 0700);
    assert_int_equal(sql_run(f, PB_FORMAT_PARQUET, "select 42 as secret"), 0);
    snprintf(path, sizeof path, "%s/lake/x.parquet", f->data);
    file = fopen(path, "w");
    assert_int_equal(fwrite(f->out.data, 1, f->out.len, file), f->out.len);
    fclose(file);
}

static void no_blank_hides_what_a_statement_is(void **state)
{
    static const char *const forms[] = {
        "explain%sanalyze%scopy%s(select 1) to '%p/lake/leak.parquet'",
        "explain analyze%scopy (select 1) to '%p/lake/leak.parquet'",
        "explain analyze%screate or replace view python.memory as select 1 as one",
        "explain%s(analyze)%sdrop view python.memory",
        "explain analyze%sattach '%p/lake/leak.db'",
        "create%sor replace view python.memory as select 1 as one",
        "copy%s(select 1) to '%p/lake/leak.parquet'",
        "select 1 from%sread_text('%p/lake/x.parquet')",
        "from%sprobing_ring%s('python.memory')",
        "from \"%p/lake/x\"%s.%sparquet",
    };
    struct sql_fixture *f = *state;
    char path[128], sql[64];

    sql_open(f, true);
    put_file(f);
    for (size_t i = 0; i < sizeof blanks / sizeof *blanks; i++) {
        for (size_t k = 0; k < sizeof forms / sizeof *forms; k++)
            is_refused(f, forms[k], blanks[i]);
        fill(f, "select%s1%sas%sn", blanks[i], sql, sizeof sql);
        sql_gives(f, PB_FORMAT_NDJSON, sql, "{\"n\":1}\n");
        fill(f, "explain%sselect 1", blanks[i], sql, sizeof sql);
        assert_int_equal(sql_run(f, PB_FORMAT_JSON, sql), 0);
    }
    snprintf(path, sizeof path, "%s/lake/leak.parquet", f->data);
    assert_int_equal(access(path, F_OK), -1);
    sql_gives(f, PB_FORMAT_NDJSON, "select count(*) as n from python.memory", "{\"n\":0}\n");
}

/* Texts that a lexer of one's own takes for something else than the engine does. */
static void what_explain_explains_is_a_select(void **state)
{
    static const char *const forms[] = {
        "explain analyze --\rcopy (select 1) to '%p/lake/leak.parquet' --\n select 1",
        "explain analyze --\rdrop view python.memory --\n select 1",
        "explain explain analyze copy (select 1) to '%p/lake/leak.parquet'",
        "explain (analyze, format json) copy (select 1) to '%p/lake/leak.parquet'",
        "explain (format 'json') create table x as select 1",
        "explain analyze $$select 1$$",
        "explain",
        "explain analyze",
        "explain (analyze",
        "explain select 1; drop view python.memory",
        "explain analyze e'\\'' copy (select 1) to '%p/lake/leak.parquet' --'",
    };
    struct sql_fixture *f = *state;
    char path[128];

    sql_open(f, true);
    put_file(f);
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++)
        is_refused(f, forms[k], " ");
    snprintf(path, sizeof path, "%s/lake/leak.parquet", f->data);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(sql_run(f, PB_FORMAT_JSON, "explain analyze select count(*) from system.cpu"),
                     0);
    assert_int_equal(sql_run(f, PB_FORMAT_JSON, "EXPLAIN (FORMAT json) (select 1)"), 0);
    assert_int_equal(sql_run(f, PB_FORMAT_JSON, "explain (select 1)"), 0);
    assert_int_equal(sql_run(f, PB_FORMAT_JSON, "explain from system.cpu"), 0);
    sql_fails(f, "explain select modul from python.torch_trace",
              "no column 'modul' in python.torch_trace; nearest: module, module_type", 15);
}

static void only_tables_show_what_is_in_history(void **state)
{
    static const char *const forms[] = {
        "from '%p/lake/x.parquet'",
        "from \"%p/lake/x\".parquet",
        "from \"%p/lake/x\".\"parquet\"",
        "describe '%p/lake/x.parquet'",
        "summarize '%p/lake/x.parquet'",
        "from histogram('%p/lake/x.parquet', secret)",
        "from histogram_values('%p/lake/x.parquet', secret)",
        "from query('from ''%p/lake/x.parquet''')",
        "from query_table('%p/lake/x.parquet')",
        "select * from (values (1)) t, lateral (from '%p/lake/x.parquet')",
        "with x as (from '%p/lake/x.parquet') from x",
        "select (select secret from '%p/lake/x.parquet')",
        "select 1 where exists (from '%p/lake/x.parquet')",
        "from '%p/lake/x.parquet' pivot (sum(secret) for secret in (42))",
        "select json_serialize_plan('from ''%p/lake/x.parquet''')",
        "from json_execute_serialized_sql(json_serialize_sql('from ''%p/lake/x.parquet'''))",
        "from parquet_metadata('%p/lake/x.parquet')",
        "from parquet_schema('%p/lake/x.parquet')",
        "from glob('%p/lake/*')",
        "from READ_parquet('%p/lake/x.parquet')",
        "from \"read_parquet\"('%p/lake/x.parquet')",
        "from main.read_parquet('%p/lake/x.parquet')",
        "from system.main.read_parquet('%p/lake/x.parquet')",
        "from sniff_csv('%p/lake/x.parquet')",
        "from duckdb_external_file_cache()",
        "from duckdb_logs()",
        "select pg_sleep(1)",
        "select sleep_ms(1)",
    };
    struct sql_fixture *f = *state;

    sql_open(f, true);
    put_file(f);
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++)
        is_refused(f, forms[k], " ");
}

static void functions_are_told_by_their_place(void **state)
{
    struct sql_fixture *f = *state;

    sql_open(f, false);
    sql_fails(f, "select * from read_csv('x')",
              "read_csv() is refused: SQL here reads tables and nothing else", 14);
    sql_fails(f, "select 1; select * from READ_TEXT /* x */ ('x')",
              "read_text() is refused: SQL here reads tables and nothing else", 24);
    sql_fails(f, "explain select ('x').read_text()",
              "read_text() is refused: SQL here reads tables and nothing else", 21);
    sql_fails(f, "from system.cpu, \"enable_logging\"()",
              "enable_logging() is refused: SQL here reads tables and nothing else", 17);
    sql_fails(f, "select system.main.repeat('x', 3)",
              "functions have no schema here: leave 'system.' out", 7);
    sql_fails(f, "select pg_catalog.abs(1)", "functions have no schema here: leave 'pg_catalog.' "
                                             "out", 7);
    sql_fails(f, "from 'x.parquet'", "'x.parquet' is refused: SQL here reaches no files", 5);
    sql_gives(f, PB_FORMAT_NDJSON,
              "select count(*) as n, extract(year from date '2020-01-01') as y, "
              "trim(both 'a' from 'ab') as t, [x + 1 for x in [1, 2]] as l from range(3)",
              "{\"n\":3,\"y\":2020,\"t\":\"b\",\"l\":[2,3]}\n");
    sql_gives(f, PB_FORMAT_NDJSON, "select read_csv, \"glob\" from (select 1 as read_csv, "
                                   "'read_text(1)' as \"glob\")",
              "{\"read_csv\":1,\"glob\":\"read_text(1)\"}\n");
}

/* An expression may nest as deeply as the engine takes it. */
static void deep_nesting_is_no_way_around(void **state)
{
    struct sql_fixture *f = *state;
    struct pb_buf b = PB_BUF_INIT;

    sql_open(f, false);
    pb_buf_puts(&b, "select 1");
    for (int i = 0; i < 400; i++)
        pb_buf_puts(&b, " + 1");
    pb_buf_puts(&b, " as n");
    sql_gives(f, PB_FORMAT_NDJSON, b.data, "{\"n\":401}\n");
    pb_buf_puts(&b, " from read_text('/etc/passwd')");
    is_refused(f, b.data, " ");
    pb_buf_clear(&b);
    pb_buf_puts(&b, "select ");
    for (int i = 0; i < 100000; i++)
        pb_buf_putc(&b, '(');
    is_refused(f, b.data, " ");
    pb_buf_finish(&b);
}

static void a_connection_that_answers_cannot_write(void **state)
{
    static const char *const writes[] = {
        "create or replace view python.memory as select 1",
        "create table t (a int)",
        "create temp table t (a int)",
        "drop view if exists python.memory",
        "create schema s",
        "create macro m() as 1",
        "comment on view memory_usage is 'x'",
    };
    struct sql_fixture *f = *state;
    struct pb_sql_conn *c;
    struct pb_err err = {0};

    sql_open(f, false);
    assert_int_equal(sql_run(f, PB_FORMAT_JSON, "from python.memory, memory_usage"), 0);
    for (size_t i = 0; i < sizeof writes / sizeof *writes; i++) {
        c = pb_sql_conn_acquire(f->node->sql, NULL, &err);
        assert_int_equal(pb_sql_conn_read_only(f->node->sql, c, &err), 0);
        if (pb_sql_exec(f->node->sql, c, writes[i], &err) == 0 &&
            strstr(writes[i], "temp table") == NULL)
            fail_msg("%s: was let through", writes[i]);
        pb_sql_conn_release(f->node->sql, c);
    }
    sql_fails(f, "select * from t", "no table 't'; `SHOW TABLES` lists them", 14);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SQL_TEST(no_blank_hides_what_a_statement_is),
        SQL_TEST(what_explain_explains_is_a_select),
        SQL_TEST(only_tables_show_what_is_in_history),
        SQL_TEST(functions_are_told_by_their_place),
        SQL_TEST(deep_nesting_is_no_way_around),
        SQL_TEST(a_connection_that_answers_cannot_write),
    };

    return RUN_TESTS(tests);
}
