/* Answers in every format, and what users write that the engine alone would not take. */
#include "node/sql/fixture.h"

static void every_format(void **state)
{
    struct sql_fixture *f = *state;
    static const char *const sql = "select * from (values (1, 'a,b'), (2, NULL), (3, '')) t(n, s)";

    sql_open(f, false);
    sql_gives(f, PB_FORMAT_JSON, sql,
              "[{\"n\":1,\"s\":\"a,b\"},\n {\"n\":2,\"s\":null},\n {\"n\":3,\"s\":\"\"}]\n");
    sql_gives(f, PB_FORMAT_NDJSON, sql,
              "{\"n\":1,\"s\":\"a,b\"}\n{\"n\":2,\"s\":null}\n{\"n\":3,\"s\":\"\"}\n");
    sql_gives(f, PB_FORMAT_CSV, sql, "n,s\n1,\"a,b\"\n2,\n3,\"\"\n");
    sql_gives(f, PB_FORMAT_ROWS, sql,
              "{\"columns\":[{\"name\":\"n\",\"type\":\"INTEGER\"},"
              "{\"name\":\"s\",\"type\":\"VARCHAR\"}]}\n[1,\"a,b\"]\n[2,null]\n[3,\"\"]\n");
    sql_gives(f, PB_FORMAT_JSON, "select 1 as a where false", "[]\n");
    sql_gives(f, PB_FORMAT_NDJSON, "select 1 as a; select 2 as b;", "{\"a\":1}\n{\"b\":2}\n");
    assert_int_equal(f->done.rows, 2);
    assert_int_equal(sql_run(f, PB_FORMAT_PARQUET, sql), 0);
    assert_int_equal(f->done.rows, 3);
    assert_memory_equal(f->out.data, "PAR1", 4);
    assert_memory_equal(f->out.data + f->out.len - 4, "PAR1", 4);
    assert_int_equal(sql_run(f, PB_FORMAT_PARQUET, "select 1; select 2"), -1);
}

static void every_kind_of_value(void **state)
{
    static const struct {
        const char *sql, *json;
    } cases[] = {
        {"127::TINYINT", "127"},
        {"(-32768)::SMALLINT", "-32768"},
        {"(-9223372036854775808)::BIGINT", "-9223372036854775808"},
        {"18446744073709551615::UBIGINT", "18446744073709551615"},
        {"170141183460469231731687303715884105727::HUGEINT",
         "170141183460469231731687303715884105727"},
        {"(-1)::HUGEINT", "-1"},
        {"1.5::FLOAT", "1.5"},
        {"0.1::DOUBLE", "0.1"},
        {"1e300::DOUBLE", "1e+300"},
        {"299.95::DOUBLE", "299.95"},
        {"3::DOUBLE", "3.0"},
        {"(1/3)::DOUBLE", "0.3333333333333333"},
        {"'nan'::DOUBLE", "null"},
        {"'-infinity'::DOUBLE", "null"},
        {"12.30::DECIMAL(5,2)", "12.30"},
        {"(-0.05)::DECIMAL(5,2)", "-0.05"},
        {"0.000001::DECIMAL(38,6)", "0.000001"},
        {"true", "true"},
        {"NULL", "null"},
        {"'\x01\"\\'", "\"\\u0001\\\"\\\\\""},
        {"'\\xAB\\x00'::BLOB", "\"ab00\""},
        {"DATE '2024-02-29'", "\"2024-02-29\""},
        {"DATE '1969-12-31'", "\"1969-12-31\""},
        {"TIME '23:59:59.5'", "\"23:59:59.500000\""},
        {"TIMESTAMP '2026-01-02 03:04:05'", "\"2026-01-02T03:04:05\""},
        {"TIMESTAMP '1969-12-31 23:59:59.999999'", "\"1969-12-31T23:59:59.999999\""},
        {"TIMESTAMPTZ '2026-01-02 03:04:05.123456+01'", "\"2026-01-02T02:04:05.123456Z\""},
        {"'infinity'::TIMESTAMPTZ", "\"infinity\""},
        {"TIMESTAMP_NS '2026-01-02 03:04:05.000000001'", "\"2026-01-02T03:04:05.000000001\""},
        {"interval '5 min'", "\"00:05:00\""},
        {"interval '14 months 1 day 2 seconds'", "\"1 year 2 months 1 day 00:00:02\""},
        {"interval '0 s'", "\"00:00:00\""},
        {"interval '1500 ms'", "\"00:00:01.5\""},
        {"union_value(k := 3)", "\"3\""},
        {"'12:00:00+02'::TIMETZ", "\"12:00:00+02\""},
        {"[1, NULL, 3]", "[1,null,3]"},
        {"[]::INT[]", "[]"},
        {"[[1],[2,3]]", "[[1],[2,3]]"},
        {"[1,2]::INT[2]", "[1,2]"},
        {"{'a': 1, 'b': [true]}", "{\"a\":1,\"b\":[true]}"},
        {"MAP {'k': 1.5, 'l': NULL}", "{\"k\":1.5,\"l\":null}"},
        {"'b'::ENUM ('a', 'b')", "\"b\""},
        {"uuid '550e8400-e29b-41d4-a716-446655440000'", "\"550e8400-e29b-41d4-a716-446655440000\""},
    };
    struct sql_fixture *f = *state;
    char sql[256], expected[256];

    sql_open(f, false);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(sql, sizeof sql, "select %s as v", cases[i].sql);
        snprintf(expected, sizeof expected, "{\"v\":%s}\n", cases[i].json);
        sql_gives(f, PB_FORMAT_NDJSON, sql, expected);
    }
    /* What is not common comes as the engine writes it, under its own type. */
    sql_gives(f, PB_FORMAT_ROWS,
              "select 'x' as a, '101'::BIT as bits, [interval '1 day', null] as b, "
              "{'m': uuid '550e8400-e29b-41d4-a716-446655440000', 'n': 1.50::DECIMAL(5,2)} as c",
              "{\"columns\":[{\"name\":\"a\",\"type\":\"VARCHAR\"},{\"name\":\"bits\",\"type\":"
              "\"BIT\"},{\"name\":\"b\",\"type\":\"INTERVAL[]\"},{\"name\":\"c\",\"type\":"
              "\"STRUCT(m UUID, n DECIMAL)\"}]}\n"
              "[\"x\",\"101\",[\"1 day\",null],"
              "{\"m\":\"550e8400-e29b-41d4-a716-446655440000\",\"n\":1.50}]\n");
}

static void what_seeds_write_runs(void **state)
{
    struct sql_fixture *f = *state;

    sql_open(f, false);
    sql_gives(f, PB_FORMAT_NDJSON,
              "select now() - 60 = now() - interval '1 min' as a, hour(timestamptz "
              "'2026-01-02 03:04:05+00') as h, date '2026-01-02' - date '2026-01-01' as d, 5 - 3 "
              "as i, now() - now() as z, timestamp '2026-01-01 00:01:00' - 60 as t",
              "{\"a\":true,\"h\":3,\"d\":1,\"i\":2,\"z\":\"00:00:00\",\"t\":"
              "\"2026-01-01T00:00:00\"}\n");
    sql_gives(f, PB_FORMAT_NDJSON,
              "SELECT name, value FROM information_schema.df_settings WHERE name LIKE "
              "'%query.timeout'",
              "{\"name\":\"probing.query.timeout\",\"value\":\"60\"}\n");
    sql_gives(f, PB_FORMAT_NDJSON, "SELECT src_rank, dst_rank, avg(latency_ms) FROM comm_metrics",
              "");
    assert_string_equal(f->done.notices.data, "no GROUP BY: grouped by src_rank, dst_rank\n");
    sql_gives(f, PB_FORMAT_NDJSON,
              "SELECT hour(timestamp), avg(memory_mb) FROM memory_usage GROUP BY hour(timestamp)",
              "");
    sql_gives(f, PB_FORMAT_NDJSON,
              "SELECT avg(gpu_util) as a FROM gpu_metrics WHERE timestamp > now() - 60",
              "{\"a\":null}\n");
    sql_gives(f, PB_FORMAT_NDJSON, "select count(*) as n from system.cpu", "{\"n\":0}\n");
}

static void settings_are_read_and_set(void **state)
{
    struct sql_fixture *f = *state;

    sql_open(f, false);
    sql_gives(f, PB_FORMAT_NDJSON, "SET probing.query.timeout = 30; show probing.query.timeout",
              "{\"name\":\"probing.query.timeout\",\"value\":\"30\"}\n");
    sql_gives(f, PB_FORMAT_CSV, "set stacks.native to 'on'; show stacks.native",
              "\nname,value\nprobing.stacks.native,on\n");
    sql_fails(f, "set agent.collect = off",
              "agent.collect is a setting of processes: give a target", 20);
    sql_fails(f, "select 1; set query.timeot = 3",
              "unknown setting 'query.timeot'. Did you mean 'query.timeout'?", 14);
    sql_fails(f, "set memory_limit = '1TB'", "unknown setting 'memory_limit'", 4);
    sql_fails(f, "set query.timeout", "SET query.timeout: no value", 4);
    assert_int_equal(sql_run(f, PB_FORMAT_JSON, "set query.timeout = soon"), -1);
}

static void tables_describe_themselves(void **state)
{
    struct sql_fixture *f = *state;

    sql_open(f, false);
    assert_int_equal(sql_run(f, PB_FORMAT_NDJSON, "SHOW TABLES"), 0);
    assert_non_null(strstr(f->out.data, "{\"name\":\"python.memory\",\"doc\":\"memory of "));
    assert_non_null(strstr(f->out.data, "{\"name\":\"memory_usage\",\"doc\":\"memory of "));
    assert_int_equal(sql_run(f, PB_FORMAT_NDJSON, "describe python.memory"), 0);
    assert_non_null(strstr(f->out.data, "{\"column_name\":\"rss_mb\",\"column_type\":\"DOUBLE\","
                                        "\"unit\":\"MB\",\"doc\":\"resident memory\"}\n"));
    sql_gives(f, PB_FORMAT_NDJSON,
              "select comment from duckdb_columns() where schema_name = 'python' and table_name = "
              "'memory' and column_name = 'rss_mb'",
              "{\"comment\":\"resident memory\"}\n");
}

/* The words in a view's file say what the view really has. */
static void views_are_as_their_files_say(void **state)
{
    static const char *const types[] = {[PB_TIME] = "TIMESTAMP WITH TIME ZONE",
                                        [PB_INT] = "BIGINT",
                                        [PB_REAL] = "DOUBLE",
                                        [PB_BOOL] = "BOOLEAN",
                                        [PB_NAME] = "VARCHAR",
                                        [PB_TEXT] = "VARCHAR"};
    struct sql_fixture *f = *state;
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_sql_table *tables;
    struct pb_buf expected = PB_BUF_INIT;
    size_t n, seen = 0;
    char sql[128];

    sql_open(f, false);
    assert_int_equal(sql_run(f, PB_FORMAT_NDJSON, "SHOW TABLES"), 0);
    n = pb_sql_tables(f->node->sql, &a, &tables);
    for (size_t i = 0; i < n; i++) {
        pb_buf_clear(&expected);
        for (size_t k = 0; k < tables[i].ncolumns; k++) {
            pb_buf_printf(&expected, "%s,%s\n", tables[i].columns[k].name,
                          types[tables[i].columns[k].type]);
            assert_true(*tables[i].columns[k].doc);
        }
        snprintf(sql, sizeof sql,
                 "select column_name, column_type from (describe select * from %s)",
                 tables[i].name);
        assert_int_equal(sql_run(f, PB_FORMAT_CSV, sql), 0);
        assert_string_equal(f->out.data,
                            pb_arena_printf(&a, "column_name,column_type\n%s", expected.data));
        seen += strcmp(tables[i].source, "view") == 0;
    }
    assert_true(seen >= 5);
    pb_buf_finish(&expected);
    pb_arena_finish(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SQL_TEST(every_format),
        SQL_TEST(every_kind_of_value),
        SQL_TEST(what_seeds_write_runs),
        SQL_TEST(settings_are_read_and_set),
        SQL_TEST(tables_describe_themselves),
        SQL_TEST(views_are_as_their_files_say),
    };

    return RUN_TESTS(tests);
}
