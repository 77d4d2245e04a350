#include "pb_test.h"

#include <stdio.h>

#include "cli/settings/yaml.h"
#include "host/text/buf.h"

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
    check("---\na: 1\r\nb:  two words \n...\n", "2 a=1\n3 b=two words\n");
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

static void flow_and_lists(void **state)
{
    (void)state;
    check("a: {b: 1, c: {d: 2}}\n", "1 a.b=1\n1 a.c.d=2\n");
    check("a:\n  - b: 1\n  - c: 2\n    d: 3\n", "2 a.b=1\n3 a.c=2\n4 a.d=3\n");
    check("[{a: 1}, {b: 2}]", "1 a=1\n1 b=2\n");
    check("a: !!int 5\nb: |\n  two\n  lines\n", "1 a=5\n2 b=two\nlines\n\n");
}

static void references(void **state)
{
    (void)state;
    check("a: &v 5\nb: *v\n", "1 a=5\n1 b=5\n");
    check("a: &m {x: 1, y: 2}\nb: *m\n", "1 a.x=1\n1 a.y=2\n1 b.x=1\n1 b.y=2\n");
    check("a: &m {x: 1, y: 2}\nb: {<<: *m, y: 3}\n", "1 a.x=1\n1 a.y=2\n2 b.y=3\n1 b.x=1\n");
    check("a: &m {x: 1}\nb: {<<: [*m, {z: 4}]}\n", "1 a.x=1\n1 b.x=1\n2 b.z=4\n");
    check_error("a: *nothing\n", "line 1: found undefined alias");
    check_error("a: &a [*a]\n", "line 1: too many levels");
    check_error("a: &a {b: *a}\n", "line 1: too many levels");
}

/* Six lists of ten references each to the one before: a million entries if written out. */
static void bombs(void **state)
{
    char text[2048] = "a0: &a0 []\n", long_value[3 * 1000 + 20];
    struct pb_buf many = PB_BUF_INIT;

    (void)state;
    for (int i = 1; i < 7; i++) {
        size_t at = strlen(text);

        at += (size_t)snprintf(text + at, sizeof text - at, "a%d: &a%d [", i, i);
        for (int k = 0; k < 10; k++)
            at += (size_t)snprintf(text + at, sizeof text - at, "*a%d%s", i - 1, k < 9 ? ", " : "");
        snprintf(text + at, sizeof text - at, "]\n");
    }
    check_error(text, "line 1: too many references");
    memset(long_value, 'x', 3000);
    long_value[3000] = '\0';
    pb_buf_printf(&many, "a: &a %s\n", long_value);
    for (int i = 0; i < 900; i++)
        pb_buf_printf(&many, "k%d: *a\n", i);
    check_error(many.data, "line 1: too many references");
    pb_buf_finish(&many);
}

static void mistakes(void **state)
{
    (void)state;
    check_error("a: 1\na: 2\n", "line 2: 'a' stands in line 1 already");
    check_error("a:\n  b: 1\na.b: 2\n", "line 3: 'a.b' stands in line 2 already");
    check_error("a:\n", "line 1: 'a' has no value");
    check_error("a: ~\n", "line 1: 'a' has no value");
    check_error("a: {}\n", "line 1: 'a' has no value");
    check_error("a:\nb: 1\n", "line 1: 'a' has no value");
    check_error("a: 1\n  b: 2\n", "line 2: mapping values are not allowed in this context");
    check_error("a:\n    b: 1\n  c: 2\n",
                "line 3: did not find expected key while parsing a block mapping");
    check_error("a:\n\tb: 1\n", "line 2: a tab cannot indent");
    check_error("- a\n", "line 1: expected 'key: value'");
    check_error("a:\n-\n", "line 2: one value is wanted here, not a list");
    check_error("a: [1, 2]\n", "line 1: one value is wanted here, not a list");
    check_error("words\n", "line 1: expected 'key: value'");
    check_error("a:1\n", "line 1: expected 'key: value'");
    check_error("'': 1\n", "line 1: expected 'key: value'");
    check_error("? [a]\n: 1\n", "line 1: a key must be a word");
    check_error("a: b: c\n", "line 1: mapping values are not allowed in this context");
    check_error("a: \"open\n",
                "line 2: found unexpected end of stream while scanning a quoted scalar");
    check_error("a: \"\\q\"\n",
                "line 1: found unknown escape character while parsing a quoted scalar");
    check_error("a: 1\n---\nb: 1\n", "line 3: a second document");
    check_error("a: !secret x\n", "line 1: unknown tag '!secret'");
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
    assert_string_equal(err.msg, "byte 3: control characters are not allowed");
    check_error("a: \"\\0\"\n", "line 1: not text");
    check_error("a: \x80\n", "byte 3: invalid leading UTF-8 octet");
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
        cmocka_unit_test(flow_and_lists),
        cmocka_unit_test(references),
        cmocka_unit_test(bombs),
        cmocka_unit_test(mistakes),
        cmocka_unit_test(damaged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
