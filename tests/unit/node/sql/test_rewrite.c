/* SQL as text: statements, names, places that survive editing. */
#include "pb_test.h"

#include "node/sql/rewrite.h"
#include "node/sql/text/text.h"

static void expect_statements(const char *sql, const char *const *expected)
{
    size_t pos = 0, at, n;

    while ((n = pb_sql_statement(sql, strlen(sql), &pos, &at)) > 0) {
        assert_non_null(*expected);
        assert_int_equal(n, strlen(*expected));
        assert_memory_equal(sql + at, *expected, n);
        expected++;
    }
    assert_null(*expected);
}

static void statements_end_at_semicolons_that_are_not_text(void **state)
{
    (void)state;
    expect_statements(
        " select 1 ;; select ';' , \";\" ; -- ; \n select $$;$$ /* ; /* ; */ ; */ + 1",
        (const char *[]){"select 1", "select ';' , \";\"", "select $$;$$ /* ; /* ; */ ; */ + 1",
                         NULL});
    expect_statements("select E'\\';' ; select 'it''s;'",
                      (const char *[]){"select E'\\';'", "select 'it''s;'", NULL});
    expect_statements("-- nothing\n ; /* at all */", (const char *[]){NULL});
    /* What never ends is one statement. */
    expect_statements("select 'abc; def", (const char *[]){"select 'abc; def", NULL});
    expect_statements("select $a$ ; $b$", (const char *[]){"select $a$ ; $b$", NULL});
}

static void names_are_read_with_their_quotes(void **state)
{
    char name[64];

    (void)state;
    pb_sql_name_at("from python . \"Mem\"\"x\" m", 23, 5, name, sizeof name);
    assert_string_equal(name, "python.Mem\"x");
    pb_sql_name_at("'text'", 6, 0, name, sizeof name);
    assert_string_equal(name, "");
}

static void places_survive_editing(void **state)
{
    struct pb_sql_edited e = {0};

    (void)state;
    pb_buf_puts(&e.text, "abcdef");
    assert_true(pb_sql_insert(&e, 4, "YY"));
    assert_true(pb_sql_insert(&e, 1, "QQQ"));
    assert_string_equal(e.text.data, "aQQQbcdYYef");
    assert_int_equal(pb_sql_origin(&e, 0), 0);
    assert_int_equal(pb_sql_origin(&e, 2), 1); /* inside what was put in: where it stands */
    assert_int_equal(pb_sql_origin(&e, 4), 1);
    assert_int_equal(pb_sql_origin(&e, 6), 3);
    assert_int_equal(pb_sql_origin(&e, 9), 4);
    assert_int_equal(pb_sql_origin(&e, 10), 5);
    pb_sql_edited_finish(&e);
}

/* Blanks of Unicode are blanks; those inside of texts and names stay what they are. */
static void blanks_become_plain(void **state)
{
    char sql[] = "select\u00a0'a\u00a0b'\u3000\"c\u2028d\"\u2028, e\ufeff--\u00a0x\r+\u16801";

    (void)state;
    pb_sql_plain_blanks(sql, strlen(sql));
    assert_string_equal(sql, "select  'a\u00a0b'   \"c\u2028d\"   , e   --  x\r+   1");
}

static void windowed(const char *sql, const char *expected)
{
    struct pb_sql_edited e = {0};

    pb_buf_puts(&e.text, sql);
    pb_rewrite_windows(&e);
    assert_string_equal(e.text.data, expected);
    pb_sql_edited_finish(&e);
}

static void aggregates_over_everything_get_a_partition(void **state)
{
    (void)state;
    windowed("select a, max(b) over () - Min(b) OVER ( ) from t",
             "select a, max(b) over (PARTITION BY 1) - Min(b) OVER (PARTITION BY 1 ) from t");
    windowed("select count(*) filter (where f(x) in (1, 2)) over () from t",
             "select count(*) filter (where f(x) in (1, 2)) over (PARTITION BY 1) from t");
    windowed("select row_number() over (), lag(max(x)) over () from t",
             "select row_number() over (), lag(max(x)) over () from t");
    windowed("select sum(x) over (order by y), 'max(x) over ()', \"over\" () from t",
             "select sum(x) over (order by y), 'max(x) over ()', \"over\" () from t");
    windowed("select ) over () over (", "select ) over () over (");
}

static void grouped(const char *sql, const char *at, const char *expected, const char *by)
{
    struct pb_sql_edited e = {0};
    struct pb_buf names = PB_BUF_INIT;
    bool done;

    pb_buf_puts(&e.text, sql);
    done = pb_rewrite_group(&e, (size_t)(strstr(sql, at) - sql), &names);
    assert_int_equal(done, expected != NULL);
    if (done) {
        assert_string_equal(e.text.data, expected);
        assert_string_equal(names.data, by);
    }
    pb_buf_finish(&names);
    pb_sql_edited_finish(&e);
}

static void a_missing_group_by_is_put_in(void **state)
{
    (void)state;
    grouped("select a, b, avg(x) from t", "a,", "select a, b, avg(x) from t GROUP BY ALL ", "a, b");
    grouped("select hour(a) as h, count(*) from t where x order by 1 limit 2", "a)",
            "select hour(a) as h, count(*) from t where x  GROUP BY ALL order by 1 limit 2",
            "hour(a)");
    grouped("select * from (select a, max(b) from t) join u using (a)", "a, max",
            "select * from (select a, max(b) from t GROUP BY ALL ) join u using (a)", "a");
    grouped("select 1 union select a, sum(b) from t join u using (k) union select 2", "a, sum",
            "select 1 union select a, sum(b) from t join u using (k)  GROUP BY ALL union select 2",
            "a");
    grouped("select a, sum(b) from t group by c", "a,", NULL, NULL);
    grouped("select sum(b) from t order by k", "k", NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statements_end_at_semicolons_that_are_not_text),
        cmocka_unit_test(names_are_read_with_their_quotes),
        cmocka_unit_test(places_survive_editing),
        cmocka_unit_test(blanks_become_plain),
        cmocka_unit_test(aggregates_over_everything_get_a_partition),
        cmocka_unit_test(a_missing_group_by_is_put_in),
    };

    return RUN_TESTS(tests);
}
