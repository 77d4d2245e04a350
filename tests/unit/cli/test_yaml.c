#include "pb_test.h"

#include "cli/yaml.h"

/* Parses and writes the result as "key=value" lines with the line number in front. */
static void check(const char *text, const char *expected)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_err err = {0};
    struct pb_yaml y;
    const char *out = "";

    assert_int_equal(pb_yaml_parse(&y, &a, text, strlen(text), &err), 0);
    for (size_t i = 0; i < y.n; i++)
        out = pb_arena_printf(&a, "%s%d %s=%s\n", out, y.v[i].line, y.v[i].key, y.v[i].value);
    assert_string_equal(out, expected);
    pb_arena_finish(&a);
}

static void check_error(const char *text, const char *message)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_err err = {0};
    struct pb_yaml y;

    assert_int_equal(pb_yaml_parse(&y, &a, text, strlen(text), &err), -1);
    assert_int_equal(err.code, PB_USAGE);
    assert_string_equal(err.msg, message);
    pb_arena_finish(&a);
}

static void mappings(void **state)
{
    (void)state;
    check("", "");
    check("# nothing\n\n   \n", "");
    check("a: 1", "1 a=1\n");
    check("---\na: 1\r\nb:  two words \n...\nrest", "2 a=1\n3 b=two words\n");
    check("a:\n  b:\n    c: 1\n    d: 2\n  e: 3\nf: 4\n", "3 a.b.c=1\n4 a.b.d=2\n5 a.e=3\n6 f=4\n");
    check("a:   # outer\n    b: 1\n    # odd place\n\n    c: 2\n", "2 a.b=1\n5 a.c=2\n");
    check("a.b.c: x\n\"q k\" : y\n", "1 a.b.c=x\n2 q k=y\n");
}

static void scalars(void **state)
{
    (void)state;
    check("a: 5 # seconds\nb: x#y\n", "1 a=5\n2 b=x#y\n");
    check("a: \"x # \\\"y\\\" \\\\\" # c\nb: 'it''s'\n", "1 a=x # \"y\" \\\n2 b=it's\n");
    check("a: ''\nb: http://x\n", "1 a=\n2 b=http://x\n");
}

static void mistakes(void **state)
{
    (void)state;
    check_error("a: 1\na: 2\n", "line 2: 'a' stands in line 1 already");
    check_error("a:\n  b: 1\na.b: 2\n", "line 3: 'a.b' stands in line 2 already");
    check_error("a:\n", "line 1: 'a' has no value");
    check_error("a:\nb: 1\n", "line 1: 'a' has no value");
    check_error("a: 1\n  b: 2\n", "line 2: the indentation fits no line above");
    check_error("a:\n    b: 1\n  c: 2\n", "line 3: the indentation fits no line above");
    check_error("a:\n\tb: 1\n", "line 2: a tab cannot indent");
    check_error("- a\n", "line 1: lists are not understood");
    check_error("a:\n-\n", "line 2: lists are not understood");
    check_error("words\n", "line 1: expected 'key: value'");
    check_error(": 1\n", "line 1: expected 'key: value'");
    check_error("a:1\n", "line 1: expected 'key: value'");
    check_error("a: b: c\n", "line 1: two values on one line");
    check_error("a: \"open\n", "line 1: a text has no closing quote");
    check_error("a: 'x' y\n", "line 1: something stands behind a text in quotes");
    check_error("a: \"\\q\"\n", "line 1: unknown escape in a text");
    check_error("a: 1\n---\n", "line 2: a second document");
    check_error("a: [1]\n",
                "line 1: only plain values are understood, no lists, no {}, no references");
    check_error("a:\n b:\n  c:\n   d:\n    e:\n     f:\n      g:\n       h:\n        i: 1\n",
                "line 9: too many levels");
}

static void damaged(void **state)
{
    static char text[PB_YAML_MAX + 1];
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_err err = {0};
    struct pb_yaml y;

    (void)state;
    assert_int_equal(pb_yaml_parse(&y, &a, "a: \0b", 5, &err), -1);
    assert_string_equal(err.msg, "line 1: not text");
    memset(text, '\n', sizeof text);
    err = (struct pb_err){0};
    assert_int_equal(pb_yaml_parse(&y, &a, text, sizeof text, &err), -1);
    assert_string_equal(err.msg, "longer than 64 KB");
    pb_arena_finish(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mappings),
        cmocka_unit_test(scalars),
        cmocka_unit_test(mistakes),
        cmocka_unit_test(damaged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
