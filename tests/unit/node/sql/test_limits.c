/* What SQL may not do, and the errors it gives: one line, the place, the nearest names. */
#include "node/sql/fixture.h"

#include <dirent.h>
#include <pthread.h>

#include "base/clock.h"
#include "node/sql/internal.h"

static void errors_name_the_place_and_the_nearest(void **state)
{
    struct sql_fixture *f = *state;

    sql_open(f, false);
    sql_fails(f, "SELECT modul FROM python.torch_trace",
              "no column 'modul' in python.torch_trace; nearest: module, module_type", 7);
    assert_string_equal(f->err.nearest, "module, module_type");
    sql_fails(f, "select 1; select t.modul from python.torch_trace t",
              "no column 'modul' in python.torch_trace; nearest: module, module_type", 17);
    assert_int_equal(f->err.statement, 1);
    sql_fails(f, "select * from python.memry", "no table 'python.memry'; nearest: python.memory",
              14);
    sql_fails(f, "select * from memory", "no table 'memory'; nearest: python.memory", 14);
    sql_fails(f, "select * from pythn.memory", "no table 'pythn.memory'; nearest: python.memory",
              14);
    sql_fails(f, "select pid from system.cpuu", "no table 'system.cpuu'; nearest: system.cpu", 16);
    sql_fails(f, "select pidd from system.cpu", "no column 'pidd' in system.cpu; nearest: pid", 7);
    sql_fails(f, "select x.y from system.cpu s join system.io x using (pid)", "no column 'y'", 7);
    sql_fails(f, "select floo(1)", "no function 'floo'; nearest: floor", 7);
    sql_fails(f, "select 1 +", "syntax error at end of input", 10);
    sql_fails(f, "select 'abc", "unterminated quoted string at or near \"'abc\"", 7);
    sql_fails(f, "selec 1", "syntax error at or near \"selec\"", 0);
    sql_fails(f, " -- nothing\n", "no statement", -1);
    sql_fails(f, "select ?", "the statement has parameters that nobody gave", -1);
    sql_fails(f, "select 'x'::INT", "Could not convert string 'x' to INT32", 10);
    sql_fails(f, "select x.pid from system.cpu", "no table 'x' in this statement's FROM", 7);
    sql_fails(f, "select 'a' + 1",
              "Could not choose a best candidate function for the function call "
              "\"+(STRING_LITERAL, INTEGER_LITERAL)\". In order to select one, please add explicit "
              "type casts", 11);
    sql_fails(f, "select repeat('a', 2.5)",
              "Macro repeat() does not support the supplied arguments. You might need to add "
              "explicit type casts", 7);
    sql_fails(f, "select 1 limit 1, 2",
              "syntax error: LIMIT takes one number; the rows to skip are its OFFSET", -1);
}

static void nothing_is_changed_and_no_file_is_reached(void **state)
{
    static const char *const refused[] = {
        "create table x (a int)",
        "create view x as select 1",
        "create or replace macro m() as 1",
        "insert into x values (1)",
        "update x set a = 1",
        "delete from x",
        "drop view python.memory",
        "alter view python.memory rename to x",
        "copy (select 1) to '/tmp/sql-test-leak'",
        "copy x from '/etc/passwd'",
        "export database '/tmp/x'",
        "import database '/tmp/x'",
        "attach '/tmp/x.db'",
        "detach memory",
        "use python",
        "install httpfs",
        "load httpfs",
        "pragma database_list",
        "pragma enable_profiling",
        "call enable_logging()",
        "checkpoint",
        "vacuum",
        "begin",
        "commit",
        "prepare p as select 1",
        "execute p",
        "reset threads",
        "set threads = 8",
        "set variable scope = NULL",
        "set global memory_limit = '1TB'",
        "explain analyze copy (select 1) to '/tmp/sql-test-leak'",
        "explain (format json) create table x (a int)",
        "comment on view python.memory is 'x'",
        "select * from read_csv('/etc/passwd')",
        "select * from read_text('/etc/passwd')",
        "select * from '/etc/passwd'",
        "select * from '/etc/hosts.csv'",
        "select * from \"/etc/passwd\"",
        "select * from glob('/*')",
        "select * from parquet_scan('/x')",
        "select * from enable_logging()",
        "select * from \"enable_profiling\"()",
        "select * from query('select 1')",
        "select * from probing_ring('python.memory')",
        "select getenv('HOME')",
        "select * from duckdb_secrets()",
        "with x as (select 1) insert into y select * from x",
        "pivot (select 1 as a, 2 as b) on a using sum(b)",
        "from 'x.parquet'",
        "select 1; drop view python.memory",
    };
    struct sql_fixture *f = *state;

    sql_open(f, false);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        if (sql_run(f, PB_FORMAT_JSON, refused[i]) == 0)
            fail_msg("%s: was let through", refused[i]);
        assert_null(strchr(f->err.err.msg, '\n'));
        assert_true(*f->err.err.msg);
    }
    assert_int_equal(access("/tmp/sql-test-leak", F_OK), -1);
    sql_gives(f, PB_FORMAT_NDJSON, "select count(*) as n from python.memory", "{\"n\":0}\n");
}

/* Takes bytes, and stops the engine as one of its own threads does when another has failed. */
static int stop_engine(const void *data, size_t len, void *arg)
{
    struct sql_fixture *f = arg;
    struct pb_sql *s = f->node->sql;

    pb_buf_add(&f->out, data, len);
    pthread_mutex_lock(&s->lock);
    for (struct pb_sql_conn *c = s->conns; c; c = c->next)
        if (c->busy)
            s->duck->interrupt(c->duck);
    pthread_mutex_unlock(&s->lock);
    return 0;
}

static void the_reason_is_told_when_only_the_stop_is_kept(void **state)
{
    static const struct pb_scope all = {.all = true};
    struct sql_fixture *f = *state;
    struct pb_query q = {.scope = &all, .format = PB_FORMAT_ROWS, .sink = stop_engine, .arg = f};

    sql_open(f, false);
    q.sql = "select case when range < 900000 then range else error('late') end from range(1000000)";
    assert_int_equal(pb_sql_run(f->node->sql, &q, &f->done, &f->err), -1);
    assert_string_equal(f->err.err.msg, "late");
    q.sql = "select range from range(1000000)";
    assert_int_equal(pb_sql_run(f->node->sql, &q, &f->done, &f->err), -1);
    assert_string_equal(f->err.err.msg, "the engine stopped it, and not when it was run again");
}

/* What stands in a folder. */
static size_t count_files(const char *path)
{
    DIR *dir = opendir(path);
    size_t n = 0;

    for (struct dirent *e; dir && (e = readdir(dir));)
        n += e->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return n;
}

static void memory_is_limited_and_nothing_spills(void **state)
{
    struct sql_fixture *f = *state;
    char here[256];

    setenv("PROBING_QUERY_MEMORY_MB", "64", 1);
    sql_open(f, false);
    unsetenv("PROBING_QUERY_MEMORY_MB");
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(f->root), 0);
    sql_fails(f, "select count(*) from (select range::varchar r from range(20000000) group by r)",
              "out of memory: the query needs more than the setting query.memory_mb", -1);
    assert_int_equal(count_files(f->root), 2); /* stores and data, as before */
    assert_int_equal(chdir(here), 0);
    sql_gives(f, PB_FORMAT_NDJSON, "select 1 as a", "{\"a\":1}\n");
}

static const char endless[] =
    "select count(*) from range(3000000000) a, range(1000) b where (a.range * b.range) % 7 = 3";

static void time_is_limited(void **state)
{
    struct sql_fixture *f = *state;
    uint64_t start;

    sql_open(f, false);
    sql_gives(f, PB_FORMAT_NDJSON, "select 1 as a", "{\"a\":1}\n");
    f->timeout_ms = 200;
    start = pb_clock_ns();
    sql_fails(f, endless, "timed out after 0.2 s; --timeout gives it more", -1);
    assert_int_equal(f->err.err.code, PB_TIMEOUT);
    assert_true(pb_clock_ns() - start < UINT64_C(20000000000));
    f->timeout_ms = 0;
    sql_gives(f, PB_FORMAT_NDJSON, "select 1 as a", "{\"a\":1}\n");
}

/* Whatever the engine is at when the time is up, statements of our own included. */
static void that_time_is_up_is_always_said(void **state)
{
    struct sql_fixture *f = *state;

    sql_open(f, false);
    for (int i = 0; i < 300; i++) {
        f->timeout_ms = 1 + i % 4;
        if (sql_run(f, PB_FORMAT_JSON, "select count(*) from python.memory, system.cpu") < 0 &&
            f->err.err.code != PB_TIMEOUT)
            fail_msg("%s", f->err.err.msg);
    }
    f->timeout_ms = 0;
}

static void what_makes_too_much_is_refused_at_once(void **state)
{
    static const char *const long_ones[] = {
        "length(repeat('x', 2000000000))",
        "sum(length(repeat('x', 100000 + i::int)))",
        "length(lpad('x', 1000000000, 'ab'))",
        "length(rpad('x', 1000000000, 'ab'))",
        "len(range(300000000))",
        "len(range(0, 300000000))",
        "len(generate_series(1, 300000000, 1))",
        "len(range(timestamp '2000-01-01', timestamp '2030-01-01', interval 1 second))",
        "len(list_resize([1], 200000000))",
        "len(repeat([1, 2], 200000000))",
        "levenshtein(repeat('a', 100000), repeat('b', 100000))",
        "jaro_winkler_similarity(repeat('a', 100000), repeat('b', 100000))",
        "length(printf('%1000000000d', i))",
        "length(printf('%d %s %-0.1000000000f', i, 'x', 1.5))",
        "length(printf('%' || '1000000000' || 'd', i))",
        "length(printf('%*d', 1000000000, i))",
        "length(format('{:1000000000d}', i))",
        "length(format('{} {{ }} {:>{}}', i, i, 1000000000))",
        "length(replace(repeat('x', 1000), 'x', repeat('y', 1000)))",
        "length(bitstring('1', 2000000000))",
    };
    struct sql_fixture *f = *state;
    char sql[256];

    sql_open(f, false);
    for (size_t i = 0; i < sizeof long_ones / sizeof *long_ones; i++) {
        snprintf(sql, sizeof sql, "select %s from range(1000) r(i)", long_ones[i]);
        sql_fails(f, sql,
                  "too long: functions make up to 16 million characters or 1 million elements at a "
                  "time",
                  -1);
    }
    sql_gives(f, PB_FORMAT_CSV,
              "select repeat('ab', 2), repeat([1], 2), repeat('\\xAA'::BLOB, 2), "
              "lpad('7', 3, '0'), "
              "rpad('7', 3, 'ab'), range(2), range(1, 3), range(5, 1, -2), generate_series(1, 2), "
              "list_resize([1], 2, 0), levenshtein('kitten', 'sitting'), repeat('x', NULL)",
              "\"repeat('ab', 2)\",\"repeat([1], 2)\",\"repeat('\\xAA'::BLOB, 2)\","
              "\"lpad('7', 3, '0')\",\"rpad('7', 3, 'ab')\",range(2),\"range(1, 3)\","
              "\"range(5, 1, -2)\",\"generate_series(1, 2)\",\"list_resize([1], 2, 0)\","
              "\"levenshtein('kitten', 'sitting')\",\"repeat('x', NULL)\"\n"
              "abab,\"[1,1]\",aaaa,007,7ab,\"[0,1]\",\"[1,2]\",\"[5,3]\",\"[1,2]\",\"[1,0]\","
              "3,\n");
    sql_gives(f, PB_FORMAT_NDJSON,
              "select printf('%5.2f%% of %s in 20250101', 1.5, 'x') as p, "
              "format('{:>4}|{}', 7, 'a') as f, "
              "replace('banana', 'a', 'oo') as r, bitstring('11', 4)::text as b, "
              "printf('x') as x, printf(NULL, 1) as n",
              "{\"p\":\" 1.50% of x in 20250101\",\"f\":\"   7|a\",\"r\":\"boonoonoo\","
              "\"b\":\"0011\",\"x\":\"x\",\"n\":null}\n");
    sql_gives(f, PB_FORMAT_NDJSON,
              "select len(range(timestamptz '2026-01-01', timestamptz '2026-01-02', "
              "interval 1 hour)) as n",
              "{\"n\":24}\n");
}

static bool hear(const struct pb_err *err, void *arg)
{
    *(uint64_t *)arg = pb_clock_ns();
    return strncmp(err->msg, "timed out after 0.1 s; the engine", 33) == 0;
}

static int count_bytes(const void *data, size_t len, void *arg)
{
    (void)data;
    (void)arg;
    return len > 0 ? 0 : -1;
}

/* Inside one function the engine cannot be interrupted: whoever asked is told all the same. */
static void time_is_up_inside_a_function_as_well(void **state)
{
    static const struct pb_scope all = {.all = true};
    struct sql_fixture *f = *state;
    uint64_t start = 0, heard = 0;
    char sql[128];
    struct pb_query q = {
        .sql = sql, .scope = &all, .format = PB_FORMAT_JSON, .timeout_ms = 100,
        .sink = count_bytes, .late = hear, .arg = &heard,
    };

    sql_open(f, false);
    sql_gives(f, PB_FORMAT_NDJSON, "select 1 as a", "{\"a\":1}\n");
    /* A processor may be fast enough for one length; each step takes four times as long. */
    for (int length = 150; !heard && length < 1000; length += length / 2) {
        /* Each % with a _ behind it multiplies the ways to look at. */
        snprintf(sql, sizeof sql,
                 "select count(*) from range(1) where lpad('', %d + range::int, 'a') "
                 "like '%%a_%%a_%%a_%%a_%%b'", length);
        start = pb_clock_ns();
        assert_int_equal(pb_sql_run(f->node->sql, &q, &f->done, &f->err), -1);
        assert_int_equal(f->err.err.code, PB_TIMEOUT);
    }
    assert_true(heard > start + UINT64_C(1000000000));
    assert_true(heard < start + UINT64_C(20000000000));
}

struct cancelling {
    _Atomic bool flag;
};

static void *cancel_soon(void *arg)
{
    struct cancelling *c = arg;

    usleep(100000);
    atomic_store(&c->flag, true);
    return NULL;
}

static void a_query_can_be_cancelled(void **state)
{
    struct sql_fixture *f = *state;
    struct cancelling c = {false};
    pthread_t thread;

    sql_open(f, false);
    sql_gives(f, PB_FORMAT_NDJSON, "select 1 as a", "{\"a\":1}\n");
    f->cancelled = &c.flag;
    assert_int_equal(pthread_create(&thread, NULL, cancel_soon, &c), 0);
    sql_fails(f, endless, "cancelled", -1);
    pthread_join(thread, NULL);
    f->cancelled = NULL;
}

struct asking {
    struct pb_node *node;
    int failures;
};

static int drop_bytes(const void *data, size_t len, void *arg)
{
    (void)data;
    (void)len;
    (void)arg;
    return 0;
}

/* Views come and go, settings change and queries run, from several threads. */
static void *ask_often(void *arg)
{
    static const char *const sql[] = {
        "select count(*) from python.memory",
        "describe system.cpu",
        "show tables",
        "select * from comm_metrics",
        "select nope from python.spans",
        "set query.timeout = 50",
    };
    static const struct pb_scope all = {.all = true};
    struct asking *a = arg;

    for (int i = 0; i < 60; i++) {
        struct pb_query q = {
            .sql = sql[i % 6], .scope = &all, .format = PB_FORMAT_JSON, .sink = drop_bytes};
        struct pb_sql_done done;
        struct pb_sql_error err;
        int rc = pb_sql_run(a->node->sql, &q, &done, &err);

        a->failures += (rc < 0) != (i % 6 == 4);
        pb_buf_finish(&done.notices);
    }
    return NULL;
}

static void several_ask_at_once(void **state)
{
    struct sql_fixture *f = *state;
    struct asking asking[4];
    pthread_t threads[4];

    sql_open(f, false);
    for (int i = 0; i < 4; i++) {
        asking[i] = (struct asking){f->node, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, ask_often, &asking[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(asking[i].failures, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SQL_TEST(errors_name_the_place_and_the_nearest),
        SQL_TEST(nothing_is_changed_and_no_file_is_reached),
        SQL_TEST(memory_is_limited_and_nothing_spills),
        SQL_TEST(time_is_limited),
        SQL_TEST(that_time_is_up_is_always_said),
        SQL_TEST(the_reason_is_told_when_only_the_stop_is_kept),
        SQL_TEST(what_makes_too_much_is_refused_at_once),
        SQL_TEST(time_is_up_inside_a_function_as_well),
        SQL_TEST(a_query_can_be_cancelled),
        SQL_TEST(several_ask_at_once),
    };

    return RUN_TESTS(tests);
}
