#include "pb_test.h"

#include "display/table.h"

static const struct pb_column columns[] = {
    {.title = "pid", .right = true},
    {.title = "name"},
    {.title = "command", .shrinks = true},
};

static void aligned(void **state)
{
    const char *cells[] = {"1", "日本", "a.py", "4242", NULL, "b\nc"};
    struct pb_table t = {columns, 3, cells, 2};
    struct pb_print p = {.fd = -1};

    (void)state;
    pb_table_print(&p, &t);
    assert_string_equal(p.buf.data, " pid  name  command\n"
                                    "   1  日本  a.py\n"
                                    "4242        b\\nc\n");
    pb_print_finish(&p);
}

static void fits_the_terminal(void **state)
{
    const char *cells[] = {"1", "n", "python train.py --with --many --options"};
    struct pb_table t = {columns, 3, cells, 1};
    struct pb_print p = {.fd = -1, .width = 30};

    (void)state;
    pb_table_print(&p, &t);
    assert_string_equal(p.buf.data, "pid  name  command\n"
                                    "  1  n     python train.py --…\n");
    pb_print_finish(&p);
}

static void csv(void **state)
{
    const char *cells[] = {"1", "a,b", "say \"hi\"", "2", NULL, "two\nlines"};
    struct pb_table t = {columns, 3, cells, 2};
    struct pb_buf b = PB_BUF_INIT;

    (void)state;
    pb_table_csv(&b, &t);
    assert_string_equal(b.data, "pid,name,command\n"
                                "1,\"a,b\",\"say \"\"hi\"\"\"\n"
                                "2,,\"two\nlines\"\n");
    pb_buf_finish(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(aligned),
        cmocka_unit_test(fits_the_terminal),
        cmocka_unit_test(csv),
    };

    return RUN_TESTS(tests);
}
