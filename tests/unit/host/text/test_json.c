/* Reading JSON: what is taken, what it becomes, and what is refused with which place. */
#include "pb_test.h"

#include <stdlib.h>

#include "host/text/buf.h"
#include "host/text/json.h"
#include "host/text/json_write.h"

static struct pb_arena arena;

static int teardown(void **state)
{
    (void)state;
    pb_arena_finish(&arena);
    return 0;
}

static struct pb_json parse(const char *text)
{
    struct pb_err err = {0};
    struct pb_json v;

    if (pb_json_parse(&arena, text, strlen(text), &v, &err) < 0)
        fail_msg("%s: %s", text, err.msg);
    return v;
}

static void refused(const char *text, const char *why)
{
    struct pb_err err = {0};
    struct pb_json v;

    if (pb_json_parse(&arena, text, strlen(text), &v, &err) == 0)
        fail_msg("taken: %s", text);
    assert_string_equal(err.msg, why);
    assert_int_equal(err.code, PB_USAGE);
}

static void test_values(void **state)
{
    struct pb_json v = parse(" { \"a\" : [ 1 , -2.5e3, \"x\" ], \"b\":null, \"c\": true,\n"
                             "\"d\":{}, \"e\":[], \"a2\":\"\", \"c\":false } ");

    (void)state;
    assert_int_equal(v.type, PB_J_OBJECT);
    assert_int_equal(v.n, 7);
    assert_int_equal(pb_json_get(&v, "a")->n, 3);
    assert_int_equal(pb_json_get(&v, "a")->items[0].v.i, 1);
    assert_true(pb_json_get(&v, "a")->items[1].v.d == -2500.0);
    assert_string_equal(pb_json_get(&v, "a")->items[1].s, "-2.5e3");
    assert_int_equal(pb_json_get(&v, "b")->type, PB_J_NULL);
    assert_false(pb_json_flag(&v, "c", true)); /* the last one counts */
    assert_int_equal(pb_json_get(&v, "d")->n, 0);
    assert_string_equal(pb_json_str(&v, "a2", "?"), "");
    assert_null(pb_json_get(&v, "z"));
    assert_null(pb_json_get(pb_json_get(&v, "a"), "a"));
    assert_null(pb_json_get(NULL, "a"));
}

static void test_defaults(void **state)
{
    struct pb_json v = parse("{\"i\":7,\"d\":0.5,\"s\":\"t\",\"b\":true}");

    (void)state;
    assert_int_equal(pb_json_whole(&v, "i", -1), 7);
    assert_int_equal(pb_json_whole(&v, "s", -1), -1);
    assert_true(pb_json_number(&v, "i", 0) == 7.0);
    assert_true(pb_json_number(&v, "d", 0) == 0.5);
    assert_true(pb_json_number(&v, "b", 3) == 3);
    assert_string_equal(pb_json_str(&v, "i", "none"), "none");
    assert_true(pb_json_flag(&v, "b", false));
}

static void test_numbers(void **state)
{
    (void)state;
    assert_true(parse("9223372036854775807").v.i == INT64_MAX);
    assert_true(parse("-9223372036854775808").v.i == INT64_MIN);
    assert_int_equal(parse("9223372036854775808").type, PB_J_REAL);
    assert_true(parse("1e308").v.d == 1e308);
    assert_int_equal(parse("-0").type, PB_J_INT);
    refused("01", "JSON: something behind the value at byte 1");
    refused("1.", "JSON: a digit is missing at byte 2");
    refused("1e", "JSON: a digit is missing at byte 2");
    refused("-", "JSON: no value at byte 1");
    refused("+1", "JSON: no value at byte 0");
    refused(".5", "JSON: no value at byte 0");
    refused("NaN", "JSON: no value at byte 0");
}

static void test_strings(void **state)
{
    struct pb_json v = parse("\"a\\u00e9\\n\\\"\\\\\\/\\b\\f\\r\\t\\u20ac\\ud83d\\ude00\"");

    (void)state;
    assert_string_equal(v.s, "a\xc3\xa9\n\"\\/\b\f\r\t\xe2\x82\xac\xf0\x9f\x98\x80");
    assert_int_equal(v.len, strlen(v.s));
    /* Halves of characters stand for nothing. */
    assert_string_equal(parse("\"\\ud83dx\"").s, "\xef\xbf\xbdx");
    assert_string_equal(parse("\"\\ud83d\\u0041\"").s, "\xef\xbf\xbd" "A");
    assert_string_equal(parse("\"\\ude00\"").s, "\xef\xbf\xbd");
    v = parse("\"a\\u0000b\"");
    assert_int_equal(v.len, 3);
    assert_memory_equal(v.s, "a\0b", 4);
    refused("\"abc", "JSON: the text ends inside a string at byte 4");
    refused("\"a\nb\"", "JSON: control character in a string at byte 2");
    refused("\"\\x\"", "JSON: unknown escape at byte 2");
    refused("\"\\u12g4\"", "JSON: four hexadecimal digits are missing at byte 5");
    refused("\"\\", "JSON: unknown escape at byte 2");
    refused("[\"\xff\"]", "JSON: a string that is not UTF-8 at byte 1");
    refused("\"\xed\xa0\x80\"", "JSON: a string that is not UTF-8 at byte 0");
}

static void test_structure(void **state)
{
    (void)state;
    refused("", "JSON: the text ends where a value should be at byte 0");
    refused("{\"a\" 1}", "JSON: ':' is missing at byte 5");
    refused("{a:1}", "JSON: a key is missing at byte 1");
    refused("{\"a\":1,}", "JSON: a key is missing at byte 7");
    refused("[1 2]", "JSON: ',' or ']' is missing at byte 3");
    refused("[1,", "JSON: the text ends where a value should be at byte 3");
    refused("[1,]", "JSON: no value at byte 3");
    refused("{} {}", "JSON: something behind the value at byte 3");
    refused("tru", "JSON: no value at byte 0");
    refused("nul", "JSON: no value at byte 0");
}

static void test_bounds(void **state)
{
    char deep[2 * PB_JSON_DEPTH + 3] = {0};
    struct pb_err err = {0};
    struct pb_json v;
    size_t n = 2 * ((size_t)PB_JSON_VALUES + 8);
    char *many = malloc(n + 1);

    (void)state;
    memset(deep, '[', PB_JSON_DEPTH);
    memset(deep + PB_JSON_DEPTH, ']', PB_JSON_DEPTH);
    parse(deep);
    memset(deep, '[', PB_JSON_DEPTH + 1);
    memset(deep + PB_JSON_DEPTH + 1, ']', PB_JSON_DEPTH + 1);
    refused(deep, "JSON: nested too deeply at byte 64");
    many[0] = '[';
    for (size_t i = 1; i < n; i += 2)
        memcpy(many + i, "1,", 2);
    assert_int_equal(pb_json_parse(&arena, many, n, &v, &err), -1);
    assert_non_null(strstr(err.msg, "too many values"));
    free(many);
}

/* What buf.h writes reads back the same. */
static void test_round_trip(void **state)
{
    const char *text = "tab\t quote\" back\\ \x01 \xc3\xa9 \xf0\x9f\x98\x80 \x7f";
    struct pb_buf b = PB_BUF_INIT;
    struct pb_json v;

    (void)state;
    pb_buf_putc(&b, '{');
    pb_json_key(&b, "k");
    pb_json_string(&b, text);
    pb_json_key(&b, "n");
    pb_json_int(&b, INT64_MIN);
    pb_buf_putc(&b, '}');
    v = parse(b.data);
    assert_string_equal(pb_json_str(&v, "k", ""), text);
    assert_true(pb_json_whole(&v, "n", 0) == INT64_MIN);
    pb_buf_finish(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_values, teardown),
        cmocka_unit_test_teardown(test_defaults, teardown),
        cmocka_unit_test_teardown(test_numbers, teardown),
        cmocka_unit_test_teardown(test_strings, teardown),
        cmocka_unit_test_teardown(test_structure, teardown),
        cmocka_unit_test_teardown(test_bounds, teardown),
        cmocka_unit_test_teardown(test_round_trip, teardown),
    };

    return RUN_TESTS(tests);
}
