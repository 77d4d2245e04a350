#include "pb_test.h"

#include "display/print.h"

static void widths(void **state)
{
    (void)state;
    assert_int_equal(pb_text_width(""), 0);
    assert_int_equal(pb_text_width("abc"), 3);
    assert_int_equal(pb_text_width("é"), 1);
    assert_int_equal(pb_text_width("e\xcc\x81"), 1); /* e and a combining accent */
    assert_int_equal(pb_text_width("日本"), 4);
    assert_int_equal(pb_text_width("🙂"), 2);
    assert_int_equal(pb_text_width("·…"), 2);
    assert_int_equal(pb_text_width("\xff"), 1);
}

static void cleaning(void **state)
{
    struct pb_arena a = PB_ARENA_INIT;

    (void)state;
    assert_string_equal(pb_text_clean(&a, "日本 ok"), "日本 ok");
    assert_string_equal(pb_text_clean(&a, "a\nb\tc"), "a\\nb\\tc");
    assert_string_equal(pb_text_clean(&a, "\033[2Jx\x7f"), "\\x1b[2Jx\\x7f");
    assert_string_equal(pb_text_clean(&a, "\xc2\x9b"
                                          "31m"),
                        "\\x9b31m"); /* CSI in one character */
    assert_string_equal(pb_text_clean(&a, "a\xff\xfe"
                                          "b"),
                        "a\xef\xbf\xbd\xef\xbf\xbd"
                        "b");
    assert_string_equal(pb_text_clean(&a, "a\xe2\x80\xae"
                                          "b"),
                        "a\\u202eb"); /* right to left */
    pb_arena_finish(&a);
}

/* Pieces as they come from another user's process: cut anywhere, even inside a character. */
static void streaming(void **state)
{
    static const char in[] = "a\tb\n\033]0;t\a\xc2\x9b\r日\xe2\x80\xae\xff|\xe6\x97";
    static const char out[] = "a\tb\n\\x1b]0;t\\a\\x9b\\r日\\u202e\xef\xbf\xbd|"
                              "\xef\xbf\xbd\xef\xbf\xbd";

    (void)state;
    for (size_t piece = 1; piece < sizeof in; piece++) {
        struct pb_text_tail tail = {.len = 0};
        struct pb_buf b = PB_BUF_INIT;

        for (size_t at = 0; at < sizeof in - 1; at += piece)
            pb_text_stream(&tail, in + at, at + piece < sizeof in ? piece : sizeof in - 1 - at, &b);
        pb_text_stream(&tail, NULL, 0, &b);
        assert_string_equal(b.data, out);
        pb_buf_clear(&b);
        pb_text_stream(&tail, "\0x", 2, &b);
        assert_string_equal(b.data, "\\x00x");
        pb_buf_finish(&b);
    }
}

static void lines_of_another_node(void **state)
{
    struct pb_buf b = PB_BUF_INIT;

    (void)state;
    pb_text_stream(&(struct pb_text_tail){.len = 0}, "a,b\r\n1\r2\r\n", 10, &b);
    assert_string_equal(b.data, "a,b\n1\\r2\n");
    pb_buf_finish(&b);
}

static void shortening(void **state)
{
    struct pb_arena a = PB_ARENA_INIT;

    (void)state;
    assert_string_equal(pb_text_middle(&a, "short", 10), "short");
    assert_string_equal(pb_text_middle(&a, "/a/very/long/path/model.py", 13), "/a/v…model.py");
    assert_string_equal(pb_text_middle(&a, "日本語日本語", 7), "日…本語");
    assert_string_equal(pb_text_end(&a, "abcdef", 4), "abc…");
    assert_string_equal(pb_text_end(&a, "日本語", 4), "日…");
    assert_string_equal(pb_text_end(&a, "abc", 0), "");
    assert_string_equal(pb_text_middle(&a, "abcdef", 1), "…");
    for (size_t width = 0; width < 14; width++) {
        assert_true(pb_text_width(pb_text_middle(&a, "日本語 and more", width)) <= width);
        assert_true(pb_text_width(pb_text_end(&a, "日本語 and more", width)) <= width);
    }
    pb_arena_finish(&a);
}

static void cells(void **state)
{
    struct pb_print p = {.fd = -1};

    (void)state;
    pb_print_cell(&p, PB_RED, "日本", 6, false);
    pb_print_puts(&p, "|");
    pb_print_cell(&p, PB_PLAIN, "42", 6, true);
    pb_print_f(&p, "|%d", 7);
    assert_string_equal(p.buf.data, "日本  |    42|7");
    pb_print_finish(&p);
}

/* Into a file it goes byte by byte; a terminal is not driven, whatever stands at the end. */
static void what_another_has_made(void **state)
{
    static const char text[] = "{\"a\":\"\033]0;x\a\xc2\x9b\u202e\"}\r\n\xc2";
    struct pb_print file = {.fd = -1}, screen = {.fd = -1, .is_terminal = true};

    (void)state;
    pb_print_foreign(&file, text, sizeof text - 1);
    assert_string_equal(file.buf.data, text);
    pb_print_foreign(&screen, text, sizeof text - 1);
    assert_string_equal(screen.buf.data,
                        "{\"a\":\"\\x1b]0;x\\a\\x9b\\u202e\"}\n\xef\xbf\xbd");
    pb_print_finish(&file);
    pb_print_finish(&screen);
}

static void colours(void **state)
{
    struct pb_print p = {.fd = -1, .colour = true};

    (void)state;
    pb_print_text(&p, PB_RED, "x");
    pb_print_text(&p, PB_PLAIN, "y");
    pb_print_text(&p, PB_RED, "");
    assert_string_equal(p.buf.data, "\033[31mx\033[0my");
    pb_print_finish(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(widths), cmocka_unit_test(cleaning), cmocka_unit_test(streaming),
        cmocka_unit_test(lines_of_another_node),
        cmocka_unit_test(what_another_has_made),
        cmocka_unit_test(shortening),
        cmocka_unit_test(cells),  cmocka_unit_test(colours),
    };

    return RUN_TESTS(tests);
}
