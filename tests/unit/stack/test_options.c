#include "pb_test.h"

#include <string.h>

#include "stack/options.h"

static void words(void **state)
{
    struct pb_stack_opts o = PB_STACK_OPTS_INIT;
    struct pb_err err = {0};

    (void)state;
    assert_int_equal(o.snapshot.pause, PB_PAUSE_ONE);
    assert_int_equal(pb_stack_opts_set(&o, "all", "", &err), 0);
    assert_int_equal(pb_stack_opts_set(&o, "locals", "True", &err), 0);
    assert_int_equal(pb_stack_opts_set(&o, "locals", "off", &err), 0);
    assert_int_equal(pb_stack_opts_set(&o, "pause", "never", &err), 0);
    assert_int_equal(pb_stack_opts_set(&o, "tid", "77", &err), 0);
    assert_int_equal(pb_stack_opts_set(&o, "limit", "0", &err), 0);
    assert_true(o.snapshot.all && !o.snapshot.locals && o.snapshot.tid == 77);
    assert_true(o.snapshot.pause == PB_PAUSE_NEVER && o.snapshot.max_frames == 0);
}

/* A word that was not meant must not become another one: once a typo stopped the whole process. */
static void nonsense(void **state)
{
    static const char *const bad[][2] = {
        {"pause", "none"}, {"pause", "ALL"},    {"pause", ""},   {"all", "maybe"}, {"tid", "x"},
        {"tid", "-1"},     {"limit", "200001"}, {"limit", "1k"}, {"colour", "1"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct pb_stack_opts o = PB_STACK_OPTS_INIT;
        struct pb_err err = {0};

        assert_int_equal(pb_stack_opts_set(&o, bad[i][0], bad[i][1], &err), -1);
        assert_int_equal(err.code, PB_USAGE);
        assert_int_equal(o.snapshot.pause, PB_PAUSE_ONE);
    }
}

static void written_and_read(void **state)
{
    struct pb_stack_opts o = PB_STACK_OPTS_INIT, read = PB_STACK_OPTS_INIT;
    struct pb_buf b = PB_BUF_INIT;
    struct pb_err err = {0};
    char *rest, *word;

    (void)state;
    for (const char *const *name = pb_stack_opt_names; *name; name++)
        pb_stack_opts_set(&o, *name, strcmp(*name, "pause") == 0 ? "all" : "1", &err);
    pb_stack_opts_write(&o, &b);
    rest = b.data;
    while ((word = strsep(&rest, "&"))) {
        char *value = strchr(word, '=');

        assert_non_null(value);
        *value = '\0';
        assert_int_equal(pb_stack_opts_set(&read, word, value + 1, &err), 0);
    }
    assert_memory_equal(&o, &read, sizeof o);
    pb_buf_finish(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words),
        cmocka_unit_test(nonsense),
        cmocka_unit_test(written_and_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
