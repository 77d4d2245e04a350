#include "pb_test.h"

#include "base/settings.h"

static void every_default_is_a_legal_value(void **state)
{
    (void)state;
    for (int i = 0; i < PB_SETTING_COUNT; i++) {
        const struct pb_setting *set = &pb_setting_list[i];
        char text[PB_SETTING_VALUE_MAX];
        int64_t value = -1;
        size_t len = pb_settings_format(i, set->default_value, text);

        assert_int_equal(len, strlen(text));
        assert_int_equal(pb_settings_parse(i, text, len, &value, NULL), 0);
        assert_int_equal(value, set->default_value);
        assert_true(strlen(set->name) + 9 < PB_SETTING_NAME_MAX);
        assert_int_equal(pb_settings_find(set->name, strlen(set->name)), i);
    }
}

static void keys_with_and_without_prefix(void **state)
{
    (void)state;
    assert_int_equal(pb_settings_find("eval.timeout", 12), PB_SET_EVAL_TIMEOUT);
    assert_int_equal(pb_settings_find("probing.eval.timeout", 20), PB_SET_EVAL_TIMEOUT);
    assert_int_equal(pb_settings_find("probing.", 8), -1);
    assert_int_equal(pb_settings_find("eval.timeou", 11), -1);
    assert_int_equal(pb_settings_find("", 0), -1);
}

static void texts(void **state)
{
    static const char line[] = "torch.step = trainer.step == 3 ";
    char shown[PB_SETTING_VALUE_MAX], longer[PB_SETTING_VALUE_MAX + 1];
    struct pb_settings s;
    int64_t value;

    (void)state;
    pb_settings_init(&s);
    assert_int_equal(pb_settings_apply(&s, line, strlen(line), NULL), 0);
    assert_int_equal(pb_settings_show(&s, PB_SET_TORCH_STEP, shown), 17);
    assert_string_equal(shown, "trainer.step == 3");
    assert_string_equal(pb_settings_text(&s, PB_SET_TORCH_STEP), shown);
    assert_string_equal(pb_settings_text(&s, PB_SET_TORCH_EPOCH), "");
    assert_int_equal(s.v[PB_SET_TORCH_STEP], 1);
    assert_int_equal(pb_settings_apply(&s, "torch.step=", 11, NULL), 0);
    assert_string_equal(pb_settings_text(&s, PB_SET_TORCH_STEP), "");
    assert_int_equal(s.v[PB_SET_TORCH_STEP], 0);
    memset(longer, 'x', sizeof longer);
    assert_int_equal(pb_settings_parse(PB_SET_TORCH_STEP, longer, sizeof longer, &value, NULL), -1);
    assert_int_equal(pb_settings_parse(PB_SET_TORCH_STEP, "a\tb", 3, &value, NULL), -1);
}

static int64_t number(const char *text)
{
    int64_t value = -1;

    pb_settings_parse(PB_SET_EVAL_TIMEOUT, text, strlen(text), &value, NULL);
    return value;
}

static void numbers(void **state)
{
    static const char *const wrong[] = {"",    ".5",   "5.",  "1.2345", "-1",   "+1",
                                        "1e3", "0x10", " 5",  "5s",     "0.049", "86401",
                                        "1..2", "99999999999999999999"};
    char text[PB_SETTING_VALUE_MAX];

    (void)state;
    assert_int_equal(number("30"), 30000);
    assert_int_equal(number("0.5"), 500);
    assert_int_equal(number("1.25"), 1250);
    assert_int_equal(number("1.050"), 1050);
    assert_int_equal(number("86400"), 86400000);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(number(wrong[i]), -1);
    pb_settings_format(PB_SET_EVAL_TIMEOUT, 1050, text);
    assert_string_equal(text, "1.05");
    pb_settings_format(PB_SET_EVAL_TIMEOUT, 100000, text);
    assert_string_equal(text, "100");
}

static void errors_name_the_limits(void **state)
{
    struct pb_err err = {0};
    int64_t value;

    (void)state;
    assert_int_equal(pb_settings_parse(PB_SET_EVAL_OUTPUT_LIMIT, "1.5", 3, &value, &err), -1);
    assert_string_equal(err.msg, "eval.output_limit: '1.5' is not a whole number from 1 to 4096");
    assert_int_equal(err.code, PB_USAGE);
    err = (struct pb_err){0};
    assert_int_equal(pb_settings_parse(PB_SET_AGENT_FOLLOW_FORKS, "maybe", 5, &value, &err), -1);
    assert_string_equal(err.msg, "agent.follow_forks: 'maybe' is neither on nor off");
}

static void choices(void **state)
{
    char text[PB_SETTING_VALUE_MAX];
    struct pb_err err = {0};
    int64_t value = -1;

    (void)state;
    assert_int_equal(pb_settings_parse(PB_SET_AUDIT_EVAL, "hash", 4, &value, &err), 0);
    assert_int_equal(value, PB_AUDIT_HASH);
    assert_int_equal(pb_settings_format(PB_SET_AUDIT_EVAL, PB_AUDIT_OFF, text), 3);
    assert_string_equal(text, "off");
    assert_int_equal(pb_settings_parse(PB_SET_AUDIT_EVAL, "ful", 3, &value, &err), -1);
    assert_string_equal(err.msg, "audit.eval: 'ful' is not one of full|hash|off");
}

static void lines_are_all_or_nothing(void **state)
{
    static const char good[] = "\n  eval.timeout = 5 \r\nagent.follow_forks=off\n\n";
    static const char bad[] = "eval.timeout=7\nno.such=1\n";
    struct pb_settings s;
    struct pb_err err = {0};

    (void)state;
    pb_settings_init(&s);
    assert_int_equal(pb_settings_apply_lines(&s, good, sizeof good - 1, &err), 0);
    assert_int_equal(s.v[PB_SET_EVAL_TIMEOUT], 5000);
    assert_int_equal(s.v[PB_SET_AGENT_FOLLOW_FORKS], 0);
    assert_int_equal(pb_settings_apply_lines(&s, bad, sizeof bad - 1, &err), -1);
    assert_string_equal(err.msg, "no setting 'no.such'");
    assert_int_equal(s.v[PB_SET_EVAL_TIMEOUT], 5000);
    err = (struct pb_err){0};
    assert_int_equal(pb_settings_apply_lines(&s, "eval.timeout", 12, &err), -1);
    assert_string_equal(err.msg, "'eval.timeout' is not key=value");
}

static void environment_names(void **state)
{
    char name[PB_SETTING_NAME_MAX];

    (void)state;
    pb_settings_env_name(PB_SET_EVAL_OUTPUT_LIMIT, name);
    assert_string_equal(name, "PROBING_EVAL_OUTPUT_LIMIT");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_default_is_a_legal_value),
        cmocka_unit_test(keys_with_and_without_prefix), cmocka_unit_test(texts),
        cmocka_unit_test(numbers),
        cmocka_unit_test(errors_name_the_limits),
        cmocka_unit_test(choices),
        cmocka_unit_test(lines_are_all_or_nothing),
        cmocka_unit_test(environment_names),
    };

    return RUN_TESTS(tests);
}
