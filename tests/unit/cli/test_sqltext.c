#include "pb_test.h"

#include "cli/sqltext.h"

static void looks(void **state)
{
    static const char *const yes[] = {
        "SELECT 1", "select*from t", "  \n SELECT 1", "WITH a AS (SELECT 1) SELECT * FROM a",
        "show tables", "DESCRIBE python.memory", "explain select 1", "values (1)",
        "SET probing.eval.timeout = 3", "from python.memory", "-- why\nSELECT 1",
        "/* why */ SELECT 1", "(select 1)", "select(1)", "select'x'",
    };
    static const char *const no[] = {
        "", "select", "from", "42", "train.py", "from.py", "select-model.py", "selection of it",
        "query", "set;", "host:8080", "show", "python train.py", "selects 1", "--", "/* select 1",
    };

    (void)state;
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        if (!pb_sqltext_looks(yes[i]))
            fail_msg("not seen as SQL: %s", yes[i]);
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        if (pb_sqltext_looks(no[i]))
            fail_msg("seen as SQL: %s", no[i]);
}

static void check(const char *sql, long at, size_t width, const char *expected)
{
    struct pb_arena a = PB_ARENA_INIT;
    const char *text = pb_sqltext_caret(&a, sql, at, width);

    if (expected)
        assert_string_equal(text, expected);
    else
        assert_null(text);
    pb_arena_finish(&a);
}

static void carets(void **state)
{
    (void)state;
    check("SELECT modul FROM t", 7, 0, "  SELECT modul FROM t\n"
                                       "         ^\n");
    check("SELECT a,\n  b\nFROM t", 12, 0, "    b\n"
                                          "    ^\n");
    check("SELECT\n", 7, 0, "  \n  ^\n"); /* the end of the text */
    check("\tSELECT x", 8, 0, "  \\tSELECT x\n"
                              "           ^\n"); /* a tab takes two columns here */
    check("SELECT '日本', x", 17, 0, "  SELECT '日本', x\n"
                                     "                 ^\n");
    check("SELECT 1", -1, 0, NULL);
    check("SELECT 1", 9, 0, NULL);
}

static void long_lines(void **state)
{
    struct pb_arena a = PB_ARENA_INIT;
    const char *text;

    (void)state;
    text = pb_sqltext_caret(&a, "SELECT aaaaaaaaaa, bbbbbbbbbb, cccccccccc, d FROM ttttttttttttt",
                            43, 34);
    assert_string_equal(text, "  …b, cccccccccc, d FROM tttttt…\n"
                              "                  ^\n");
    check("SELECT x, aaaaaaaaaa, bbbbbbbbbb, cccccccccc", 7, 24, "  SELECT x, aaaaaaaaa…\n"
                                                               "         ^\n");
    pb_arena_finish(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(looks),
        cmocka_unit_test(carets),
        cmocka_unit_test(long_lines),
    };

    return RUN_TESTS(tests);
}
