#include "pb_test.h"

#include <stdio.h>

#include "display/result.h"

static void feed(struct pb_result *r, const char *line)
{
    struct pb_err err = {0};

    assert_int_equal(pb_result_line(r, line, strlen(line), &err), 0);
}

static void begin(struct pb_result *r, struct pb_print *p, int width, bool markdown)
{
    *p = (struct pb_print){.fd = -1, .width = width};
    pb_result_init(r, p, markdown);
}

static void check(struct pb_result *r, struct pb_print *p, const char *expected)
{
    pb_result_end(r);
    pb_result_finish(r);
    assert_string_equal(p->buf.data, expected);
    pb_print_finish(p);
}

static const char stack[] = "{\"columns\":[{\"name\":\"func\",\"type\":\"VARCHAR\"},"
                            "{\"name\":\"file\",\"type\":\"VARCHAR\"},"
                            "{\"name\":\"lineno\",\"type\":\"BIGINT\"}]}";

static void table(void **state)
{
    struct pb_print p;
    struct pb_result r;

    (void)state;
    begin(&r, &p, 0, false);
    feed(&r, stack);
    feed(&r, "[\"forward_pass\",\"/app/training_loop.py\",89]");
    feed(&r, "[\"transformer\",null,245]");
    feed(&r, "[null,\"a\\nb\",null]");
    check(&r, &p, "func         | file                  | lineno\n"
                  "-------------|-----------------------|-------\n"
                  "forward_pass | /app/training_loop.py | 89\n"
                  "transformer  |                       | 245\n"
                  "             | a\\nb                  |\n");
}

static void no_rows(void **state)
{
    struct pb_print p;
    struct pb_result r;

    (void)state;
    begin(&r, &p, 0, false);
    feed(&r, stack);
    feed(&r, "{\"columns\":[]}"); /* SET: nothing to show */
    feed(&r, "{\"columns\":[{\"name\":\"x\",\"type\":\"INTEGER\"}]}");
    feed(&r, "[1]");
    check(&r, &p, "func | file | lineno\n"
                  "-----|------|-------\n"
                  "\n"
                  "x\n"
                  "-\n"
                  "1\n");
}

static void values(void **state)
{
    struct pb_print p;
    struct pb_result r;

    (void)state;
    begin(&r, &p, 0, false);
    feed(&r, "{\"columns\":[{\"name\":\"v\",\"type\":\"DOUBLE\"},"
             "{\"name\":\"t\",\"type\":\"TIMESTAMP WITH TIME ZONE\"}]}");
    feed(&r, "[0.30000000000000004,\"2026-01-02T03:04:05.120000Z\"]");
    feed(&r, "[2048.0,\"2026-01-02T03:04:05.000000Z\"]");
    feed(&r, "[1e100,\"2026-01-02T03:04:05Z\"]");
    feed(&r, "[-1234.5678,null]");
    feed(&r, "[6248750.0,null]");
    feed(&r, "[0.00001234,null]");
    feed(&r, "[0.0,null]");
    feed(&r, "[0.1234567890123456789,null]");
    feed(&r, "[123456789012345680,null]");
    feed(&r, "[1e-9,null]");
    feed(&r, "[true,[1,\"a\",{\"k\":null}]]");
    feed(&r, "[222.09306335449,[0.33333333333]]");
    feed(&r, "[1794891267.25,null]");
    check(&r, &p, "v                  | t\n"
                  "-------------------|------------------------\n"
                  "0.3                | 2026-01-02 03:04:05.12Z\n"
                  "2048.0             | 2026-01-02 03:04:05Z\n"
                  "1e+100             | 2026-01-02 03:04:05Z\n"
                  "-1235              |\n"
                  "6248750.0          |\n"
                  "0.00001234         |\n"
                  "0.0                |\n"
                  "0.1235             |\n"
                  "123456789012345680 |\n"
                  "1e-09              |\n"
                  "true               | [1, \"a\", {\"k\": null}]\n"
                  "222.1              | [0.3333]\n"
                  "1794891267         |\n");
}

static void fits_the_terminal(void **state)
{
    struct pb_print p;
    struct pb_result r;

    (void)state;
    begin(&r, &p, 40, false);
    feed(&r, stack);
    feed(&r, "[\"f\",\"/a/very/long/path/to/the/training_loop.py\",89]");
    feed(&r, "[\"a name with blanks that goes on and on\",\"b.py\",1]");
    check(&r, &p, "func           | file           | lineno\n"
                  "---------------|----------------|-------\n"
                  "f              | /a/v…g_loop.py | 89\n"
                  "a name with b… | b.py           | 1\n");
}

/* Texts give way instead. */
static void numbers_are_whole(void **state)
{
    struct pb_print p;
    struct pb_result r;

    (void)state;
    begin(&r, &p, 40, false);
    feed(&r, "{\"columns\":[{\"name\":\"lr\",\"type\":\"DOUBLE\"},"
             "{\"name\":\"model\",\"type\":\"VARCHAR\"},{\"name\":\"loss\",\"type\":\"FLOAT\"},"
             "{\"name\":\"at\",\"type\":\"TIMESTAMP WITH TIME ZONE\"}]}");
    feed(&r, "[0.0125,\"DistributedDataParallel\",7.0123456,\"2026-01-02T03:04:05Z\"]");
    check(&r, &p, "lr     | model | loss  | at\n"
                  "-------|-------|-------|---------------------\n"
                  "0.0125 | Dist… | 7.012 | 2026-01-02 03:04:05Z\n");
}

static void markdown(void **state)
{
    struct pb_print p;
    struct pb_result r;

    (void)state;
    begin(&r, &p, 0, true);
    feed(&r, stack);
    feed(&r, "[\"a|b\",null,89]");
    check(&r, &p, "| func | file | lineno |\n"
                  "|---|---|---:|\n"
                  "| a\\|b |  | 89 |\n");
}

/* Behind the rows that are held, lines come out at once. */
static void streams(void **state)
{
    struct pb_print p;
    struct pb_result r;
    char line[64];

    (void)state;
    begin(&r, &p, 0, false);
    feed(&r, "{\"columns\":[{\"name\":\"n\",\"type\":\"BIGINT\"},"
             "{\"name\":\"m\",\"type\":\"BIGINT\"}]}");
    for (int i = 0; i < PB_RESULT_HELD - 1; i++) {
        snprintf(line, sizeof line, "[%d,0]", i);
        feed(&r, line);
    }
    assert_int_equal(p.buf.len, 0);
    feed(&r, "[1,0]");
    assert_true(p.buf.len > PB_RESULT_HELD);
    pb_buf_clear(&p.buf);
    feed(&r, "[12345678,1]");
    assert_string_equal(p.buf.data, "12345678 | 1\n");
    check(&r, &p, "12345678 | 1\n");
}

/* Also where there is no terminal: lines of a thousand columns are of no use to anybody. */
static void fits_a_page_in_a_pipe(void **state)
{
    struct pb_print p;
    struct pb_result r;
    char line[1200], name[1001];

    (void)state;
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    begin(&r, &p, 0, false);
    feed(&r, stack);
    snprintf(line, sizeof line, "[\"short\",\"%s\",1]", name);
    feed(&r, line);
    pb_result_end(&r);
    for (const char *s = p.buf.data, *end; *s; s = end + 1) {
        end = strchr(s, '\n');
        assert_non_null(end);
        assert_true(end - s <= PB_PIPE_WIDTH + 2); /* "…" is three bytes */
        assert_true(end - s > PB_PIPE_WIDTH / 2);
    }
    assert_non_null(strstr(p.buf.data, "xxx… | 1\n"));
    pb_result_finish(&r);
    pb_print_finish(&p);
}

static void nonsense(void **state)
{
    static const char *const lines[] = {"", "[", "17", "{}", "{\"columns\":3}", "[1]"};
    struct pb_print p;
    struct pb_result r;

    (void)state;
    begin(&r, &p, 0, false);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct pb_err err = {0};

        assert_int_equal(pb_result_line(&r, lines[i], strlen(lines[i]), &err), -1);
        assert_int_equal(err.code, PB_FAIL);
    }
    pb_result_finish(&r);
    pb_print_finish(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table),     cmocka_unit_test(no_rows),
        cmocka_unit_test(values),    cmocka_unit_test(fits_the_terminal),
        cmocka_unit_test(numbers_are_whole),
        cmocka_unit_test(markdown),  cmocka_unit_test(streams),
        cmocka_unit_test(nonsense),
        cmocka_unit_test(fits_a_page_in_a_pipe),
    };

    return RUN_TESTS(tests);
}
