#include "pb_test.h"

#include "host/text/buf.h"
#include "host/text/json_write.h"

static void adding(void **state)
{
    struct pb_buf b = PB_BUF_INIT;

    (void)state;
    pb_buf_puts(&b, "ab");
    pb_buf_putc(&b, 'c');
    pb_buf_add(&b, "d\0e", 3);
    pb_buf_printf(&b, "%05d", 42);
    assert_int_equal(b.len, 11);
    assert_memory_equal(b.data, "abcd\0e00042", 12);
    pb_buf_clear(&b);
    assert_string_equal(b.data, "");
    for (int i = 0; i < 100000; i++)
        pb_buf_putc(&b, 'x');
    assert_int_equal(strlen(b.data), 100000);
    pb_buf_finish(&b);
    pb_buf_finish(&b);
}

static void check_json(const char *in, const char *out)
{
    struct pb_buf b = PB_BUF_INIT;

    pb_json_string(&b, in);
    assert_string_equal(b.data, out);
    pb_buf_finish(&b);
}

static void json_strings(void **state)
{
    (void)state;
    check_json("", "\"\"");
    check_json("a\"b\\c", "\"a\\\"b\\\\c\"");
    check_json("a\nb\rc\td\x01\x1f\x7f", "\"a\\nb\\rc\\td\\u0001\\u001f\\u007f\"");
    check_json("日本 é 🙂", "\"日本 é 🙂\"");
    /* What drives a terminal or turns a line around. */
    check_json("\xc2\x9b"
               "1m\xe2\x80\xae\xe2\x81\xa6\xc2\xa0",
               "\"\\u009b1m\\u202e\\u2066\xc2\xa0\"");
}

static void bad_utf8_in_json(void **state)
{
    (void)state;
    check_json("a\xff"
               "b",
               "\"a\\ufffdb\"");
    check_json("\xc3", "\"\\ufffd\"");
    check_json("\xc0\x80", "\"\\ufffd\\ufffd\"");                       /* overlong */
    check_json("\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\"");            /* surrogate */
    check_json("\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\""); /* past the end */
    check_json("\xe2\x82", "\"\\ufffd\\ufffd\"");                       /* cut off */
}

static void json_documents(void **state)
{
    struct pb_buf b = PB_BUF_INIT;

    (void)state;
    pb_buf_putc(&b, '{');
    pb_json_key(&b, "a");
    pb_json_int(&b, INT64_MIN);
    pb_json_key(&b, "b");
    pb_buf_putc(&b, '[');
    pb_json_comma(&b);
    pb_json_bool(&b, true);
    pb_json_comma(&b);
    pb_json_string_or_null(&b, NULL);
    pb_buf_puts(&b, "]");
    pb_json_key(&b, "c");
    pb_json_string_or_null(&b, "{");
    pb_buf_puts(&b, "}\n");
    pb_json_comma(&b);
    pb_buf_puts(&b, "{}");
    assert_string_equal(b.data, "{\"a\":-9223372036854775808,\"b\":[true,null],\"c\":\"{\"}\n{}");
    pb_buf_finish(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adding),
        cmocka_unit_test(json_strings),
        cmocka_unit_test(bad_utf8_in_json),
        cmocka_unit_test(json_documents),
    };

    return RUN_TESTS(tests);
}
